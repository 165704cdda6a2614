//! `pg_type`: the types that there are here, the pseudo-types, and those that system relations have columns of.

use std::collections::HashMap;
use std::sync::LazyLock;

use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError};

use super::namespace::{OWNER_OID, namespace_oid};
use super::procedure::number_of;
use super::{Fillers, PG_CATALOG, Rows, Snapshot};

pub(super) const FILLERS: Fillers = &[(PG_CATALOG, "pg_type", types)];

/// Rows of PostgreSQL 15's `pg_type` in COPY's text form; the fields of [`DataType`] tell the columns.
const POSTGRESQL: &str = include_str!("types.tsv");

/// A row of `pg_type`. Functions are named, `-` for none.
#[derive(Debug, Clone)]
pub struct DataType {
    pub oid: u32,
    pub name: &'static str,
    /// As `format_type` shows it without a modifier.
    pub shown: &'static str,
    pub length: i16,
    pub by_value: bool,
    /// `b` for base types and arrays, `p` for pseudo-types.
    pub kind: char,
    pub category: char,
    pub preferred: bool,
    pub delimiter: char,
    pub element: u32,
    pub array: u32,
    /// Subscript handler, input, output, receive, send, modifier input and output.
    pub functions: [&'static str; 7],
    pub align: char,
    pub storage: char,
    pub collation: u32,
}

impl DataType {
    fn parse(line: &'static str) -> Option<Self> {
        let mut parts = line.split('\t');
        let mut next = || parts.next();
        let letter = |text: &str| text.chars().next();
        Some(Self {
            oid: next()?.parse().ok()?,
            name: next()?,
            shown: next()?,
            length: next()?.parse().ok()?,
            by_value: next()? == "t",
            kind: letter(next()?)?,
            category: letter(next()?)?,
            preferred: next()? == "t",
            delimiter: letter(next()?)?,
            functions: [next()?, "", "", "", "", "", ""],
            element: next()?.parse().ok()?,
            array: next()?.parse().ok()?,
            align: 'i',
            storage: 'p',
            collation: 0,
        })
        .and_then(|row| {
            let functions = [row.functions[0], next()?, next()?, next()?, next()?, next()?, next()?];
            let (align, storage) = (letter(next()?)?, letter(next()?)?);
            Some(Self { functions, align, storage, collation: next()?.parse().ok()?, ..row })
        })
    }

    /// The type of this number.
    pub fn of_oid(oid: u32) -> Option<&'static DataType> {
        TYPES.binary_search_by_key(&oid, |t| t.oid).ok().map(|i| &TYPES[i])
    }

    /// The type of this `typname`.
    pub fn of_name(name: &str) -> Option<&'static DataType> {
        TYPES.iter().find(|t| t.name == name)
    }

    /// The type that a column of a system relation has in PostgreSQL.
    pub fn of_shown(shown: &str) -> Option<&'static DataType> {
        SHOWN.get(shown).map(|i| &TYPES[*i])
    }

    pub fn all() -> &'static [DataType] {
        &TYPES
    }
}

static TYPES: LazyLock<Vec<DataType>> = LazyLock::new(|| {
    let parse = |line| DataType::parse(line).expect("the table is well formed, which a test checks");
    POSTGRESQL.lines().map(parse).collect()
});

static SHOWN: LazyLock<HashMap<&'static str, usize>> =
    LazyLock::new(|| TYPES.iter().enumerate().map(|(i, t)| (t.shown, i)).collect());

/// The row of a type that values here have.
pub fn of_type(ty: Type) -> Result<&'static DataType> {
    DataType::of_oid(ty.oid())
        .ok_or_else(|| SqlError::internal(format!("type {} is not in pg_type", ty.display())))
}

fn types(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    let namespace = namespace_oid(PG_CATALOG)?;
    for t in DataType::all() {
        let functions = t.functions.map(number_of);
        rows.add([
            ("oid", t.oid.into()),
            ("typname", t.name.into()),
            ("typnamespace", namespace.into()),
            ("typowner", OWNER_OID.into()),
            ("typlen", t.length.into()),
            ("typbyval", t.by_value.into()),
            ("typtype", t.kind.into()),
            ("typcategory", t.category.into()),
            ("typispreferred", t.preferred.into()),
            ("typisdefined", true.into()),
            ("typdelim", t.delimiter.into()),
            ("typsubscript", functions[0].into()),
            ("typelem", t.element.into()),
            ("typarray", t.array.into()),
            ("typinput", functions[1].into()),
            ("typoutput", functions[2].into()),
            ("typreceive", functions[3].into()),
            ("typsend", functions[4].into()),
            ("typmodin", functions[5].into()),
            ("typmodout", functions[6].into()),
            ("typalign", t.align.into()),
            ("typstorage", t.storage.into()),
            ("typtypmod", (-1).into()),
            ("typcollation", t.collation.into()),
        ])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_sql::types::Scalar;

    #[test]
    fn every_type_of_ours_is_there() {
        for scalar in Scalar::ALL {
            for ty in [Type::new(scalar), Type::array(scalar)] {
                let row = of_type(ty).unwrap();
                assert_eq!((row.shown, row.length), (ty.display().as_str(), ty.length()));
            }
        }
    }
}
