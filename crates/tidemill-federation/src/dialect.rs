//! How a kind of database is told what it is asked. What is not said otherwise is standard SQL.

use std::fmt;

use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use datafusion::common::ScalarValue;
use tidemill_sql::types::{Scalar, Type};

use crate::fact::TableFacts;
use crate::select::RemoteSelect;
use crate::table::ForeignColumn;
use crate::truncation::Truncation;

/// Only called for types and operators that the [`Capabilities`](crate::connector::Capabilities) name.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// A name, whatever words are kept there for other things.
    fn name(&self, name: &str) -> String {
        quote_always(name)
    }

    /// A table; the schema may be empty.
    fn relation(&self, schema: &str, table: &str) -> String {
        match schema {
            "" => self.name(table),
            schema => format!("{}.{}", self.name(schema), self.name(table)),
        }
    }

    /// A constant. `None`: there is no way to write exactly this one.
    fn literal(&self, value: &ScalarValue, ty: Type) -> Option<String>;

    fn compare(&self, sign: Comparison, left: &Operand, right: &Operand) -> Option<String> {
        Some(format!("({} {} {})", self.compared(left), sign.sql(), self.compared(right)))
    }

    /// `IN` and `NOT IN`; a list has at least one item.
    fn in_list(&self, value: &Operand, items: &[Operand], negated: bool) -> Option<String> {
        let items: Vec<_> = items.iter().map(|item| self.compared(item)).collect();
        let not = if negated { "NOT " } else { "" };
        Some(format!("({} {not}IN ({}))", self.compared(value), items.join(", ")))
    }

    /// Whether the columns have together the values of one row of many, as a relation of one text; `None`: there is no such
    /// thing there, or it is longer than that.
    fn among(&self, _columns: &[Member], _facts: &TableFacts, _bytes_max: usize) -> Option<String> {
        None
    }

    /// The text of a value of a type that there is none of here.
    fn as_text(&self, sql: &str) -> String {
        sql.to_string()
    }

    /// The text of an address, as it is shown.
    fn address(&self, sql: &str) -> String {
        self.as_text(sql)
    }

    /// A text that is compared by its bytes wherever it gets.
    fn by_bytes(&self, sql: &str) -> String {
        sql.to_string()
    }

    /// Whether a column of numbers may be one of [years](TableFacts::years).
    fn has_years(&self) -> bool {
        false
    }

    /// A number that is compared as one, from a column of years.
    fn plain_number(&self, sql: &str) -> String {
        sql.to_string()
    }

    /// Something as it is compared: texts by their bytes.
    fn compared(&self, operand: &Operand) -> String {
        operand.sql.clone()
    }

    /// Something to group by that is selected as well.
    fn grouped(&self, operand: &Operand) -> String {
        self.compared(operand)
    }

    /// An item of ORDER BY.
    fn ordered(&self, operand: &Operand, options: SortOptions) -> String {
        order_item(&self.compared(operand), options)
    }

    /// A condition that is a value of type bool.
    fn truth(&self, operand: &Operand) -> Option<String> {
        Some(operand.sql.clone())
    }

    /// Of two conditions.
    fn or(&self, left: &str, right: &str) -> Option<String> {
        Some(format!("({left} OR {right})"))
    }

    /// The sum of int2 or int4, as int8; too large a sum is an error.
    fn integer_sum(&self, operand: &Operand) -> String {
        format!("sum({})", operand.sql)
    }

    /// The sum of float4 or float8 in float8, or null, and whether an infinity came in.
    fn float_sum(&self, operand: &Operand) -> (String, String) {
        (format!("sum({})", operand.sql), "false".to_string())
    }

    /// How many values are in a sum, as far as a sum has to know: 1 for any number of them, which nobody has to count.
    fn counted_as_one(&self, sum: &str) -> String {
        format!("CAST(CASE WHEN {sum} IS NULL THEN 0 ELSE 1 END AS bigint)")
    }

    /// `min` or `max`. A timestamptz is wanted as the timestamp that it is in UTC.
    fn extreme(&self, function: &str, operand: &Operand) -> String {
        format!("{function}({})", self.compared(operand))
    }

    /// A constant as the new value of a column.
    fn assigned(&self, value: &ScalarValue, column: &ForeignColumn) -> Option<String> {
        self.literal(value, column.ty)
    }

    /// The type for a column that keeps every value of a type as it is; `None`: there is none.
    fn column_type(&self, _ty: Type) -> Option<String> {
        None
    }

    /// TRUNCATE of tables, as one statement or several; `None`: not in this way.
    fn truncate(&self, relations: &[String], how: Truncation) -> Option<Vec<String>> {
        let delete = |relation: &String| format!("DELETE FROM {relation}");
        (how == Truncation::PLAIN).then(|| relations.iter().map(delete).collect())
    }

    /// What is behind the type of a column that may be null.
    fn nullable(&self) -> &'static str {
        ""
    }

    /// Whether CREATE TABLE and DROP TABLE go with the transaction that is rolled back.
    fn undoes_definitions(&self) -> bool {
        true
    }

    /// `INSERT … ON CONFLICT DO NOTHING`
    fn skips_conflicts(&self) -> bool {
        false
    }

    /// `RETURNING`
    fn returns_rows(&self) -> bool {
        false
    }

    /// Whether the new values of an UPDATE are those of the row before it, and not of the assignments to its left.
    fn assigns_at_once(&self) -> bool {
        true
    }

    /// What is selected where only the number of rows matters.
    fn no_items(&self) -> &'static str {
        "NULL"
    }

    /// A condition on the pages that rows are on: from one, and up to another that is not in it.
    fn page_range(&self, _from: Option<u64>, _to: Option<u64>) -> Option<String> {
        None
    }

    /// The whole query.
    fn select(&self, select: &RemoteSelect) -> String {
        let items: Vec<_> = select.items.iter().map(|item| item.sql.as_str()).collect();
        let items = if items.is_empty() { self.no_items().to_string() } else { items.join(", ") };
        let mut sql = format!("SELECT {items} FROM {}", select.relation(self));
        if !select.conditions.is_empty() {
            sql += &format!(" WHERE {}", select.conditions.join(" AND "));
        }
        if let Some(keys @ 1..) = select.keys {
            let keys = (1..=keys).map(|key| key.to_string());
            sql += &format!(" GROUP BY {}", keys.collect::<Vec<_>>().join(", "));
        }
        if !select.order.is_empty() {
            sql += &format!(" ORDER BY {}", select.order.join(", "));
        }
        if let Some(rows) = select.limit {
            sql += &format!(" LIMIT {rows}");
        }
        sql
    }
}

/// An item of standard SQL's ORDER BY.
pub fn order_item(sql: &str, options: SortOptions) -> String {
    let direction = if options.descending { "DESC" } else { "ASC" };
    let nulls = if options.nulls_first { "FIRST" } else { "LAST" };
    format!("{sql} {direction} NULLS {nulls}")
}

/// A column or a constant, and its type.
#[derive(Debug, Clone)]
pub struct Operand {
    pub sql: String,
    pub ty: Type,
    /// Of a constant.
    pub value: Option<ScalarValue>,
}

impl Operand {
    pub fn is_text(&self) -> bool {
        is_text(self.ty)
    }
}

/// Something, as it is there, and the values that it is wanted to have.
#[derive(Debug)]
pub struct Member {
    pub operand: Operand,
    /// Of the values. They are compared without a cast.
    pub ty: Type,
    pub values: ArrayRef,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Distinct,
    NotDistinct,
}

impl Comparison {
    pub const ALL: [Comparison; 8] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
        Comparison::Distinct,
        Comparison::NotDistinct,
    ];

    pub fn sql(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Distinct => "IS DISTINCT FROM",
            Comparison::NotDistinct => "IS NOT DISTINCT FROM",
        }
    }

    /// Whether it asks which comes first.
    pub fn is_order(self) -> bool {
        use Comparison::*;
        matches!(self, Less | LessOrEqual | Greater | GreaterOrEqual)
    }
}

/// Types of whole numbers.
pub fn is_integer(ty: Type) -> bool {
    !ty.array && matches!(ty.scalar, Scalar::Int2 | Scalar::Int4 | Scalar::Int8)
}

pub fn is_text(ty: Type) -> bool {
    matches!(ty.scalar, Scalar::Text | Scalar::Varchar | Scalar::Name) && !ty.array
}

/// A name in double quotes.
pub fn quote_always(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
