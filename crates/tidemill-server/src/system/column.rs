//! Columns of system relations, and PostgreSQL 15's own from the table that is compiled in.

use std::collections::HashMap;

use arrow::datatypes::Field;

use tidemill_sql::types::{Scalar, Type};

use super::{Fill, SystemRelation};

/// One line a relation: schema, name, oid, kind, then `column:type` each, with `!` where null is not allowed.
const POSTGRESQL: &str = include_str!("columns.tsv");

/// A column of a system relation.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: &'static str,
    /// The type that holds it here.
    pub ty: Type,
    /// As PostgreSQL names its type.
    pub shown: &'static str,
    pub not_null: bool,
}

impl Column {
    pub fn new(name: &'static str, ty: Type) -> Self {
        Self { name, ty, shown: "", not_null: false }
    }

    /// As an Arrow field that remembers its PostgreSQL type.
    pub fn field(&self) -> Field {
        match self.shown {
            "int2vector" | "oidvector" => self.ty.vector_field(self.name, self.shown),
            _ => self.ty.field(self.name),
        }
    }

    fn parse(text: &'static str) -> Option<Self> {
        let (name, shown) = text.split_once(':')?;
        let (shown, not_null) = match shown.strip_suffix('!') {
            Some(shown) => (shown, true),
            None => (shown, false),
        };
        Some(Self { name, ty: held_as(shown), shown, not_null })
    }
}

/// PostgreSQL's relations with what fills them.
pub(super) fn of_postgresql(fillers: &HashMap<(&'static str, &'static str), Fill>) -> Vec<SystemRelation> {
    let relation = |line: &'static str| {
        let mut parts = line.split('\t');
        let (schema, name) = (parts.next()?, parts.next()?);
        let oid = parts.next()?.parse().ok()?;
        let kind = parts.next()?.chars().next()?;
        let columns = parts.map(Column::parse).collect::<Option<Vec<_>>>()?;
        let fill = fillers.get(&(schema, name)).copied();
        Some(SystemRelation::with_columns(oid, schema, name, kind, columns, fill))
    };
    POSTGRESQL
        .lines()
        .map(|line| relation(line).expect("the table is well formed, which a test checks"))
        .collect()
}

/// The type that holds values of a PostgreSQL type by its name: its own, or text for types that there are not here.
fn held_as(shown: &str) -> Type {
    match shown {
        "int2vector" => return Type::array(Scalar::Int2),
        "oidvector" => return Type::array(Scalar::Oid),
        "character varying(3)" => return Type::new(Scalar::Varchar).with_typmod(7),
        "timestamp(2) with time zone" => return Type::new(Scalar::Timestamptz).with_typmod(2),
        _ => {}
    }
    let (item, array) = match shown.strip_suffix("[]") {
        Some(item) => (item, true),
        None => (shown, false),
    };
    let scalar = match item {
        "xid" => Scalar::Oid,
        item => Scalar::ALL.into_iter().find(|s| s.display() == item).unwrap_or(Scalar::Text),
    };
    Type { array, ..Type::new(scalar) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed() {
        let relations = of_postgresql(&HashMap::new());
        assert_eq!(relations.len(), POSTGRESQL.lines().count());
        let class = relations.iter().find(|r| r.name == "pg_class").unwrap();
        assert_eq!((class.oid, class.kind), (1259, 'r'));
        assert_eq!(class.columns[0].ty, Type::new(Scalar::Oid));
        assert!(class.columns[0].not_null);
    }
}
