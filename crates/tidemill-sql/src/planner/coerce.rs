//! Which type becomes which, when, and what several types have in common: `pg_cast` and `select_common_type`.

use datafusion::common::DFSchema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, ExprSchemable};
use std::sync::Arc;

use super::resolve::Arg;
use crate::error::{Result, SqlError, SqlState};
use crate::function::cast;
use crate::types::{Scalar, Type};

/// Where a cast is wanted; each allows all that the one before allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    Implicit,
    Assignment,
    Explicit,
}

/// `pg_type.typcategory`.
pub fn category(ty: Type) -> char {
    if ty.array {
        return 'A';
    }
    match ty.scalar {
        Scalar::Bool => 'B',
        Scalar::Int2
        | Scalar::Int4
        | Scalar::Int8
        | Scalar::Float4
        | Scalar::Float8
        | Scalar::Numeric
        | Scalar::Oid
        | Scalar::Regproc
        | Scalar::Regprocedure
        | Scalar::Regclass
        | Scalar::Regtype
        | Scalar::Regnamespace
        | Scalar::Regrole => 'N',
        // `"char"` has a category of its own in PostgreSQL; as one of the strings it needs no functions of its own.
        Scalar::Text | Scalar::Varchar | Scalar::Bpchar | Scalar::Name | Scalar::Char => 'S',
        Scalar::Date | Scalar::Time | Scalar::Timestamp | Scalar::Timestamptz => 'D',
        Scalar::Interval => 'T',
        Scalar::Bytea | Scalar::Uuid | Scalar::Json | Scalar::Jsonb | Scalar::Xid => 'U',
    }
}

/// `pg_type.typispreferred`.
pub fn preferred(ty: Type) -> bool {
    use Scalar::*;
    !ty.array && matches!(ty.scalar, Bool | Float8 | Oid | Text | Timestamptz | Interval)
}

/// Whether two types are one for the choice of a function: the string types share their functions.
pub fn same(a: Type, b: Type) -> bool {
    a.array == b.array && (a.scalar == b.scalar || (is_string(a.scalar) && is_string(b.scalar)))
}

pub fn is_string(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Text | Scalar::Varchar | Scalar::Bpchar | Scalar::Name | Scalar::Char)
}

/// Whether PostgreSQL has an operator `=` of a type with another one: neither is cast to be compared.
pub fn has_own_equality(left: Type, right: Arg) -> bool {
    use Scalar::*;
    let Some(right) = right.filter(|right| !right.array && !left.array) else {
        return left.scalar != Varchar || left.array;
    };
    let among = |family: &[Scalar]| family.contains(&left.scalar) && family.contains(&right.scalar);
    left.scalar == right.scalar && left.scalar != Varchar
        || among(&[Int2, Int4, Int8])
        || among(&[Float4, Float8])
        || among(&[Date, Timestamp, Timestamptz])
        || left.scalar == Name && is_string(right.scalar)
}

pub fn castable(from: Type, to: Type, context: Context) -> bool {
    if from.array != to.array {
        // An array's text form can be had, and read.
        return context == Context::Explicit && is_string(if from.array { to.scalar } else { from.scalar })
            || (context == Context::Assignment && from.array && is_string(to.scalar));
    }
    scalar_cast(from.scalar, to.scalar).is_some_and(|needed| context >= needed)
}

/// Refuses to assign to a column where there is no cast.
pub fn check_assignable(column: &str, to: Type, from: Type, position: Option<usize>) -> Result<()> {
    if castable(from, to, Context::Assignment) {
        return Ok(());
    }
    let (to, from) = (to.with_typmod(-1).display(), from.with_typmod(-1).display());
    let message = format!("column \"{column}\" is of type {to} but expression is of type {from}");
    let mut error = SqlError::new(SqlState::DATATYPE_MISMATCH, message)
        .with_hint("You will need to rewrite or cast the expression.");
    error.position = position;
    Err(error)
}

/// The least context in which there is a cast.
fn scalar_cast(from: Scalar, to: Scalar) -> Option<Context> {
    use Context::*;
    use Scalar::*;
    if from == to || (is_string(from) && is_string(to)) {
        return Some(Implicit);
    }
    Some(match (from, to) {
        (Int2, Int4 | Int8 | Float4 | Float8 | Numeric | Oid) => Implicit,
        (Int4, Int8 | Float4 | Float8 | Numeric | Oid) => Implicit,
        (Int8, Float4 | Float8 | Numeric | Oid) => Implicit,
        (Numeric, Float4 | Float8) => Implicit,
        (Float4, Float8) => Implicit,
        (Oid | Int2 | Int4 | Int8, to) if to.is_object_name() => Implicit,
        (from, Oid) if from.is_object_name() => Implicit,
        (from, Int4 | Int8) if from.is_object_name() => Assignment,
        (Text | Varchar, Regclass) => Implicit,
        (Oid, Int8) => Assignment,
        (Int4, Int2) | (Int8, Int2 | Int4) | (Oid, Int4) => Assignment,
        (Float4 | Float8, Int2 | Int4 | Int8 | Numeric) | (Float8, Float4) => Assignment,
        (Numeric, Int2 | Int4 | Int8) => Assignment,
        (Bool, Int4) | (Int4, Bool) => Explicit,
        (Date, Timestamp | Timestamptz) | (Timestamp, Timestamptz) => Implicit,
        (Time, Interval) => Implicit,
        (Timestamp, Date | Time) | (Timestamptz, Date | Timestamp | Time) | (Interval, Time) => Assignment,
        (Json, Jsonb) | (Jsonb, Json) => Assignment,
        (Jsonb, Bool | Int2 | Int4 | Int8 | Float4 | Float8 | Numeric) => Explicit,
        // Input and output functions.
        (_, to) if is_string(to) => Assignment,
        (from, _) if is_string(from) => Explicit,
        _ => return None,
    })
}

/// The type of an expression, or that it is unknown.
pub fn type_of(expr: &Expr, schema: &DFSchema) -> Result<Arg> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Null, None) => Ok(None),
        Expr::Placeholder(placeholder) if placeholder.field.is_none() => Ok(None),
        _ => {
            let (_, field) = expr.to_field(schema).map_err(super::error::plan_error)?;
            if field.data_type().is_null() {
                return Ok(None);
            }
            Type::of_field(&field).map(Some)
        }
    }
}

/// The common type of alternatives (`CASE`, `UNION`, `VALUES`, `ARRAY`, ...); text if nothing is known.
pub fn common(what: &str, types: impl IntoIterator<Item = Arg>) -> Result<Type> {
    common_or(what, types).map_err(|(_, error)| error)
}

/// As [`common`]; the error comes with the place in the list of the type that does not fit. Only where all are of one type
/// with one modifier does the result have it (`select_common_typmod`): what else there is may be longer.
pub fn common_or(
    what: &str,
    types: impl IntoIterator<Item = Arg>,
) -> std::result::Result<Type, (usize, SqlError)> {
    let mut chosen: Option<Type> = None;
    let mut first = None;
    let mut differ = false;
    for (i, arg) in types.into_iter().enumerate() {
        differ |= *first.get_or_insert(arg) != arg;
        let Some(ty) = arg else { continue };
        let Some(so_far) = chosen else {
            chosen = Some(ty);
            continue;
        };
        if so_far == ty {
            continue;
        }
        if category(so_far) != category(ty) {
            let message = format!("{what} types {} and {} cannot be matched", plain(so_far), plain(ty));
            return Err((i, SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
        }
        if !preferred(so_far)
            && castable(so_far, ty, Context::Implicit)
            && !castable(ty, so_far, Context::Implicit)
        {
            chosen = Some(ty);
        } else if !castable(ty, so_far, Context::Implicit) {
            let message = format!("{what} could not convert type {} to {}", plain(ty), plain(so_far));
            return Err((i, SqlError::new(SqlState::CANNOT_COERCE, message)));
        }
    }
    let chosen = chosen.unwrap_or(Type::new(Scalar::Text));
    Ok(if differ { chosen.with_typmod(-1) } else { chosen })
}

fn plain(ty: Type) -> String {
    ty.with_typmod(-1).display()
}

/// Casts an expression of type `from`, or fails as PostgreSQL does when there is no such cast.
pub fn cast_expr(expr: Expr, from: Arg, to: Type, context: Context) -> Result<Expr> {
    let Some(from) = from else { return cast_unknown(expr, to, context) };
    if !castable(from, to, context) {
        return Err(SqlError::new(
            SqlState::CANNOT_COERCE,
            format!("cannot cast type {} to {}", plain(from), plain(to)),
        ));
    }
    cast::expr(expr, from, to, context == Context::Explicit)
}

/// A string literal is read by the type's input function, here and now if that depends on no setting.
fn cast_unknown(expr: Expr, to: Type, context: Context) -> Result<Expr> {
    match expr {
        Expr::Placeholder(Placeholder { id, .. }) if to.scalar.is_object_name() => {
            // Clients know the names of objects, not their numbers.
            let text = Type::new(Scalar::Text);
            let parameter = Expr::Placeholder(Placeholder::new_with_field(id, None));
            cast::expr(cast_unknown(parameter, text, context)?, text, to, true)
        }
        Expr::Placeholder(Placeholder { id, .. }) => {
            let field = Arc::new(to.with_typmod(-1).field(id.clone()));
            let parameter = Expr::Placeholder(Placeholder::new_with_field(id, Some(field)));
            if to.typmod >= 0 { cast::expr(parameter, to.with_typmod(-1), to, true) } else { Ok(parameter) }
        }
        Expr::Literal(value, None) => cast::literal(value, to, context == Context::Explicit),
        other => cast::expr(other, Type::new(Scalar::Text), to, context == Context::Explicit),
    }
}
