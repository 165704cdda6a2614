//! `pg_tables`, `pg_views` and other views of PostgreSQL that list relations.

use std::sync::atomic::Ordering;

use tidemill_sql::Result;

use super::class;
use super::role::ROLES;
use super::{Fillers, PG_CATALOG, Rows, Snapshot, all};
use crate::catalog::Relation;
use crate::tables::SCHEMA;

pub(super) const FILLERS: Fillers = &[
    (PG_CATALOG, "pg_tables", tables),
    (PG_CATALOG, "pg_views", views),
    (PG_CATALOG, "pg_timezone_names", zones),
    (PG_CATALOG, "pg_stat_all_tables", statistics),
    (PG_CATALOG, "pg_stat_user_tables", statistics),
];

/// PostgreSQL counts tables only here, not foreign tables.
fn tables(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    let system = all().iter().filter(|r| r.kind == 'r').map(|r| (r.schema, r.name));
    let user = snapshot.relations.iter().filter(|r| matches!(r, Relation::Table(_)));
    for (schema, name) in system.chain(user.map(|r| (SCHEMA, r.name()))) {
        rows.add([
            ("schemaname", schema.into()),
            ("tablename", name.into()),
            ("tableowner", ROLES[0].name.into()),
            ("hasindexes", false.into()),
            ("hasrules", false.into()),
            ("hastriggers", false.into()),
            ("rowsecurity", false.into()),
        ])?;
    }
    Ok(())
}

fn views(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for relation in all().iter().filter(|r| r.kind == 'v') {
        rows.add([
            ("schemaname", relation.schema.into()),
            ("viewname", relation.name.into()),
            ("viewowner", ROLES[0].name.into()),
        ])?;
    }
    for relation in &snapshot.relations {
        if let Some(definition) = class::definition(relation) {
            rows.add([
                ("schemaname", SCHEMA.into()),
                ("viewname", relation.name().into()),
                ("viewowner", ROLES[0].name.into()),
                ("definition", definition.into()),
            ])?;
        }
    }
    Ok(())
}

/// Since the server started: what was inserted into streams, and the groups of views.
fn statistics(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for relation in &snapshot.relations {
        let (inserted, live) = match relation {
            Relation::Stream(stream) => (stream.stats.rows.load(Ordering::Relaxed), 0),
            Relation::View(view) => (0, view.view.size().0),
            Relation::Table(table) => (table.stream.stats.rows.load(Ordering::Relaxed), table.view.size().0),
            // They have no rows of their own.
            Relation::Transform(_) | Relation::PlainView(_) | Relation::Foreign(_) => continue,
        };
        rows.add([
            ("relid", relation.oid().into()),
            ("schemaname", SCHEMA.into()),
            ("relname", relation.name().into()),
            ("n_tup_ins", inserted.into()),
            ("n_tup_upd", 0.into()),
            ("n_tup_del", 0.into()),
            ("n_live_tup", live.into()),
            ("n_dead_tup", 0.into()),
        ])?;
    }
    Ok(())
}

fn zones(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    use chrono::{DateTime, Offset, TimeZone};
    use chrono_tz::OffsetComponents;
    let Some(now) = DateTime::from_timestamp_micros(snapshot.taken_us) else { return Ok(()) };
    for zone in chrono_tz::TZ_VARIANTS {
        let offset = zone.offset_from_utc_datetime(&now.naive_utc());
        let seconds = i64::from(offset.fix().local_minus_utc());
        rows.add([
            ("name", zone.name().into()),
            ("abbrev", offset.to_string().into()),
            ("utc_offset", super::Value::Interval(seconds * 1_000_000)),
            ("is_dst", (!offset.dst_offset().is_zero()).into()),
        ])?;
    }
    Ok(())
}
