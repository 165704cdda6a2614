//! MySQL's SQL. Texts are compared by their bytes in UTF-8, whatever the character sets and collations of columns are.

use arrow::compute::SortOptions;
use datafusion::common::ScalarValue;
use tidemill_sql::types::{Scalar, Type};

use crate::deparse::constant_text;
use crate::dialect::{Comparison, Dialect, Operand};
use crate::table::ForeignColumn;

#[derive(Debug)]
pub struct MysqlDialect;

impl Dialect for MysqlDialect {
    fn name(&self, name: &str) -> String {
        format!("`{}`", name.replace('`', "``"))
    }

    /// As `mysql_fdw` has it: unless a database is named, it is called as the schema of the foreign table.
    fn relation(&self, schema: &str, table: &str) -> String {
        let schema = if schema.is_empty() { "public" } else { schema };
        format!("{}.{}", self.name(schema), self.name(table))
    }

    fn literal(&self, value: &ScalarValue, ty: Type) -> Option<String> {
        if value.is_null() {
            return Some("NULL".to_string());
        }
        match value {
            // As many digits as make it the same float8 again; the exponent makes it one.
            ScalarValue::Float64(Some(value)) => return value.is_finite().then(|| format!("{value:e}")),
            ScalarValue::Float32(Some(value)) => {
                return value.is_finite().then(|| format!("{:e}", f64::from(*value)));
            }
            ScalarValue::Binary(Some(bytes)) => {
                let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                return Some(format!("x'{}'", digits.concat()));
            }
            _ => {}
        }
        let text = constant_text(value, ty).filter(|_| !ty.array)?;
        match ty.scalar {
            Scalar::Bool => Some(if text == "t" { "1" } else { "0" }.to_string()),
            Scalar::Int2 | Scalar::Int4 | Scalar::Int8 => Some(text),
            Scalar::Text | Scalar::Varchar => Some(quoted(&text)),
            Scalar::Date => in_calendar(&text, 10).then(|| format!("DATE'{text}'")),
            Scalar::Time => Some(format!("TIME'{text}'")),
            Scalar::Timestamp => in_calendar(&text, 19).then(|| format!("TIMESTAMP'{text}'")),
            Scalar::Timestamptz => {
                let text = text.strip_suffix("+00")?;
                in_calendar(text, 19).then(|| format!("TIMESTAMP'{text}'"))
            }
            _ => None,
        }
    }

    /// A document is compared as its text.
    fn by_bytes(&self, sql: &str) -> String {
        format!("CAST({sql} AS CHAR)")
    }

    /// A column of years is compared with a constant as a year: 99 is 1999.
    fn plain_number(&self, sql: &str) -> String {
        format!("({sql} + 0)")
    }

    fn has_years(&self) -> bool {
        true
    }

    /// An index on a column of texts serves its own collation, by which equal bytes are equal, too.
    fn compare(&self, sign: Comparison, left: &Operand, right: &Operand) -> Option<String> {
        let (a, b) = (self.compared(left), self.compared(right));
        Some(match sign {
            Comparison::Distinct => format!("(NOT ({a} <=> {b}))"),
            Comparison::NotDistinct => format!("({a} <=> {b})"),
            Comparison::Equal if is_indexed(left, right) => {
                format!("({} = {} AND {a} = {b})", left.sql, right.sql)
            }
            _ => format!("({a} {} {b})", sign.sql()),
        })
    }

    fn in_list(&self, value: &Operand, items: &[Operand], negated: bool) -> Option<String> {
        let list: Vec<_> = items.iter().map(|item| item.sql.as_str()).collect();
        let (list, compared) = (list.join(", "), self.compared(value));
        if negated {
            return Some(format!("({compared} NOT IN ({list}))"));
        }
        Some(match items.iter().all(|item| is_indexed(value, item)) {
            true => format!("({} IN ({list}) AND {compared} IN ({list}))", value.sql),
            false => format!("({compared} IN ({list}))"),
        })
    }

    fn compared(&self, operand: &Operand) -> String {
        match operand.is_text() && operand.value.is_none() {
            true => format!("CAST(CONVERT({} USING utf8mb4) AS BINARY)", operand.sql),
            false => operand.sql.clone(),
        }
    }

    /// Nulls come first there, and last in descending order.
    fn ordered(&self, operand: &Operand, options: SortOptions) -> String {
        let direction = if options.descending { "DESC" } else { "ASC" };
        let value = format!("{} {direction}", self.compared(operand));
        match (options.nulls_first, options.descending) {
            (true, false) | (false, true) => value,
            _ => format!("{} IS NULL {direction}, {value}", operand.sql),
        }
    }

    /// What there is no other constant for is told as the text that an INSERT gives.
    fn assigned(&self, value: &ScalarValue, column: &ForeignColumn) -> Option<String> {
        if let Some(literal) = self.literal(value, column.ty) {
            return Some(literal);
        }
        let text = constant_text(value, column.ty).filter(|_| !column.ty.array)?;
        Some(quoted(
            text.strip_suffix("+00").filter(|_| column.ty.scalar == Scalar::Timestamptz).unwrap_or(&text),
        ))
    }

    fn column_type(&self, ty: Type) -> Option<String> {
        use Scalar::*;
        let name = match ty.scalar {
            _ if ty.array => return None,
            Bool => "BOOLEAN",
            Int2 => "SMALLINT",
            Int4 => "INT",
            Int8 | Oid => "BIGINT",
            Float4 => "FLOAT",
            Float8 => "DOUBLE",
            Numeric => return decimal(ty),
            Bytea => "LONGBLOB",
            Date => "DATE",
            Time => "TIME(6)",
            Timestamp => "DATETIME(6)",
            Timestamptz => "TIMESTAMP(6)",
            Uuid => "CHAR(36)",
            Json | Jsonb => "JSON",
            Text | Varchar | Name => "LONGTEXT CHARACTER SET utf8mb4",
            _ => return None,
        };
        Some(name.to_string())
    }

    /// Otherwise an old server takes a timestamp for one that is never null.
    fn nullable(&self) -> &'static str {
        " NULL"
    }

    fn undoes_definitions(&self) -> bool {
        false
    }

    fn assigns_at_once(&self) -> bool {
        false
    }

    fn integer_sum(&self, operand: &Operand) -> String {
        format!("CAST(sum({}) AS SIGNED)", operand.sql)
    }

    fn counted_as_one(&self, sum: &str) -> String {
        format!("CAST(CASE WHEN {sum} IS NULL THEN 0 ELSE 1 END AS SIGNED)")
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Decimals without a precision would be rounded.
fn decimal(ty: Type) -> Option<String> {
    let modifier = u32::try_from(ty.typmod.checked_sub(4)?).ok()?;
    let (precision, scale) = (modifier >> 16, modifier & 0x7ff);
    (precision <= 65 && scale <= precision.min(30)).then(|| format!("DECIMAL({precision}, {scale})"))
}

/// Whether both are compared by the column's collation without a change of character set.
fn is_indexed(column: &Operand, constant: &Operand) -> bool {
    let is_plain = |value: &ScalarValue| matches!(value, ScalarValue::Utf8(Some(text)) if text.is_ascii());
    column.is_text() && column.value.is_none() && constant.value.as_ref().is_some_and(is_plain)
}

/// Years from 1000 to 9999, which is what MySQL has.
fn in_calendar(text: &str, length_min: usize) -> bool {
    text.len() >= length_min
        && text.as_bytes()[4] == b'-'
        && !text.starts_with('0')
        && text.bytes().all(|byte| byte.is_ascii_digit() || b"-: .".contains(&byte))
}
