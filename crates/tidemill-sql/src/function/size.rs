//! Sizes of relations and of the database on disk, and sizes for people.

use super::Registry;
use super::kernel::*;
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric as Number;
use crate::planner::vars::SessionVars;
use crate::types::Scalar;

/// `pg_default`, where everything is.
const DEFAULT_TABLESPACE: u32 = 1663;

pub(super) fn register(r: &mut Registry) {
    for name in ["pg_relation_size", "pg_table_size", "pg_total_relation_size"] {
        r.maybe1::<Regclass, Int8>(name, |vars, oid| Ok(vars.objects.relation_bytes(oid).map(bytes)));
    }
    // All that is kept is in the main fork.
    r.maybe2::<Regclass, Text, Int8>("pg_relation_size", |vars, oid, fork| {
        let size = vars.objects.relation_bytes(oid).map(bytes);
        match fork {
            "main" => Ok(size),
            "fsm" | "vm" | "init" => Ok(size.map(|_| 0)),
            _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid fork name")
                .with_hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")),
        }
    });
    r.maybe1::<Regclass, Int8>("pg_indexes_size", |vars, oid| {
        Ok(vars.objects.relation_bytes(oid).map(|_| 0))
    });
    r.strict1::<Text, Int8>("pg_database_size", |vars, name| database(vars, name));
    r.strict1::<Oid, Int8>("pg_database_size", |vars, _| Ok(bytes(vars.objects.database_bytes())));
    r.strict1::<Text, Int8>("pg_tablespace_size", |vars, name| {
        Ok(if name == "pg_default" { bytes(vars.objects.database_bytes()) } else { 0 })
    });
    r.strict1::<Oid, Int8>("pg_tablespace_size", |vars, oid| {
        Ok(if oid == DEFAULT_TABLESPACE { bytes(vars.objects.database_bytes()) } else { 0 })
    });
    r.strict1::<Int8, Text>("pg_size_pretty", |_, size| Ok(pretty(i128::from(size))));
    r.strict1::<Numeric, Text>("pg_size_pretty", |_, size| pretty_numeric(&size));
    r.maybe1::<Oid, Text>("pg_relation_filepath", |_, _| Ok(None));
    r.maybe1::<Oid, Oid>("pg_relation_filenode", |vars, oid| {
        Ok(vars.objects.name(Scalar::Regclass, oid).map(|_| 0))
    });
}

fn bytes(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn database(vars: &SessionVars, name: &str) -> Result<i64> {
    if name != vars.database {
        let message = format!("database \"{name}\" does not exist");
        return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
    }
    Ok(bytes(vars.objects.database_bytes()))
}

/// `dbsize.c`: a unit is used up to 10 times the next one, then halves are rounded away from zero.
fn pretty(size: i128) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    if size.abs() < 10 * 1024 {
        return format!("{size} bytes");
    }
    // One bit more than the unit is kept to round by.
    let mut doubled = size / (1 << 9);
    for (i, unit) in UNITS.iter().enumerate().skip(1) {
        if doubled.abs() < 20 * 1024 - 1 || i == UNITS.len() - 1 {
            return format!("{} {unit}", (doubled + doubled.signum()) / 2);
        }
        doubled /= 1 << 10;
    }
    String::new()
}

fn pretty_numeric(size: &Number) -> Result<String> {
    match size.to_i64() {
        Ok(whole) => Ok(pretty(i128::from(whole))),
        Err(_) => Err(SqlError::out_of_range("bigint")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_in_postgresql() {
        let cases = [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (-10_240, "-10 kB"),
            (1_000_000, "977 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (1_099_511_627_776, "1024 GB"),
            (11_258_999_068_426_240, "10 PB"),
        ];
        for (size, shown) in cases {
            assert_eq!(pretty(size), shown, "{size}");
        }
    }
}
