//! SQLite's SQL. Texts are compared by their bytes whatever collation a column declares.

use datafusion::common::ScalarValue;
use tidemill_sql::types::{Scalar, Type};

use crate::deparse::constant_text;
use crate::dialect::{Dialect, Operand};
use crate::table::ForeignColumn;

#[derive(Debug)]
pub struct SqliteDialect;

/// Decimal digits, and powers of ten, with which SQLite surely reads a number as the float8 next to it: both are floats
/// without rounding, so what is multiplied or divided is rounded once.
const DIGITS_MAX: usize = 15;
const POWER_MAX: i32 = 22;

impl Dialect for SqliteDialect {
    fn literal(&self, value: &ScalarValue, ty: Type) -> Option<String> {
        if value.is_null() {
            return Some("NULL".to_string());
        }
        if let ScalarValue::Float64(Some(value)) = value {
            return float(*value);
        }
        if let ScalarValue::Binary(Some(bytes)) = value {
            let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            return Some(format!("x'{}'", digits.concat()));
        }
        let text = constant_text(value, ty).filter(|_| !ty.array)?;
        match ty.scalar {
            Scalar::Bool => Some(if text == "t" { "1" } else { "0" }.to_string()),
            Scalar::Int2 | Scalar::Int4 | Scalar::Int8 => Some(text),
            Scalar::Text | Scalar::Varchar | Scalar::Name => Some(format!("'{}'", text.replace('\'', "''"))),
            _ => None,
        }
    }

    /// What is compared here is kept there as a text.
    fn assigned(&self, value: &ScalarValue, column: &ForeignColumn) -> Option<String> {
        use Scalar::*;
        let is_text = matches!(
            column.ty.scalar,
            Date | Time | Timestamp | Timestamptz | Uuid | Json | Jsonb | Numeric | Bpchar
        );
        let is_epoch = column.options.get("column_type") == Some("INT");
        if value.is_null() || !is_text || column.ty.array {
            return self.literal(value, column.ty);
        }
        let text = constant_text(value, column.ty).filter(|_| !is_epoch)?;
        let text = text.strip_suffix("+00").unwrap_or(&text);
        Some(format!("'{}'", text.replace('\'', "''")))
    }

    /// Decimals would be rounded to floats, so they are texts.
    fn column_type(&self, ty: Type) -> Option<String> {
        use Scalar::*;
        let name = match ty.scalar {
            _ if ty.array => "TEXT",
            Bool => "BOOLEAN",
            Int2 => "SMALLINT",
            Int4 => "INTEGER",
            Int8 | Oid => "BIGINT",
            Float4 | Float8 => "DOUBLE",
            Bytea => "BLOB",
            Date => "DATE",
            Time => "TIME",
            Timestamp | Timestamptz => "TIMESTAMP",
            Uuid => "UUID",
            Json | Jsonb => "JSON",
            _ => "TEXT",
        };
        Some(name.to_string())
    }

    fn skips_conflicts(&self) -> bool {
        true
    }

    fn returns_rows(&self) -> bool {
        true
    }

    fn compared(&self, operand: &Operand) -> String {
        match operand.is_text() && operand.value.is_none() {
            true => format!("{} COLLATE BINARY", operand.sql),
            false => operand.sql.clone(),
        }
    }
}

/// `None`: SQLite might read it as another float.
fn float(value: f64) -> Option<String> {
    if !value.is_finite() {
        // A NaN is null there.
        return value.is_infinite().then(|| if value > 0.0 { "9e999" } else { "-9e999" }.to_string());
    }
    let shown = format!("{value:e}");
    let (digits, power) = shown.split_once('e')?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let count = whole.trim_start_matches('-').len() + fraction.len();
    let power = power.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?;
    let is_exact = count <= DIGITS_MAX && power.abs() <= POWER_MAX;
    // The exponent makes it a float, not an integer.
    is_exact.then_some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written is read as the same float.
    #[test]
    fn floats_are_exact() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut written = 0;
        for i in 0..20_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = match i % 3 {
                0 => (random >> 20) as f64 / 1000.0,
                1 => f64::from(i) * 1e-5,
                _ => f64::from_bits(random),
            };
            let Some(sql) = float(value) else { continue };
            written += 1;
            let read: f64 = connection.query_row(&format!("SELECT {sql}"), [], |row| row.get(0)).unwrap();
            assert_eq!(read.to_bits(), value.to_bits(), "{sql}");
        }
        assert!(written > 9_000, "{written}");
        assert_eq!(float(f64::NAN), None);
        assert_eq!(float(1.5), Some("1.5e0".into()));
        assert_eq!(float(-3.0), Some("-3e0".into()));
    }
}
