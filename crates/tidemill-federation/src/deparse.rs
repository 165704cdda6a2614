//! Expressions in the words of the other side: those that mean the same there. Anything else stays here.

use arrow::array::Array;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use tidemill_sql::function::keyed_value;
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::value::ValueEncoder;

use crate::connector::{Capabilities, Logic};
use crate::dialect::{Comparison, Operand};
use crate::table::ForeignColumn;

/// Writes expressions over the columns of one table.
pub struct Deparser<'a> {
    pub columns: &'a [ForeignColumn],
    pub capabilities: &'static Capabilities,
}

impl Deparser<'_> {
    /// A condition, in parentheses; `None` if it has to be judged here.
    pub fn condition(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::BinaryExpr(binary) => self.binary(binary),
            Expr::Not(inner) => {
                self.can(Logic::Not).then(|| Some(format!("(NOT {})", self.condition(inner)?))).flatten()
            }
            Expr::IsNull(inner) => self.null_test(inner, "IS NULL"),
            Expr::IsNotNull(inner) => self.null_test(inner, "IS NOT NULL"),
            Expr::InList(list) => self.in_list(list),
            Expr::Column(_) | Expr::Literal(..) => {
                let operand = self.operand(expr)?;
                let is_truth = operand.ty == Type::new(Scalar::Bool) && self.can(Logic::Truth);
                is_truth.then(|| self.capabilities.dialect.truth(&operand)).flatten()
            }
            Expr::Alias(alias) => self.condition(&alias.expr),
            _ => None,
        }
    }

    fn can(&self, logic: Logic) -> bool {
        self.capabilities.logic.contains(&logic)
    }

    fn null_test(&self, inner: &Expr, test: &str) -> Option<String> {
        let column = self.column(inner).filter(|_| self.can(Logic::IsNull))?;
        Some(format!("({} {test})", column.sql))
    }

    fn binary(&self, binary: &BinaryExpr) -> Option<String> {
        let logic = match binary.op {
            Operator::And => Some(Logic::And),
            Operator::Or => Some(Logic::Or),
            _ => None,
        };
        if let Some(logic) = logic {
            if !self.can(logic) {
                return None;
            }
            let (left, right) = (self.condition(&binary.left)?, self.condition(&binary.right)?);
            return match logic {
                Logic::Or => self.capabilities.dialect.or(&left, &right),
                _ => Some(format!("({left} AND {right})")),
            };
        }
        let sign = comparison(binary.op)?;
        let (left, right) = self.pair(sign, &binary.left, &binary.right)?;
        self.capabilities.dialect.compare(sign, &left, &right)
    }

    /// Two operands of types that are compared there as they are here.
    fn pair(&self, sign: Comparison, left: &Expr, right: &Expr) -> Option<(Operand, Operand)> {
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        let same = left.ty.scalar == right.ty.scalar || (left.is_text() && right.is_text());
        let known = |ty| self.capabilities.compares(sign, ty);
        (same && known(left.ty) && known(right.ty)).then_some((left, right))
    }

    fn in_list(&self, list: &InList) -> Option<String> {
        let value = self.operand(&list.expr).filter(|_| self.capabilities.lists)?;
        let items = list.list.iter().map(|item| Some(self.pair(Comparison::Equal, &list.expr, item)?.1));
        let items = items.collect::<Option<Vec<_>>>().filter(|items| !items.is_empty())?;
        self.capabilities.dialect.in_list(&value, &items, list.negated)
    }

    fn operand(&self, expr: &Expr) -> Option<Operand> {
        match expr {
            Expr::Column(_) => self.column(expr),
            Expr::Literal(value, metadata) => {
                let field = metadata.as_ref().map(|m| m.add_to_field(arrow_field(value)));
                let ty = Type::of_field(&field.unwrap_or_else(|| arrow_field(value))).ok()?;
                let sql = self.capabilities.dialect.literal(value, ty)?;
                Some(Operand { sql, ty, value: Some(value.clone()) })
            }
            Expr::Alias(alias) => self.operand(&alias.expr),
            // What is compared by a key here is compared as it is there.
            other => self.operand(keyed_value(other)?),
        }
    }

    fn column(&self, expr: &Expr) -> Option<Operand> {
        let Expr::Column(column) = expr else { return None };
        let column = self.columns.iter().find(|known| known.name == column.name)?;
        Some(Operand { sql: self.capabilities.dialect.name(&column.remote), ty: column.ty, value: None })
    }
}

pub fn comparison(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        Operator::IsDistinctFrom => Comparison::Distinct,
        Operator::IsNotDistinctFrom => Comparison::NotDistinct,
        _ => return None,
    })
}

fn arrow_field(value: &ScalarValue) -> arrow::datatypes::Field {
    arrow::datatypes::Field::new("literal", value.data_type(), true)
}

/// The text form of a constant; `None` is null, or a value that has none.
pub fn constant_text(value: &ScalarValue, ty: Type) -> Option<String> {
    let array = value.to_array().ok()?;
    if array.is_null(0) {
        return None;
    }
    let context = Context { now_us: 0, zone: TimeZone::UTC };
    let mut text = Vec::new();
    ValueEncoder::new(&array, ty, &context).ok()?.write_text(0, &mut text).ok()?;
    String::from_utf8(text).ok()
}
