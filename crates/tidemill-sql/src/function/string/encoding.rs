//! Bytes as text and back, and digests of bytes.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Cast;

use super::TEXT;
use crate::error::{Result, SqlError, SqlState};
use crate::function::kernel::{Bytea, Text};
use crate::function::{Param, Registry, Returns};
use crate::types::{Scalar, Type};

/// DataFusion has the digests; its constants are evaluated by its own function.
pub(super) fn register(r: &mut Registry) {
    r.native("md5", &[Param::Is(TEXT)], Returns::Is(TEXT), |mut args| {
        let digest = datafusion::functions::crypto::expr_fn::md5(args.remove(0));
        Ok(Expr::Cast(Cast::new(Box::new(digest), DataType::Utf8)))
    });
    for (name, build) in [
        ("sha224", (|args: Vec<_>| digest("sha224", args)) as fn(_) -> _),
        ("sha256", |args| digest("sha256", args)),
        ("sha384", |args| digest("sha384", args)),
        ("sha512", |args| digest("sha512", args)),
    ] {
        r.native(name, &[Param::Is(Type::new(Scalar::Bytea))], Returns::Is(Type::new(Scalar::Bytea)), build);
    }
    r.strict2::<Bytea, Text, Text>("encode", |_, bytes, format| encode(bytes, format));
    r.strict2::<Text, Text, Bytea>("decode", |_, text, format| decode(text, format));
}

fn digest(name: &str, mut args: Vec<Expr>) -> Result<Expr> {
    let method = Expr::Literal(ScalarValue::Utf8(Some(name.to_string())), None);
    Ok(datafusion::functions::crypto::expr_fn::digest(args.remove(0), method))
}

fn bad_format(format: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized encoding: \"{format}\""))
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Base64 lines are this long, as MIME has them.
const BASE64_LINE: usize = 76;

fn encode(bytes: &[u8], format: &str) -> Result<String> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => Ok(bytes.iter().map(|b| format!("{b:02x}")).collect()),
        "escape" => Ok(bytes
            .iter()
            .map(|b| match b {
                b'\\' => "\\\\".to_string(),
                0 | 0x80.. => format!("\\{b:03o}"),
                _ => char::from(*b).to_string(),
            })
            .collect()),
        "base64" => {
            let mut out = String::new();
            for (i, chunk) in bytes.chunks(3).enumerate() {
                if i > 0 && i * 4 % BASE64_LINE == 0 {
                    out.push('\n');
                }
                let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
                for k in 0..4 {
                    let sextet = (word >> (18 - 6 * k)) & 63;
                    out.push(if k <= chunk.len() { char::from(BASE64[sextet as usize]) } else { '=' });
                }
            }
            Ok(out)
        }
        _ => Err(bad_format(format)),
    }
}

fn decode(text: &str, format: &str) -> Result<Vec<u8>> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    match format.to_ascii_lowercase().as_str() {
        "hex" => {
            let digits: Vec<char> = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            if digits.len() % 2 == 1 {
                return Err(invalid("invalid hexadecimal data: odd number of digits".into()));
            }
            let value = |c: char| {
                c.to_digit(16).ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")))
            };
            digits.chunks(2).map(|pair| Ok((value(pair[0])? * 16 + value(pair[1])?) as u8)).collect()
        }
        "escape" => {
            let mut out = Vec::new();
            crate::text::parse_bytea(text.as_bytes(), &mut out)?;
            Ok(out)
        }
        "base64" => {
            let mut bits = 0u32;
            let mut count = 0;
            let mut out = vec![];
            for c in text.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b'=') {
                let sextet = BASE64.iter().position(|b| *b == c).ok_or_else(|| {
                    invalid(format!(
                        "invalid symbol \"{}\" found while decoding base64 sequence",
                        char::from(c)
                    ))
                })?;
                bits = bits << 6 | sextet as u32;
                count += 6;
                if count >= 8 {
                    count -= 8;
                    out.push((bits >> count) as u8);
                }
            }
            Ok(out)
        }
        _ => Err(bad_format(format)),
    }
}
