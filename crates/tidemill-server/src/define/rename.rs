//! ALTER of views: new names.

use std::sync::Arc;

use tidemill_sql::statement::{AlterAction, Name};
use tidemill_sql::{Result, SqlError, SqlState};

use super::{exists, missing, plain_view, public};
use crate::catalog::{
    Change, ContinuousTransform, ContinuousView, ForeignTable, ForeignTableObject, PlainView,
    PlainViewObject, Relation, TransformObject, ViewObject,
};
use crate::join;
use crate::pg::wire_error::Notice;
use crate::query::Planner;

pub async fn alter_view(
    planner: &Planner,
    name: &Name,
    if_exists: bool,
    action: AlterAction,
) -> Result<Vec<Notice>> {
    let catalog = &planner.server.catalog;
    let _change = catalog.change.lock().await;
    let plain = public(name)?;
    let view = match catalog.get(plain) {
        Some(view @ (Relation::View(_) | Relation::Transform(_) | Relation::PlainView(_))) => view,
        Some(_) => {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{plain}\" is not a view")));
        }
        None if if_exists => {
            return Ok(vec![Notice::new(format!("relation \"{plain}\" does not exist, skipping"))]);
        }
        None => return Err(missing("relation", plain)),
    };
    let AlterAction::RenameTo(to) = action else {
        return Err(SqlError::unsupported("a column cannot be added to a view")
            .with_hint("CREATE OR REPLACE can add one; the state of a continuous view then starts empty."));
    };
    let to = public(&to)?;
    if catalog.get(to).is_some() {
        return Err(exists(to));
    }
    rename(planner, view, to).await.map(|()| vec![])
}

/// The state stays where it is, as the engine knows views by their numbers; the views that name it name it anew.
pub(super) async fn rename(planner: &Planner, view: Relation, to: &str) -> Result<()> {
    let catalog = &planner.server.catalog;
    let from = view.name().to_string();
    let readers = plain_view::readers_after_renaming(catalog, &from, to)?;
    let renamed = match &view {
        Relation::View(view) => {
            let object = ViewObject { name: to.into(), active: view.view.is_active(), ..view.object.clone() };
            let (oid, table) = (view.oid, Arc::clone(&view.table));
            Relation::View(Arc::new(ContinuousView { oid, object, view: Arc::clone(&view.view), table }))
        }
        Relation::Transform(old) => {
            let active = old.transform.is_active();
            let object = TransformObject { name: to.into(), active, ..old.object.clone() };
            let (oid, transform, schema) = (old.oid, Arc::clone(&old.transform), Arc::clone(&old.schema));
            let (outputs, deliveries) = (old.outputs.clone(), old.deliveries.clone());
            Relation::Transform(Arc::new(ContinuousTransform {
                oid,
                object,
                transform,
                schema,
                outputs,
                deliveries,
            }))
        }
        Relation::PlainView(view) => {
            let object = PlainViewObject { name: to.into(), ..view.object.clone() };
            Relation::PlainView(Arc::new(PlainView::new(view.oid, object)?))
        }
        Relation::Foreign(table) => {
            if let Some(reader) = join::joining(catalog, &from).first() {
                let kind = reader.kind();
                let message = format!("cannot rename \"{from}\", which a {kind} joins by that name");
                return Err(SqlError::unsupported(message)
                    .with_hint(format!("Drop {kind} \"{}\" and create it again.", reader.name())));
            }
            let object = ForeignTableObject { name: to.into(), ..table.object.clone() };
            Relation::Foreign(Arc::new(ForeignTable::new(table.oid, object)))
        }
        other @ (Relation::Stream(_) | Relation::Table(_)) => {
            return Err(SqlError::unsupported(format!("a {} cannot be renamed", other.kind())));
        }
    };
    let before = catalog.plain_readers(&from);
    catalog.uninstall(&from);
    catalog.install(renamed.clone());
    let readers: Vec<_> = readers.into_iter().map(Arc::new).collect();
    for reader in &readers {
        catalog.install(Relation::PlainView(Arc::clone(reader)));
    }
    let kept = match plain_view::check_readers(planner, to).await {
        Ok(()) => {
            let mut changes = vec![match &renamed {
                Relation::View(view) => Change::PutView(view.oid, &view.object),
                Relation::Transform(transform) => Change::PutTransform(transform.oid, &transform.object),
                Relation::PlainView(view) => Change::PutPlainView(view.oid, &view.object),
                Relation::Stream(stream) => Change::PutStream(stream.oid, &stream.object),
                Relation::Table(table) => Change::PutTable(table.oid, &table.object),
                Relation::Foreign(table) => Change::PutForeignTable(table.oid, &table.object),
            }];
            changes.extend(readers.iter().map(|reader| Change::PutPlainView(reader.oid, &reader.object)));
            catalog.persist(&changes)
        }
        Err(error) => Err(error),
    };
    if kept.is_err() {
        catalog.uninstall(to);
        catalog.install(view);
        before.into_iter().for_each(|reader| catalog.install(Relation::PlainView(reader)));
    }
    kept
}
