//! The order of jsonb values, as bytes that compare as the values do (`compareJsonbContainers` in PostgreSQL).
//!
//! Null, strings, numbers, booleans, arrays, objects, in this order; of arrays and objects first those with fewer
//! members. As a document, a scalar is an array of one element that comes before other arrays of one; an empty
//! array comes before everything.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, LargeBinaryBuilder, LargeStringArray};

use super::json_value::{Node, parse};
use crate::error::Result;
use crate::numeric::Numeric;

/// The keys of jsonb documents.
pub fn keys(documents: &LargeStringArray) -> Result<ArrayRef> {
    let mut out = LargeBinaryBuilder::with_capacity(documents.len(), documents.value_data().len());
    let mut key = Vec::new();
    for document in documents {
        match document {
            Some(document) => {
                key.clear();
                write_document(&parse(document)?, &mut key)?;
                out.append_value(&key);
            }
            None => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

fn write_document(node: &Node, out: &mut Vec<u8>) -> Result<()> {
    out.push(match node {
        Node::Array(items) if items.is_empty() => 0,
        Node::Array(_) => 2,
        Node::Object(_) => 3,
        _ => 1,
    });
    write_value(node, out)
}

fn write_value(node: &Node, out: &mut Vec<u8>) -> Result<()> {
    match node {
        Node::Null => out.push(0),
        Node::String(text) => {
            out.push(1);
            write_bytes(text.as_bytes(), out);
        }
        Node::Number(digits) => {
            out.push(2);
            let mut number = Vec::new();
            Numeric::parse(digits)?.encode(&mut number);
            write_bytes(Numeric::key(&number), out);
        }
        Node::Bool(value) => out.extend([3, u8::from(*value)]),
        Node::Array(items) => {
            out.push(4);
            out.extend((items.len() as u64).to_be_bytes());
            items.iter().try_for_each(|item| write_value(item, out))?;
        }
        Node::Object(members) => {
            out.push(5);
            out.extend((members.len() as u64).to_be_bytes());
            for (key, value) in members {
                out.push(1);
                write_bytes(key.as_bytes(), out);
                write_value(value, out)?;
            }
        }
    }
    Ok(())
}

/// Bytes with an end: a zero inside is told from it by what follows.
fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend([0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write_document(&parse(text).unwrap(), &mut out).unwrap();
        out
    }

    #[test]
    fn documents_are_in_the_order_of_postgresql() {
        let ordered = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"ab\"",
            "\"b\"",
            "-2",
            "1",
            "2.5",
            "10",
            "false",
            "true",
            "[null]",
            "[1]",
            "[[]]",
            "[{}]",
            "[1, 1]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": 2}",
            "{\"b\": 0}",
            "{\"a\": 1, \"b\": 1}",
        ];
        for pair in ordered.windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
        }
        assert_eq!(key("{\"a\": 1}"), key("{\"a\": 1.0}"));
    }
}
