//! `pg_settings`.

use tidemill_sql::Result;

use super::{Fillers, PG_CATALOG, Rows, Snapshot};

pub(super) const FILLERS: Fillers = &[(PG_CATALOG, "pg_settings", settings)];

fn settings(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for row in snapshot.session.settings.rows() {
        let values = row.enumvals.map(|values| values.iter().map(|v| (*v).to_string()).collect::<Vec<_>>());
        rows.add([
            ("name", row.name.into()),
            ("setting", row.setting.into()),
            ("unit", row.unit.into()),
            ("category", row.category.into()),
            ("short_desc", row.short_desc.into()),
            ("context", row.context.into()),
            ("vartype", row.vartype.into()),
            ("source", row.source.into()),
            ("min_val", row.min_val.into()),
            ("max_val", row.max_val.into()),
            ("enumvals", values.into()),
            ("boot_val", row.boot_val.into()),
            ("reset_val", row.reset_val.into()),
            ("pending_restart", false.into()),
        ])?;
    }
    Ok(())
}
