//! Streams as foreign tables of the server `pipelinedb`, as PipelineDB 1.x had them.

use tidemill_sql::Result;

use super::namespace::OWNER_OID;
use super::{Fillers, PG_CATALOG, Rows, Snapshot};
use crate::catalog::Relation;

pub(super) const FILLERS: Fillers = &[
    (PG_CATALOG, "pg_foreign_data_wrapper", wrappers),
    (PG_CATALOG, "pg_foreign_server", servers),
    (PG_CATALOG, "pg_foreign_table", tables),
];

/// The wrapper and the server of all streams.
pub const WRAPPER: &str = "stream_fdw";
pub const SERVER: &str = "pipelinedb";
const WRAPPER_OID: u32 = 14_990;
const SERVER_OID: u32 = 14_991;

fn wrappers(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    rows.add([("oid", WRAPPER_OID.into()), ("fdwname", WRAPPER.into()), ("fdwowner", OWNER_OID.into())])
}

fn servers(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    rows.add([
        ("oid", SERVER_OID.into()),
        ("srvname", SERVER.into()),
        ("srvowner", OWNER_OID.into()),
        ("srvfdw", WRAPPER_OID.into()),
    ])
}

fn tables(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for relation in snapshot.relations.iter().filter(|r| matches!(r, Relation::Stream(_))) {
        rows.add([("ftrelid", relation.oid().into()), ("ftserver", SERVER_OID.into())])?;
    }
    Ok(())
}
