//! `pg_database`, `pg_tablespace` and `pg_stat_database`: the one database.

use tidemill_sql::Result;

use super::comment::DATABASE_OID;
use super::namespace::OWNER_OID;
use super::{Fillers, PG_CATALOG, Rows, Snapshot, Value};
use crate::tables::DATABASE;

pub(super) const FILLERS: Fillers = &[
    (PG_CATALOG, "pg_database", databases),
    (PG_CATALOG, "pg_tablespace", tablespaces),
    (PG_CATALOG, "pg_stat_database", statistics),
];

const TABLESPACES: [(u32, &str); 2] = [(1663, "pg_default"), (1664, "pg_global")];

/// PostgreSQL's number for UTF8.
const UTF8: i32 = 6;

fn databases(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    rows.add([
        ("oid", DATABASE_OID.into()),
        ("datname", DATABASE.into()),
        ("datdba", OWNER_OID.into()),
        ("encoding", UTF8.into()),
        ("datlocprovider", 'c'.into()),
        ("datallowconn", true.into()),
        ("datconnlimit", (-1).into()),
        ("dattablespace", TABLESPACES[0].0.into()),
        // Texts are compared byte by byte.
        ("datcollate", "C".into()),
        ("datctype", "C".into()),
    ])
}

fn tablespaces(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (oid, name) in TABLESPACES {
        rows.add([("oid", oid.into()), ("spcname", name.into()), ("spcowner", OWNER_OID.into())])?;
    }
    Ok(())
}

fn statistics(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    use std::sync::atomic::Ordering::Relaxed;
    let inserted = snapshot.relations.iter().filter_map(|relation| match relation {
        crate::catalog::Relation::Stream(stream) => Some(stream.stats.rows.load(Relaxed)),
        crate::catalog::Relation::Table(table) => Some(table.stream.stats.rows.load(Relaxed)),
        _ => None,
    });
    rows.add([
        ("datid", DATABASE_OID.into()),
        ("datname", DATABASE.into()),
        ("numbackends", snapshot.server.sessions().len().into()),
        ("xact_commit", snapshot.server.engine.commits().into()),
        ("tup_inserted", inserted.sum::<u64>().into()),
        ("stats_reset", Value::Time(snapshot.server.started_us)),
    ])
}
