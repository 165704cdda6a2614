//! Expressions over columns of a server in its words: those that mean the same there.
//!
//! Functions and operators are PostgreSQL's by name and by the types of their arguments, so what is allowed is a list of
//! those ([`Capabilities::functions`]); casts are written by their types.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use tidemill_sql::function::value_of_key;
use tidemill_sql::name::quote_literal;
use tidemill_sql::planner::SessionVars;
use tidemill_sql::text::TimeZone;
use tidemill_sql::types::{Scalar, Type};

use crate::connector::{Capabilities, Function, Logic};
use crate::dialect::{Comparison, Member, Operand};
use crate::pushdown::SORT_KEY;

type Expr = Arc<dyn PhysicalExpr>;

/// Writes expressions over columns.
pub struct Writer<'a> {
    /// What they are there.
    pub columns: Vec<Operand>,
    pub capabilities: &'a Capabilities,
    /// What they are here.
    pub schema: SchemaRef,
}

impl Writer<'_> {
    /// A condition, in parentheses.
    pub fn condition(&self, expr: &Expr) -> Option<String> {
        if is_test(expr) {
            return self.test(expr);
        }
        let operand = self.operand(expr)?;
        let is_truth = operand.ty == Type::new(Scalar::Bool) && self.can(Logic::Truth);
        is_truth.then(|| self.capabilities.dialect.truth(&operand))?
    }

    fn test(&self, expr: &Expr) -> Option<String> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return self.can(Logic::Not).then(|| Some(format!("(NOT {})", self.condition(not.arg())?)))?;
        }
        if let Some(null) = expr.downcast_ref::<IsNullExpr>() {
            return self.null_test(null.arg(), "IS NULL");
        }
        if let Some(null) = expr.downcast_ref::<IsNotNullExpr>() {
            return self.null_test(null.arg(), "IS NOT NULL");
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(list);
        }
        self.like(expr.downcast_ref::<LikeExpr>()?)
    }

    fn can(&self, logic: Logic) -> bool {
        self.capabilities.logic.contains(&logic)
    }

    fn null_test(&self, operand: &Expr, test: &str) -> Option<String> {
        let operand = self.operand(operand).filter(|_| self.can(Logic::IsNull))?;
        Some(format!("({} {test})", operand.sql))
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
            op => self.compare(comparison(*op)?, left, right),
        }
    }

    pub fn compare(&self, sign: Comparison, left: &Expr, right: &Expr) -> Option<String> {
        let (left, right) = self.pair(sign, left, right)?;
        self.capabilities.dialect.compare(sign, &left, &right)
    }

    fn in_list(&self, list: &InListExpr) -> Option<String> {
        if !self.capabilities.lists {
            return None;
        }
        let pairs = list.list().iter().map(|item| self.pair(Comparison::Equal, list.expr(), item));
        let (values, items): (Vec<_>, Vec<_>) = pairs.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        self.capabilities.dialect.in_list(values.first()?, &distinct(items), list.negated())
    }

    /// Something that has one of the values which it, or its key, is equal to here.
    pub fn member(&self, expr: &Expr, keys: &ArrayRef) -> Option<Member> {
        let member = match keyed_value(expr) {
            Some(value) => {
                let operand = self.operand(value)?;
                let ty = operand.ty.with_typmod(-1);
                let value = |row| value_of_key(&ScalarValue::try_from_array(keys, row).ok()?, ty);
                let values = (0..keys.len()).map(value).collect::<Option<Vec<_>>>()?;
                Member { operand, ty, values: ScalarValue::iter_to_array(values).ok()? }
            }
            None => {
                let (operand, ty) = self.without_cast(expr)?;
                if is_compared_by_key(ty) {
                    return None;
                }
                Member { operand, ty: ty.with_typmod(-1), values: Arc::clone(keys) }
            }
        };
        self.capabilities.compares(Comparison::Equal, member.ty).then_some(member)
    }

    /// `IN` a list of the values one by one.
    pub fn listed(&self, member: &Member) -> Option<String> {
        let (dialect, ty) = (self.capabilities.dialect, member.ty);
        let item = |row| {
            let value = ScalarValue::try_from_array(&member.values, row).ok()?;
            Some(Operand { sql: dialect.literal(&value, ty)?, ty, value: Some(value) })
        };
        let items = (0..member.values.len()).map(item).collect::<Option<Vec<_>>>()?;
        let operand = Operand { ty, ..member.operand.clone() };
        self.capabilities.lists.then(|| dialect.in_list(&operand, &distinct(items), false))?
    }

    /// A pattern that is a constant. What matches it does not depend on the collation.
    fn like(&self, like: &LikeExpr) -> Option<String> {
        let (value, pattern) = (self.operand(like.expr())?, self.operand(like.pattern())?);
        let is_known = self.can(Logic::Like) && !like.case_insensitive() && pattern.value.is_some();
        let not = if like.negated() { "NOT " } else { "" };
        let is_text = value.is_text() && pattern.is_text();
        (is_known && is_text).then(|| format!("({} {not}LIKE {})", value.sql, pattern.sql))
    }

    /// Two operands of types that are compared there as they are here.
    fn pair(&self, sign: Comparison, left: &Expr, right: &Expr) -> Option<(Operand, Operand)> {
        let (left, right) = match (keyed_value(left), keyed_value(right)) {
            (Some(left), Some(right)) => (self.operand(left)?, self.operand(right)?),
            (Some(left), None) => {
                let left = self.operand(left)?;
                (left.clone(), self.of_key(right, left.ty)?)
            }
            (None, Some(right)) => {
                let right = self.operand(right)?;
                (self.of_key(left, right.ty)?, right)
            }
            (None, None) => {
                let both = (self.uncast(left)?, self.uncast(right)?);
                // The bytes of these would be compared here.
                if [&both.0, &both.1].iter().any(|side| is_compared_by_key(side.ty)) {
                    return None;
                }
                both
            }
        };
        let same = left.ty.scalar == right.ty.scalar || (left.is_text() && right.is_text());
        let known = |ty| self.capabilities.compares(sign, ty);
        (same && known(left.ty) && known(right.ty)).then_some((left, right))
    }

    /// An operand of a comparison that needs no cast there: an index is one of values as they are.
    fn uncast(&self, expr: &Expr) -> Option<Operand> {
        let (operand, ty) = self.without_cast(expr)?;
        Some(Operand { ty, ..operand })
    }

    /// What it is there without a cast, and the type that it has with it.
    fn without_cast(&self, expr: &Expr) -> Option<(Operand, Type)> {
        let operand = self.operand(expr)?;
        let call = expr.downcast_ref::<ScalarFunctionExpr>();
        let argument = call.filter(|call| call.name() == operand.ty.scalar.typname()).map(|call| call.args());
        let inner = match expr.downcast_ref::<CastExpr>() {
            Some(cast) => Some(cast.expr()),
            None => argument.and_then(|arguments| arguments.first()),
        };
        let inner = inner.and_then(|inner| self.operand(inner)).filter(|inner| {
            self.capabilities.mixed.contains(&(inner.ty.scalar, operand.ty.scalar)) && !inner.ty.array
        });
        let ty = operand.ty;
        Some((inner.unwrap_or(operand), ty))
    }

    /// What is compared, of which a key may be made here.
    pub fn compared(&self, expr: &Expr) -> Option<Operand> {
        self.operand(keyed_value(expr).unwrap_or(expr))
    }

    /// A constant that is the key of a value of a type: the planner makes it one.
    fn of_key(&self, key: &Expr, ty: Type) -> Option<Operand> {
        let value = value_of_key(key.downcast_ref::<Literal>()?.value(), ty)?;
        let ty = ty.with_typmod(-1);
        Some(Operand { sql: self.capabilities.dialect.literal(&value, ty)?, ty, value: Some(value) })
    }

    pub fn operand(&self, expr: &Expr) -> Option<Operand> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return self
                .columns
                .get(column.index())
                .filter(|operand| self.capabilities.keeps(operand))
                .cloned();
        }
        let ty = Type::of_field(expr.return_field(&self.schema).ok()?.as_ref()).ok()?;
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let sql = self.capabilities.dialect.literal(literal.value(), ty)?;
            return Some(Operand { sql, ty, value: Some(literal.value().clone()) });
        }
        let sql = if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            self.cast(&self.operand(cast.expr())?, ty, false)?
        } else if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            self.call(call, ty)?
        } else if is_test(expr) {
            self.test(expr).filter(|_| self.capabilities.cases)?
        } else {
            self.case(expr.downcast_ref::<CaseExpr>()?, ty)?
        };
        Some(Operand { sql, ty, value: None })
    }

    fn call(&self, call: &ScalarFunctionExpr, ty: Type) -> Option<String> {
        let arguments =
            call.args().iter().map(|argument| self.operand(argument)).collect::<Option<Vec<_>>>()?;
        if let ([inner], true) = (arguments.as_slice(), call.name() == ty.scalar.typname()) {
            return self.cast(inner, ty, is_in_utc(call));
        }
        let types: Vec<_> = arguments.iter().map(|argument| argument.ty).collect();
        let takes = |functions: &[Function]| functions.iter().any(|known| known.takes(call.name(), &types));
        let Capabilities { functions, functions_in_utc, .. } = self.capabilities;
        let is_known = takes(functions) || takes(functions_in_utc) && is_in_utc(call);
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

    fn cast(&self, inner: &Operand, ty: Type, is_in_utc: bool) -> Option<String> {
        let Capabilities { casts, casts_in_utc, .. } = self.capabilities;
        let is_cast = (inner.ty.scalar, ty.scalar);
        let is_known = casts.contains(&is_cast) || (is_in_utc && casts_in_utc.contains(&is_cast));
        let is_plain = !inner.ty.array && !ty.array && ty.typmod < 0;
        (is_known && is_plain).then(|| format!("({})::{}", inner.sql, ty.display()))
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

/// Each once.
fn distinct(mut items: Vec<Operand>) -> Vec<Operand> {
    let mut known = HashSet::new();
    items.retain(|item| known.insert(item.sql.clone()));
    items
}

fn is_test(expr: &Expr) -> bool {
    let is_comparison = |binary: &BinaryExpr| {
        matches!(binary.op(), Operator::And | Operator::Or) || comparison(*binary.op()).is_some()
    };
    expr.downcast_ref::<BinaryExpr>().is_some_and(is_comparison)
        || expr.downcast_ref::<NotExpr>().is_some()
        || expr.downcast_ref::<IsNullExpr>().is_some()
        || expr.downcast_ref::<IsNotNullExpr>().is_some()
        || expr.downcast_ref::<InListExpr>().is_some()
        || expr.downcast_ref::<LikeExpr>().is_some()
}

/// Whether the session that calls it is in UTC.
fn is_in_utc(call: &ScalarFunctionExpr) -> bool {
    let vars = call.config_options().extensions.get::<SessionVars>();
    vars.is_some_and(|vars| vars.zone == TimeZone::UTC)
}

/// What a key is made of: what is compared by it here is compared as it is there.
fn keyed_value(expr: &Expr) -> Option<&Expr> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == SORT_KEY)?;
    call.args().first()
}

fn is_compared_by_key(ty: Type) -> bool {
    matches!(ty.scalar, Scalar::Numeric | Scalar::Interval | Scalar::Json | Scalar::Jsonb)
}

fn comparison(op: Operator) -> Option<Comparison> {
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
