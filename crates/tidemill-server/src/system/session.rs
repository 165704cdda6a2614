//! `pg_stat_activity`, `pg_stat_ssl`: the sessions of the server; `pg_cursors`, `pg_prepared_statements`: what this
//! session holds.

use tidemill_sql::Result;

use super::comment::DATABASE_OID;
use super::namespace::OWNER_OID;
use super::{Fillers, PG_CATALOG, Rows, Snapshot, Value};
use crate::activity::{State, without_passwords};
use crate::tables::DATABASE;

pub(super) const FILLERS: Fillers = &[
    (PG_CATALOG, "pg_stat_activity", activity),
    (PG_CATALOG, "pg_stat_ssl", encryption),
    (PG_CATALOG, "pg_cursors", cursors),
    (PG_CATALOG, "pg_prepared_statements", statements),
];

fn cursors(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (name, cursor) in &snapshot.session.cursors {
        rows.add([
            ("name", name.as_str().into()),
            ("statement", cursor.text.as_str().into()),
            ("is_holdable", cursor.hold.into()),
            ("is_binary", cursor.binary.into()),
            ("is_scrollable", cursor.scroll.into()),
            ("creation_time", Value::Time(cursor.created_us)),
        ])?;
    }
    Ok(())
}

/// The unnamed statement of the protocol is not shown, as in PostgreSQL.
fn statements(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for (name, prepared) in snapshot.session.statements.iter().filter(|(name, _)| !name.is_empty()) {
        let executions = prepared.executions();
        let count =
            |count: fn((u64, u64)) -> u64| executions.map_or(Value::Null, |all| (count(all) as i64).into());
        rows.add([
            ("name", name.as_str().into()),
            ("statement", without_passwords(prepared.text()).into_owned().into()),
            ("prepare_time", Value::Time(prepared.prepared_us)),
            ("from_sql", prepared.from_sql.into()),
            ("generic_plans", count(|(_, generic)| generic)),
            ("custom_plans", count(|(custom, _)| custom)),
        ])?;
    }
    Ok(())
}

fn activity(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for session in snapshot.server.sessions() {
        let now = session.now();
        let waits = now.state != State::Active;
        rows.add([
            ("datid", DATABASE_OID.into()),
            ("datname", DATABASE.into()),
            ("pid", i64::from(session.process_id).into()),
            ("usesysid", OWNER_OID.into()),
            ("usename", session.user.as_str().into()),
            ("application_name", now.application_name.as_ref().into()),
            ("client_addr", session.client.map(|a| a.ip().to_string()).into()),
            ("client_port", session.client.map(|a| i64::from(a.port())).into()),
            ("backend_start", Value::Time(session.began_us)),
            ("xact_start", now.transaction_began_us.map_or(Value::Null, Value::Time)),
            ("query_start", now.query_began_us.map_or(Value::Null, Value::Time)),
            ("state_change", Value::Time(now.state_changed_us)),
            ("wait_event_type", waits.then_some("Client").into()),
            ("wait_event", waits.then_some("ClientRead").into()),
            ("state", now.state.as_str().into()),
            ("query", now.query.into()),
            ("backend_type", "client backend".into()),
        ])?;
    }
    Ok(())
}

fn encryption(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for session in snapshot.server.sessions() {
        rows.add([("pid", i64::from(session.process_id).into()), ("ssl", false.into())])?;
    }
    Ok(())
}
