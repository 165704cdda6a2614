//! Bulk loading: COPY where there is one, many rows a statement elsewhere.

use crate::error::Result;
use crate::target::Value;

/// Rows on their way into one table.
pub trait Load {
    fn row(&mut self, values: &[Value<'_>]) -> Result<()>;
    /// All rows are there, or none since the last statement or transaction that the database was given; the count of all.
    fn finish(self: Box<Self>) -> Result<u64>;
}

/// One line of PostgreSQL's COPY text format.
pub fn copy_text(values: &[Value<'_>], line: &mut Vec<u8>) {
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            line.push(b'\t');
        }
        match value {
            Value::Null => line.extend_from_slice(b"\\N"),
            Value::Int(value) => line.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes()),
            Value::Float(value) => line.extend_from_slice(value.to_string().as_bytes()),
            Value::Text(text) => escape(text.as_bytes(), line),
            Value::Bytes(bytes) => {
                line.extend_from_slice(b"\\\\x");
                hex(bytes, line);
            }
        }
    }
    line.push(b'\n');
}

fn escape(text: &[u8], line: &mut Vec<u8>) {
    for &byte in text {
        let letter = match byte {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => {
                line.push(byte);
                continue;
            }
        };
        line.extend_from_slice(&[b'\\', letter]);
    }
}

pub(crate) fn hex(bytes: &[u8], line: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        line.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_copy_is_escaped() {
        let mut line = Vec::new();
        copy_text(
            &[
                Value::Int(-7),
                Value::Null,
                Value::Text("a\tb\\c\nd"),
                Value::Bytes(&[0, 255]),
                Value::Float(0.5),
            ],
            &mut line,
        );
        assert_eq!(String::from_utf8(line).unwrap(), "-7\t\\N\ta\\tb\\\\c\\nd\t\\\\x00ff\t0.5\n");
    }
}
