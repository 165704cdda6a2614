//! Physical expressions over the columns of a scan in the words of its server: those that mean the same there.
//!
//! Functions and operators are PostgreSQL's by name and by the types of their arguments, so what is allowed is a list of
//! those ([`Capabilities::functions`]); casts are written by their types.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use tidemill_sql::name::quote_literal;
use tidemill_sql::types::{Scalar, Type};

use crate::connector::{Capabilities, Logic};
use crate::deparse::comparison;
use crate::dialect::Operand;
use crate::pushdown::SORT_KEY;
use crate::scan::RemoteSelect;

/// Writes expressions over what a scan gives.
pub struct Writer<'a> {
    pub select: &'a RemoteSelect,
    pub capabilities: &'a Capabilities,
    /// Of the scan.
    pub schema: SchemaRef,
}

impl Writer<'_> {
    /// Something to group by: what is equal looks the same, there and here.
    pub fn key(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Operand> {
        self.operand(expr).filter(|operand| self.capabilities.groups(operand.ty))
    }

    /// A condition, in parentheses.
    pub fn condition(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<String> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return self.can(Logic::Not).then(|| Some(format!("(NOT {})", self.condition(not.arg())?)))?;
        }
        if let Some(null) = expr.downcast_ref::<IsNullExpr>() {
            return self
                .can(Logic::IsNull)
                .then(|| Some(format!("({} IS NULL)", self.operand(null.arg())?.sql)))?;
        }
        if let Some(null) = expr.downcast_ref::<IsNotNullExpr>() {
            let written = || Some(format!("({} IS NOT NULL)", self.operand(null.arg())?.sql));
            return self.can(Logic::IsNull).then(written)?;
        }
        let operand = self.operand(expr)?;
        let is_truth = operand.ty == Type::new(Scalar::Bool) && self.can(Logic::Truth);
        is_truth.then(|| self.capabilities.dialect.truth(&operand))?
    }

    fn can(&self, logic: Logic) -> bool {
        self.capabilities.logic.contains(&logic)
    }

    fn binary(&self, binary: &BinaryExpr) -> Option<String> {
        let (left, right) = (binary.left(), binary.right());
        match binary.op() {
            Operator::And if self.can(Logic::And) => {
                Some(format!("({} AND {})", self.condition(left)?, self.condition(right)?))
            }
            Operator::Or if self.can(Logic::Or) => {
                self.capabilities.dialect.or(&self.condition(left)?, &self.condition(right)?)
            }
            op => {
                let sign = comparison(*op)?;
                let (left, right) = (self.operand(keyed(left))?, self.operand(keyed(right))?);
                let same = left.ty.scalar == right.ty.scalar || (left.is_text() && right.is_text());
                let known = |ty| self.capabilities.compares(sign, ty);
                let compared = same && known(left.ty) && known(right.ty);
                compared.then(|| self.capabilities.dialect.compare(sign, &left, &right))?
            }
        }
    }

    pub fn operand(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Operand> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return self.select.column(column.index(), self.capabilities);
        }
        let ty = Type::of_field(expr.return_field(&self.schema).ok()?.as_ref()).ok()?;
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let sql = self.capabilities.dialect.literal(literal.value(), ty)?;
            return Some(Operand { sql, ty, value: Some(literal.value().clone()) });
        }
        let sql = if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            self.cast(&self.operand(cast.expr())?, ty)?
        } else if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            self.call(call, ty)?
        } else {
            self.case(expr.downcast_ref::<CaseExpr>()?, ty)?
        };
        Some(Operand { sql, ty, value: None })
    }

    fn call(&self, call: &ScalarFunctionExpr, ty: Type) -> Option<String> {
        let arguments =
            call.args().iter().map(|argument| self.operand(argument)).collect::<Option<Vec<_>>>()?;
        if let ([inner], true) = (arguments.as_slice(), call.name() == ty.scalar.typname()) {
            return self.cast(inner, ty);
        }
        let types: Vec<_> = arguments.iter().map(|argument| argument.ty).collect();
        let is_known = self.capabilities.functions.iter().any(|known| known.takes(call.name(), &types));
        if !is_known {
            return None;
        }
        let is_operator = !call.name().starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let texts: Vec<_> = arguments.iter().map(|argument| argument.sql.as_str()).collect();
        Some(match (is_operator, texts.as_slice()) {
            // Its grammar is its own.
            (false, [_, from]) if call.name() == "extract" => {
                let Some(ScalarValue::Utf8(Some(field))) = &arguments[0].value else { return None };
                format!("extract({} FROM {from})", quote_literal(field).trim_start())
            }
            (true, [left, right]) => format!("({left} {} {right})", call.name()),
            (true, [only]) => format!("({} {only})", call.name()),
            (true, _) => return None,
            (false, all) => format!("{}({})", call.name(), all.join(", ")),
        })
    }

    fn cast(&self, inner: &Operand, ty: Type) -> Option<String> {
        let known = self.capabilities.casts.iter().any(|(from, to)| {
            *from == inner.ty.scalar && *to == ty.scalar && !inner.ty.array && !ty.array && ty.typmod < 0
        });
        known.then(|| format!("({})::{}", inner.sql, ty.display()))
    }

    /// `CASE WHEN … THEN … END`, all of one type.
    fn case(&self, case: &CaseExpr, ty: Type) -> Option<String> {
        if !self.capabilities.cases || case.expr().is_some() {
            return None;
        }
        let value =
            |expr| self.operand(expr).filter(|found| found.ty.oid() == ty.oid()).map(|found| found.sql);
        let mut sql = "(CASE".to_string();
        for (when, then) in case.when_then_expr() {
            sql += &format!(" WHEN {} THEN {}", self.condition(when)?, value(then)?);
        }
        if let Some(otherwise) = case.else_expr() {
            sql += &format!(" ELSE {}", value(otherwise)?);
        }
        Some(sql + " END)")
    }
}

/// What is compared by a key here is compared as it is there.
fn keyed(expr: &Arc<dyn PhysicalExpr>) -> &Arc<dyn PhysicalExpr> {
    match expr.downcast_ref::<ScalarFunctionExpr>() {
        Some(call) if call.name() == SORT_KEY && call.args().len() == 1 => &call.args()[0],
        _ => expr,
    }
}
