//! Functions about the session: its connection, settings, search path and encodings.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use datafusion::logical_expr::Volatility;

use super::kernel::*;
use super::{Call, Param, Registry, Returns};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Scalar, Type};

const TEXT: Param = Param::Is(Type::new(Scalar::Text));
const BOOL: Param = Param::Is(Type::new(Scalar::Bool));

/// The one encoding that there is, by its number in PostgreSQL.
const UTF8: (i32, &str) = (6, "UTF8");

pub(super) fn register(r: &mut Registry) {
    connection(r);
    r.volatile(others);
    settings(r);
    // A transaction is told from others by when it began.
    r.nullary::<Int8>("txid_current", Volatility::Stable, |vars| Ok(vars.transaction_now.us()));
    r.kernel("current_schemas", &[BOOL], Returns::Is(Type::array(Scalar::Name)), schemas);
    r.strict1::<Int4, Text>("pg_encoding_to_char", |_, number| {
        Ok(if number == UTF8.0 { UTF8.1.to_string() } else { String::new() })
    });
    r.strict1::<Text, Int4>("pg_char_to_encoding", |_, name| {
        let known = matches!(name.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode");
        Ok(if known { UTF8.0 } else { -1 })
    });
    r.nullary::<Text>("getdatabaseencoding", Volatility::Stable, |_| Ok(UTF8.1.into()));
    r.nullary::<Text>("pg_client_encoding", Volatility::Stable, |_| Ok(UTF8.1.into()));
    r.nullary::<Bool>("pg_is_in_recovery", Volatility::Stable, |_| Ok(false));
    r.nullary::<Bool>("pg_is_wal_replay_paused", Volatility::Stable, |_| Ok(false));
    // There are no temporary relations, so no schema of them.
    r.nullary::<Oid>("pg_my_temp_schema", Volatility::Stable, |_| Ok(0));
    r.strict1::<Oid, Bool>("pg_is_other_temp_schema", |_, _| Ok(false));
    r.strict1::<Regclass, Bool>("pg_relation_is_publishable", |_, _| Ok(false));
    r.nullary::<Text>("pipeline_version", Volatility::Stable, |_| {
        Ok(format!("Tidemill {} (streams and continuous views as PipelineDB 1.0)", env!("CARGO_PKG_VERSION")))
    });
    r.nullary::<Text>("version", Volatility::Stable, |vars| {
        let compatible = vars.objects.setting("server_version")?;
        let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
        Ok(format!("PostgreSQL {compatible} on {arch}-{os}, 64-bit"))
    });
}

fn connection(r: &mut Registry) {
    r.nullary::<Int4>("pg_backend_pid", Volatility::Stable, |vars| {
        Ok(vars.objects.connection().process_id as i32)
    });
    r.nullary::<Timestamptz>("pg_postmaster_start_time", Volatility::Stable, |vars| {
        Ok(vars.objects.started_us())
    });
    r.nullary::<Timestamptz>("pg_conf_load_time", Volatility::Stable, |vars| Ok(vars.objects.started_us()));
    let ends: [(&str, &str, bool); 2] =
        [("inet_client_addr", "inet_client_port", false), ("inet_server_addr", "inet_server_port", true)];
    for (address, port, server) in ends {
        let end = move |call: &Call| {
            let connection = call.vars.objects.connection();
            if server { connection.server } else { connection.client }
        };
        r.boxed(address, &[], Returns::Is(Type::new(Scalar::Text)), move |call| {
            call.rows::<Text>(|_| Ok(end(call).map(|a| a.ip().to_string())))
        });
        r.boxed(port, &[], Returns::Is(Type::new(Scalar::Int4)), move |call| {
            call.rows::<Int4>(|_| Ok(end(call).map(|a| i32::from(a.port()))))
        });
    }
}

/// Sessions other than one's own, and all of them.
fn others(r: &mut Registry) {
    r.nullary::<Bool>("pg_reload_conf", Volatility::Volatile, |vars| Ok(vars.objects.reload()));
    r.strict1::<Int4, Bool>("pg_cancel_backend", |vars, id| {
        Ok(u32::try_from(id).is_ok_and(|id| vars.objects.cancel(id)))
    });
    r.strict1::<Int4, Bool>("pg_terminate_backend", |vars, id| {
        Ok(u32::try_from(id).is_ok_and(|id| vars.objects.terminate(id)))
    });
    r.strict2::<Int4, Int8, Bool>("pg_terminate_backend", |vars, id, timeout| match timeout {
        0 => Ok(u32::try_from(id).is_ok_and(|id| vars.objects.terminate(id))),
        ..0 => Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "\"timeout\" must not be negative")),
        _ => Err(SqlError::unsupported("pg_terminate_backend does not wait for the end of the session")
            .with_hint("Leave the timeout out, and look at pg_stat_activity.")),
    });
}

fn settings(r: &mut Registry) {
    r.strict1::<Text, Text>("current_setting", |vars, name| vars.objects.setting(name));
    r.maybe2::<Text, Bool, Text>("current_setting", |vars, name, missing_ok| {
        match vars.objects.setting(name) {
            Ok(value) => Ok(Some(value)),
            Err(error) if missing_ok && error.state == SqlState::UNDEFINED_OBJECT => Ok(None),
            Err(error) => Err(error),
        }
    });
    r.volatile(|r| {
        let text = Returns::Is(Type::new(Scalar::Text));
        r.kernel("set_config", &[TEXT, TEXT, BOOL], text, |call| {
            let (name, value) = (call.column::<Text>(0)?, call.column::<Text>(1)?);
            let local = call.column::<Bool>(2)?;
            call.rows::<Text>(|row| {
                let (name, value) = (row!(name, row), value.get(row)?);
                let local = local.get(row)?.unwrap_or(false);
                call.vars.objects.change_setting(name, value, local).map(Some)
            })
        });
    });
}

/// The search path, with `pg_catalog` where it is searched unasked if that is wanted.
fn schemas(call: &Call) -> Result<ArrayRef> {
    let implicit = call.column::<Bool>(0)?;
    let mut out = ListBuilder::new(StringBuilder::new());
    for row in 0..call.rows {
        let path = &call.vars.search_path;
        match implicit.get(row)? {
            None => out.append_null(),
            Some(implicit) => {
                let unasked = implicit && !path.iter().any(|s| s == "pg_catalog");
                let first = unasked.then_some("pg_catalog");
                out.append_value(first.into_iter().chain(path.iter().map(String::as_str)).map(Some));
            }
        }
    }
    Ok(Arc::new(out.finish()))
}
