//! `= ANY` and `<> ALL` of an array that is known are lists, which servers, indexes and joins know how to look up.
//!
//! ```text
//! before: "array equals any"(id, '{1,2}', '=')
//! after:  id IN (1, 2)
//! ```

use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::simplify::ExprSimplifyResult;
use datafusion::logical_expr::{Expr, lit};

use arrow::array::Array;

use crate::types::{Scalar, Type};

pub(super) const EQUALS_ANY: &str = "array equals any";
pub(super) const DIFFERS_ALL: &str = "array differs all";
/// Each item is an expression of the plan, so a longer array stays one.
const ITEMS_MAX: usize = 10_000;

/// The function that compares with an array whose items are of this type.
pub(crate) fn function(op: &str, all: bool, element: Type) -> &'static str {
    use Scalar::*;
    // As with IN: values of others may be equal although their bytes differ.
    let is_plain = matches!(
        element.scalar,
        Bool | Int2
            | Int4
            | Int8
            | Oid
            | Text
            | Varchar
            | Name
            | Date
            | Time
            | Timestamp
            | Timestamptz
            | Uuid
            | Bytea
    );
    match (op, all) {
        ("=", false) if is_plain => EQUALS_ANY,
        ("<>" | "!=", true) if is_plain => DIFFERS_ALL,
        (_, false) => "array compare any",
        (_, true) => "array compare all",
    }
}

/// Of a function whose calls may become lists: whether of `NOT IN`.
pub(crate) fn is_negated(name: &str) -> Option<bool> {
    match name {
        EQUALS_ANY => Some(false),
        DIFFERS_ALL => Some(true),
        _ => None,
    }
}

/// An array with a null is a list with one, which means the same: true if an item is equal, else null.
pub(super) fn simplify(name: &str, args: Vec<Expr>) -> Result<ExprSimplifyResult> {
    let is_any = name == EQUALS_ANY;
    let (true, [left, Expr::Literal(ScalarValue::List(list), _), _]) =
        (is_any || name == DIFFERS_ALL, &args[..])
    else {
        return Ok(ExprSimplifyResult::Original(args));
    };
    if list.is_null(0) || list.value_length(0) as usize > ITEMS_MAX {
        return Ok(ExprSimplifyResult::Original(args));
    }
    let values = list.value(0);
    if values.is_empty() {
        return Ok(ExprSimplifyResult::Simplified(lit(!is_any)));
    }
    let item = |place| Ok(Expr::Literal(ScalarValue::try_from_array(&values, place)?, None));
    let items = (0..values.len()).map(item).collect::<Result<Vec<_>>>()?;
    Ok(ExprSimplifyResult::Simplified(left.clone().in_list(items, !is_any)))
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::col;

    use super::*;

    fn simplified(name: &str, items: &[Option<i32>]) -> String {
        let items: Vec<_> = items.iter().map(|item| ScalarValue::Int32(*item)).collect();
        let list = ScalarValue::new_list(&items, &arrow::datatypes::DataType::Int32, true);
        let args = vec![col("id"), Expr::Literal(ScalarValue::List(list), None), lit("=")];
        match simplify(name, args).unwrap() {
            ExprSimplifyResult::Simplified(expr) => expr.to_string(),
            ExprSimplifyResult::Original(_) => "as it was".into(),
        }
    }

    #[test]
    fn arrays_that_are_known_are_lists() {
        let few = [Some(1), None, Some(3)];
        assert_eq!(simplified(EQUALS_ANY, &few), "id IN ([Int32(1), Int32(NULL), Int32(3)])");
        assert_eq!(simplified(DIFFERS_ALL, &few), "id NOT IN ([Int32(1), Int32(NULL), Int32(3)])");
        assert_eq!(simplified(EQUALS_ANY, &[]), "Boolean(false)");
        assert_eq!(simplified(DIFFERS_ALL, &[]), "Boolean(true)");
        assert_eq!(simplified("array compare any", &few), "as it was");
        assert!(simplified(EQUALS_ANY, &vec![Some(1); ITEMS_MAX]).starts_with("id IN"));
        assert_eq!(simplified(EQUALS_ANY, &vec![Some(1); ITEMS_MAX + 1]), "as it was");
    }

    #[test]
    fn what_is_equal_by_more_than_its_bytes_is_compared() {
        assert_eq!(function("=", false, Type::new(Scalar::Int4)), EQUALS_ANY);
        assert_eq!(function("<>", true, Type::new(Scalar::Text)), DIFFERS_ALL);
        for (op, all, scalar) in [
            ("=", false, Scalar::Numeric),
            ("=", false, Scalar::Float8),
            ("=", false, Scalar::Jsonb),
            ("<", false, Scalar::Int4),
            ("<>", false, Scalar::Int4),
        ] {
            assert_eq!(function(op, all, Type::new(scalar)), "array compare any");
        }
        assert_eq!(function("=", true, Type::new(Scalar::Int4)), "array compare all");
    }
}
