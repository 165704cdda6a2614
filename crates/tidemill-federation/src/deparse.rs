//! Expressions in the words of the other side: those that mean the same there. Anything else stays here.

use arrow::array::Array;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidemill_sql::function::keyed_value;
use tidemill_sql::name::quote_literal;
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::value::ValueEncoder;

use crate::connector::Capabilities;
use crate::scan::quote_always;
use crate::table::ForeignColumn;

/// Writes expressions over the columns of one table.
pub struct Deparser<'a> {
    pub columns: &'a [ForeignColumn],
    pub capabilities: &'static Capabilities,
}

/// An operand and its type.
struct Operand {
    sql: String,
    ty: Type,
}

impl Deparser<'_> {
    /// A condition, in parentheses; `None` if it has to be judged here.
    pub fn condition(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::BinaryExpr(binary) => self.binary(binary),
            Expr::Not(inner) => Some(format!("(NOT {})", self.condition(inner)?)),
            Expr::IsNull(inner) => Some(format!("({} IS NULL)", self.column(inner)?.sql)),
            Expr::IsNotNull(inner) => Some(format!("({} IS NOT NULL)", self.column(inner)?.sql)),
            Expr::InList(list) => self.in_list(list),
            Expr::Column(_) | Expr::Literal(..) => {
                let operand = self.operand(expr)?;
                (operand.ty == Type::new(Scalar::Bool)).then_some(operand.sql)
            }
            Expr::Alias(alias) => self.condition(&alias.expr),
            _ => None,
        }
    }

    fn binary(&self, binary: &BinaryExpr) -> Option<String> {
        let logic = match binary.op {
            Operator::And => Some("AND"),
            Operator::Or => Some("OR"),
            _ => None,
        };
        if let Some(word) = logic {
            let (left, right) = (self.condition(&binary.left)?, self.condition(&binary.right)?);
            return Some(format!("({left} {word} {right})"));
        }
        let (sign, is_order) = match binary.op {
            Operator::Eq => ("=", false),
            Operator::NotEq => ("<>", false),
            Operator::Lt => ("<", true),
            Operator::LtEq => ("<=", true),
            Operator::Gt => (">", true),
            Operator::GtEq => (">=", true),
            Operator::IsDistinctFrom => ("IS DISTINCT FROM", false),
            Operator::IsNotDistinctFrom => ("IS NOT DISTINCT FROM", false),
            _ => return None,
        };
        let (left, right) = self.pair(&binary.left, &binary.right)?;
        let collation = if is_order && is_text(left.ty) { self.capabilities.byte_order } else { "" };
        Some(format!("({} {sign} {}{collation})", left.sql, right.sql))
    }

    /// Two operands of types that are compared there as they are here.
    fn pair(&self, left: &Expr, right: &Expr) -> Option<(Operand, Operand)> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        let same = left.ty.scalar == right.ty.scalar || (is_text(left.ty) && is_text(right.ty));
        let known = |ty| (self.capabilities.comparable)(ty);
        (same && known(left.ty) && known(right.ty)).then_some((left, right))
    }

    fn in_list(&self, list: &InList) -> Option<String> {
        let column = self.operand(&list.expr)?;
        let items = list.list.iter().map(|item| Some(self.pair(&list.expr, item)?.1.sql));
        let items = items.collect::<Option<Vec<_>>>().filter(|items| !items.is_empty())?;
        let not = if list.negated { "NOT " } else { "" };
        Some(format!("({} {not}IN ({}))", column.sql, items.join(", ")))
    }

    fn operand(&self, expr: &Expr) -> Option<Operand> {
        match expr {
            Expr::Column(_) => self.column(expr),
            Expr::Literal(value, metadata) => {
                let field = metadata.as_ref().map(|m| m.add_to_field(arrow_field(value)));
                let ty = Type::of_field(&field.unwrap_or_else(|| arrow_field(value))).ok()?;
                Some(Operand { sql: literal(value, ty)?, ty })
            }
            Expr::Alias(alias) => self.operand(&alias.expr),
            // What is compared by a key here is compared as it is there.
            other => self.operand(keyed_value(other)?),
        }
    }

    fn column(&self, expr: &Expr) -> Option<Operand> {
        let Expr::Column(column) = expr else { return None };
        let column = self.columns.iter().find(|known| known.name == column.name)?;
        Some(Operand { sql: quote_always(&column.remote), ty: column.ty })
    }
}

fn arrow_field(value: &ScalarValue) -> arrow::datatypes::Field {
    arrow::datatypes::Field::new("literal", value.data_type(), true)
}

pub fn is_text(ty: Type) -> bool {
    matches!(ty.scalar, Scalar::Text | Scalar::Varchar | Scalar::Name) && !ty.array
}

/// A constant with its type: `'1'::integer`.
pub fn literal(value: &ScalarValue, ty: Type) -> Option<String> {
    let array = value.to_array().ok()?;
    let shown = ty.with_typmod(-1).display();
    if array.is_null(0) {
        return Some(format!("NULL::{shown}"));
    }
    let context = Context { now_us: 0, zone: TimeZone::UTC };
    let mut text = Vec::new();
    ValueEncoder::new(&array, ty, &context).ok()?.write_text(0, &mut text).ok()?;
    let text = String::from_utf8(text).ok()?;
    Some(match ty.scalar {
        Scalar::Int4 if !text.starts_with('-') => text,
        Scalar::Bool => if text == "t" { "true" } else { "false" }.to_string(),
        _ => format!("{}::{shown}", quote_literal(&text).trim_start()),
    })
}
