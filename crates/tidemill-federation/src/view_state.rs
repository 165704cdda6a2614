//! Continuous views of other servers: their columns as states, which `combine` merges here.
//!
//! ```text
//! SELECT k, combine(avg) FROM v GROUP BY k  =>  SELECT k, partial_combine(avg) … GROUP BY k   of each server
//! ```
//!
//! What a column is a state of is asked of the server; one that has nodes itself asks those.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::execution::session_state::SessionState;
use futures::StreamExt;
use futures::future::join_all;
use tidemill_sql::aggregate::combine::{Combination, not_combinable};
use tidemill_sql::aggregate::{Layout, PARTIAL_STATE, StateForm, state_name};
use tidemill_sql::planner::plan_error;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};

use crate::bound::Bounds;
use crate::cascade::Route;
use crate::connector::{RemoteColumn, RemoteQuery};
use crate::multi_tenant::Relation;
use crate::node::DeadNodes;
use crate::table::{ForeignColumn, ForeignTable};

/// A table with one column more, the state that another column shows.
pub type WithState = (Arc<dyn TableProvider>, Arc<StateForm>);

/// The state of a column, in the words of the server.
pub fn state_of(name: &str) -> String {
    format!("{PARTIAL_STATE}({name})")
}

/// The states of a group there, merged.
pub fn combined(name: &str) -> String {
    format!("{}({name})", Combination::State.name())
}

/// `None`: it is no foreign table.
pub async fn with_state(
    table: &Arc<dyn TableProvider>,
    column: usize,
    session: &SessionState,
) -> Option<Result<WithState>> {
    let any = table.as_ref() as &dyn Any;
    if let Some(table) = any.downcast_ref::<ForeignTable>() {
        let form = table.form(column, session).await;
        return Some(form.map(|form| (Arc::new(table.with_state(column, &form)) as _, form)));
    }
    let relation = any.downcast_ref::<Relation>()?;
    Some(of_all(relation, column, session).await)
}

/// All children show the same aggregate. One that is not there is read, or left out, as any other query would.
async fn of_all(relation: &Relation, column: usize, session: &SessionState) -> Result<WithState> {
    let children = relation.shown(column).ok_or_else(|| not_combinable(Combination::Value.name()))?;
    let forms = join_all(children.iter().map(|(table, place)| table.form(*place, session))).await;
    let mut known: Option<(usize, Arc<StateForm>)> = None;
    let mut failure = None;
    for (i, form) in forms.into_iter().enumerate() {
        match (form, &known) {
            (Ok(form), None) => known = Some((i, form)),
            (Ok(form), Some((_, first))) if form == *first => {}
            (Ok(form), Some((first_at, first))) => {
                let name = |i: usize| children[i].0.definition().name.clone();
                let message =
                    format!("states of {} and {} cannot be combined", first.layout(), form.layout());
                let detail =
                    format!("The first are those of \"{}\", the others of \"{}\".", name(*first_at), name(i));
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_detail(detail));
            }
            (Err(error), _) if error.state.0.starts_with("08") => failure = Some(error),
            (Err(error), _) => return Err(error),
        }
    }
    match (known, failure) {
        (Some((_, form)), _) => Ok((Arc::new(relation.with_state(column, &form)), form)),
        (None, Some(failure)) => Err(failure),
        (None, None) => Err(not_combinable(Combination::Value.name())),
    }
}

impl ForeignTable {
    /// Asks the server what a column is a state of.
    async fn form(&self, column: usize, session: &SessionState) -> Result<Arc<StateForm>> {
        let no_view = || not_combinable(Combination::Value.name());
        let (definition, connector) = (self.definition(), self.connector());
        let column = definition.columns.get(column).ok_or_else(no_view)?;
        if !connector.is_cascade() {
            return Err(no_view());
        }
        let dialect = connector.capabilities().dialect;
        let (name, relation) = (dialect.name(&column.remote), definition.relation(dialect));
        let text = Type::new(Scalar::Text);
        let sql =
            format!("SELECT {}({name}) AS layout FROM {relation} WHERE false", Combination::Layout.name());
        let route = session.config().get_extension::<Route>().unwrap_or_default();
        let skips = session.config().get_extension::<DeadNodes>().is_some_and(|policy| policy.skip);
        let query = RemoteQuery {
            sql,
            columns: vec![RemoteColumn { name: "layout".into(), ty: text, remote: "layout".into() }],
            table: definition.name.clone(),
            relation,
            cascade: route.cascade(connector.as_ref(), &definition.name, self.server(), skips)?,
            ..RemoteQuery::default()
        };
        let schema = Arc::new(Schema::new(vec![text.field("layout")]));
        let mut rows =
            Arc::clone(connector).rows(Arc::new(query), schema, Bounds::of_rows(1), None, Box::new(|_| {}));
        let Some(answer) = rows.next().await else { return Err(no_view()) };
        let answer = answer.map_err(plan_error).map_err(|error| match error.state {
            // It is another kind of server, or another kind of column.
            SqlState::UNDEFINED_FUNCTION | SqlState::WRONG_OBJECT_TYPE => {
                no_view().with_context(format!("server \"{}\"", self.server()))
            }
            _ => error,
        })?;
        let layouts = answer.column(0).as_string_opt::<i32>();
        let layout = layouts.filter(|layouts| !layouts.is_empty()).map(|layouts| layouts.value(0));
        let layout = Layout::decode(layout.ok_or_else(no_view)?);
        let layout = layout.map_err(|error| error.with_context(format!("server \"{}\"", self.server())))?;
        StateForm::try_new(layout).map(Arc::new).map_err(plan_error)
    }

    /// The table with the states that a column shows as its last.
    pub(crate) fn with_state(&self, column: usize, form: &StateForm) -> Self {
        let mut definition = (**self.definition()).clone();
        if let Some(shown) = self.definition().columns.get(column) {
            definition.columns.push(ForeignColumn {
                name: state_name(&definition.schema(), &shown.name),
                ty: form.encoded_type(),
                is_state: true,
                ..shown.clone()
            });
        }
        self.with_definition(definition)
    }
}
