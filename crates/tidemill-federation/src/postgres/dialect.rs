//! PostgreSQL's SQL, as it means the same whatever the settings and collations of a server are.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use tidemill_sql::name::quote_literal;
use tidemill_sql::types::{Scalar, Type};

use crate::deparse::constant_text;
use crate::dialect::{Comparison, Dialect, Member, Operand};
use crate::fact::TableFacts;
use crate::table::ForeignColumn;
use crate::truncation::Truncation;

#[derive(Debug)]
pub struct PostgresDialect;

/// As PostgreSQL's, where texts are compared by their bytes always.
#[derive(Debug)]
pub struct TidemillDialect;

impl Dialect for TidemillDialect {
    fn relation(&self, schema: &str, table: &str) -> String {
        PostgresDialect.relation(schema, table)
    }

    fn literal(&self, value: &ScalarValue, ty: Type) -> Option<String> {
        PostgresDialect.literal(value, ty)
    }

    fn float_sum(&self, operand: &Operand) -> (String, String) {
        PostgresDialect.float_sum(operand)
    }

    fn column_type(&self, ty: Type) -> Option<String> {
        PostgresDialect.column_type(ty)
    }

    fn truncate(&self, relations: &[String], how: Truncation) -> Option<Vec<String>> {
        PostgresDialect.truncate(relations, how)
    }

    fn undoes_definitions(&self) -> bool {
        false
    }

    fn skips_conflicts(&self) -> bool {
        true
    }

    fn returns_rows(&self) -> bool {
        true
    }

    fn no_items(&self) -> &'static str {
        PostgresDialect.no_items()
    }

    fn extreme(&self, function: &str, operand: &Operand) -> String {
        match operand.ty.scalar {
            Scalar::Timestamptz => format!("{function}({}) AT TIME ZONE 'UTC'", operand.sql),
            _ => format!("{function}({})", operand.sql),
        }
    }
}

/// Orders texts by their bytes.
const BY_BYTES: &str = " COLLATE \"C\"";

impl Dialect for PostgresDialect {
    fn truncate(&self, relations: &[String], how: Truncation) -> Option<Vec<String>> {
        let restarts = if how.restarts { "RESTART" } else { "CONTINUE" };
        let cascades = if how.cascades { "CASCADE" } else { "RESTRICT" };
        Some(vec![format!("TRUNCATE {} {restarts} IDENTITY {cascades}", relations.join(", "))])
    }

    /// Unless a schema is named, it is `public`, whatever the search path is.
    fn relation(&self, schema: &str, table: &str) -> String {
        let schema = if schema.is_empty() { "public" } else { schema };
        format!("{}.{}", self.name(schema), self.name(table))
    }

    /// A constant with its type: `'1'::integer`.
    fn literal(&self, value: &ScalarValue, ty: Type) -> Option<String> {
        let shown = ty.with_typmod(-1).display();
        if value.is_null() {
            return Some(format!("NULL::{shown}"));
        }
        let text = constant_text(value, ty)?;
        Some(match ty.scalar {
            Scalar::Int4 if !ty.array && !text.starts_with('-') => text,
            Scalar::Bool if !ty.array => if text == "t" { "true" } else { "false" }.to_string(),
            _ => format!("{}::{shown}", quote_literal(&text).trim_start()),
        })
    }

    /// A text says nothing of its type, because the column may be of one that there is none of here.
    fn assigned(&self, value: &ScalarValue, column: &ForeignColumn) -> Option<String> {
        let is_text = matches!(column.ty.scalar, Scalar::Text | Scalar::Varchar) && !column.ty.array;
        match value.is_null() {
            _ if !is_text => self.literal(value, column.ty),
            true => Some("NULL".into()),
            false => Some(quote_literal(&constant_text(value, column.ty)?).trim_start().to_string()),
        }
    }

    fn as_text(&self, sql: &str) -> String {
        format!("{sql}::text")
    }

    fn address(&self, sql: &str) -> String {
        format!("pg_catalog.abbrev({sql})")
    }

    fn by_bytes(&self, sql: &str) -> String {
        format!("({sql}{BY_BYTES})")
    }

    /// Equal texts have equal bytes in the collations of all columns that are not [told](Self::by_bytes); their order needs to be
    /// told.
    fn compare(&self, sign: Comparison, left: &Operand, right: &Operand) -> Option<String> {
        let collation = if sign.is_order() && left.is_text() { BY_BYTES } else { "" };
        Some(format!("({} {} {}{collation})", left.sql, sign.sql(), right.sql))
    }

    fn in_list(&self, value: &Operand, items: &[Operand], negated: bool) -> Option<String> {
        if let Some(array) = array_of(items) {
            let test = if negated { "<> ALL" } else { "= ANY" };
            return Some(format!("({} {test} ({array}))", value.sql));
        }
        let items: Vec<_> = items.iter().map(|item| item.sql.as_str()).collect();
        let not = if negated { "NOT " } else { "" };
        Some(format!("({} {not}IN ({}))", value.sql, items.join(", ")))
    }

    /// An array that is compared as a whole is hashed, if its elements are of the column's type; otherwise it is a relation.
    fn among(&self, columns: &[Member], facts: &TableFacts, bytes_max: usize) -> Option<String> {
        let hashes_arrays = facts.version? >= ARRAYS_HASHED_SINCE;
        let arrays = columns.iter().map(|column| array(Arc::clone(&column.values), column.ty));
        let arrays = arrays.collect::<Option<Vec<_>>>()?;
        let is_of_type = |column: &Member| {
            let is_plain = |ty: Type| matches!(ty.scalar, Scalar::Text | Scalar::Varchar);
            let (own, other) = (column.operand.ty, column.ty);
            own.scalar == other.scalar || is_plain(own) && is_plain(other)
        };
        let names: Vec<_> = columns.iter().map(|column| column.operand.sql.as_str()).collect();
        let sql = match (columns, arrays.as_slice()) {
            ([], _) => return None,
            ([column], _) if column.values.len() < ARRAY_MIN => return None,
            ([column], [array]) if hashes_arrays && is_of_type(column) => {
                format!("({} = ANY ({array}))", column.operand.sql)
            }
            ([column], [array]) => format!("({} IN (SELECT unnest({array})))", column.operand.sql),
            _ => format!("(({}) IN (SELECT * FROM unnest({})))", names.join(", "), arrays.join(", ")),
        };
        (sql.len() <= bytes_max).then_some(sql)
    }

    fn compared(&self, operand: &Operand) -> String {
        format!("{}{}", operand.sql, if operand.is_text() { BY_BYTES } else { "" })
    }

    fn grouped(&self, operand: &Operand) -> String {
        operand.sql.clone()
    }

    /// A sum that overflows is an error there, so an infinite sum is one of an infinity.
    fn float_sum(&self, operand: &Operand) -> (String, String) {
        let sum = match operand.ty.scalar {
            Scalar::Float4 => format!("sum({}::double precision)", operand.sql),
            _ => format!("sum({})", operand.sql),
        };
        let infinite = format!("coalesce({sum} IN ('Infinity', '-Infinity'), false)");
        (sum, infinite)
    }

    fn no_items(&self) -> &'static str {
        ""
    }

    fn page_range(&self, from: Option<u64>, to: Option<u64>) -> Option<String> {
        let bound = |sign: &str, page: u64| format!("(ctid {sign} '({page},0)'::tid)");
        match (from, to) {
            (Some(from), Some(to)) => Some(format!("{} AND {}", bound(">=", from), bound("<", to))),
            (Some(from), None) => Some(bound(">=", from)),
            (None, Some(to)) => Some(bound("<", to)),
            (None, None) => None,
        }
    }

    fn column_type(&self, ty: Type) -> Option<String> {
        Some(ty.display())
    }

    fn skips_conflicts(&self) -> bool {
        true
    }

    fn returns_rows(&self) -> bool {
        true
    }

    fn extreme(&self, function: &str, operand: &Operand) -> String {
        let value = format!("{function}({})", self.compared(operand));
        match operand.ty.scalar {
            Scalar::Timestamptz => format!("{value} AT TIME ZONE 'UTC'"),
            _ => value,
        }
    }
}

/// Constants from which on a list is an array, which takes less to read.
const ARRAY_MIN: usize = 10;

/// The version of PostgreSQL that hashes arrays of constants.
const ARRAYS_HASHED_SINCE: i32 = 140_000;

/// Many constants as one.
fn array_of(items: &[Operand]) -> Option<String> {
    let first = items.first().filter(|_| items.len() >= ARRAY_MIN)?;
    let values = items.iter().map(|item| item.value.clone()).collect::<Option<Vec<_>>>()?;
    array(ScalarValue::iter_to_array(values).ok()?, first.ty)
}

/// Values as one constant.
fn array(values: ArrayRef, ty: Type) -> Option<String> {
    let array = SingleRowListArrayBuilder::new(values).with_nullable(true).build_list_scalar();
    let ty = Type::array(ty.scalar);
    Some(format!("{}::{}", quote_literal(&constant_text(&array, ty)?).trim_start(), ty.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_their_types() {
        let literal = |value: ScalarValue, ty| PostgresDialect.literal(&value, ty).unwrap();
        let all =
            |values: ArrayRef| SingleRowListArrayBuilder::new(values).with_nullable(true).build_list_scalar();
        let numbers =
            || Arc::new([Some(9), None, Some(-8)].into_iter().collect::<arrow::array::Int32Array>());
        let answers = Arc::new(arrow::array::BooleanArray::from(vec![true, false]));
        for (value, ty, wanted) in [
            (ScalarValue::Int32(Some(9)), Type::new(Scalar::Int4), "9"),
            (ScalarValue::Int32(Some(-9)), Type::new(Scalar::Int4), "'-9'::integer"),
            (ScalarValue::Boolean(Some(true)), Type::new(Scalar::Bool), "true"),
            (all(numbers()), Type::array(Scalar::Int4), "'{9,NULL,-8}'::integer[]"),
            (all(answers), Type::array(Scalar::Bool), "'{t,f}'::boolean[]"),
            (ScalarValue::Null, Type::array(Scalar::Bool), "NULL::boolean[]"),
        ] {
            assert_eq!(literal(value, ty), wanted);
        }
    }

    #[test]
    fn many_constants_are_an_array() {
        let item = |text: String| {
            let value = ScalarValue::Utf8(Some(text));
            let ty = Type::new(Scalar::Text);
            Operand { sql: PostgresDialect.literal(&value, ty).unwrap(), ty, value: Some(value) }
        };
        let column = Operand { sql: "\"c\"".into(), ty: Type::new(Scalar::Varchar), value: None };
        let items: Vec<_> = (0..10).map(|i| item(format!("'{i}\\, "))).collect();
        let list = |items: &[Operand], negated| PostgresDialect.in_list(&column, items, negated).unwrap();
        assert_eq!(list(&items[..2], true), r#"("c" NOT IN (E'''0\\, '::text, E'''1\\, '::text))"#);
        let elements: Vec<_> = (0..10).map(|i| format!(r#""''{i}\\\\, ""#)).collect();
        assert_eq!(list(&items, false), format!("(\"c\" = ANY (E'{{{}}}'::text[]))", elements.join(",")));
        assert!(list(&items, true).starts_with("(\"c\" <> ALL ("));
    }

    #[test]
    fn many_values_are_a_relation_if_the_server_has_one() {
        let member = |own, ty, values: ArrayRef| {
            let operand = Operand { sql: "\"c\"".into(), ty: Type::new(own), value: None };
            Member { operand, ty: Type::new(ty), values }
        };
        let numbers = || Arc::new((0..10).collect::<arrow::array::Int64Array>()) as ArrayRef;
        let at = |version| TableFacts { version, ..TableFacts::default() };
        let among = |columns: &[Member], version| PostgresDialect.among(columns, &at(version), 200);
        let same = [member(Scalar::Int8, Scalar::Int8, numbers())];
        let listed = "'{0,1,2,3,4,5,6,7,8,9}'::bigint[]";
        assert_eq!(among(&same, Some(150_000)), Some(format!("(\"c\" = ANY ({listed}))")));
        let unnested = Some(format!("(\"c\" IN (SELECT unnest({listed})))"));
        assert_eq!(among(&same, Some(130_000)), unnested);
        assert_eq!(among(&[member(Scalar::Int4, Scalar::Int8, numbers())], Some(150_000)), unnested);
        let [one, other] =
            [member(Scalar::Int4, Scalar::Int8, numbers()), member(Scalar::Int8, Scalar::Int8, numbers())];
        let rows = format!("((\"c\", \"c\") IN (SELECT * FROM unnest({listed}, {listed})))");
        assert_eq!(among(&[one, other], Some(150_000)), Some(rows));
        // Few, a server that is no PostgreSQL, and a text that is too long.
        assert_eq!(among(&[member(Scalar::Int8, Scalar::Int8, numbers().slice(0, 9))], Some(150_000)), None);
        assert_eq!(among(&same, None), None);
        let long = Arc::new((0..10).map(|_| Some("x".repeat(20))).collect::<arrow::array::StringArray>());
        assert_eq!(among(&[member(Scalar::Text, Scalar::Text, long)], Some(150_000)), None);
    }
}
