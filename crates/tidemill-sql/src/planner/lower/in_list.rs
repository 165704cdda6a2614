//! `IN` of values.

use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, lit};

use super::{Scope, without_blanks};
use crate::error::Result;
use crate::planner::coerce;
use crate::planner::resolve::Arg;
use crate::types::Scalar;

impl Scope<'_> {
    /// `x IN (1, 2)` over one type; `x = 1 OR x = 2` when the types differ in category, so that each comparison is judged,
    /// and of what is not the same for all rows, as in PostgreSQL: DataFusion takes some of that for constants.
    pub fn in_list(&self, expr: Expr, list: Vec<Expr>, negated: bool) -> Result<Expr> {
        let mut types = vec![self.type_of(&expr)?];
        types.extend(self.types_of(&list)?);
        let keyed = |ty: &Arg| matches!(ty, Some(ty) if matches!(ty.scalar, Scalar::Numeric | Scalar::Interval | Scalar::Float4 | Scalar::Float8 | Scalar::Json | Scalar::Jsonb));
        match coerce::common("IN", types.iter().copied()) {
            Ok(target) if !target.array && !types.iter().any(keyed) => {
                let all = std::iter::once(expr).chain(list).collect();
                let mut list = self.cast_all(all, &types, &vec![target; types.len()])?;
                if target.scalar == Scalar::Bpchar {
                    list = list.into_iter().map(without_blanks).collect::<Result<_>>()?;
                }
                let expr = list.remove(0);
                let (constants, others): (Vec<_>, Vec<_>) = list.into_iter().partition(is_constant);
                let in_list = |expr, list| Expr::InList(InList::new(Box::new(expr), list, negated));
                if others.is_empty() {
                    return Ok(in_list(expr, constants));
                }
                let first = (!constants.is_empty()).then(|| in_list(expr.clone(), constants));
                let others = self.equal_one(&expr, others, negated)?;
                let both = if negated { Expr::and } else { Expr::or };
                Ok(first.into_iter().fold(others, |others, first| both(first, others)))
            }
            _ => self.equal_one(&expr, list, negated),
        }
    }

    /// `x = a OR x = b`
    fn equal_one(&self, expr: &Expr, list: Vec<Expr>, negated: bool) -> Result<Expr> {
        let equal = list.into_iter().map(|item| self.operator("=", vec![expr.clone(), item]));
        let equal = equal.collect::<Result<Vec<_>>>()?;
        let any = equal.into_iter().reduce(Expr::or).unwrap_or(lit(false));
        Ok(if negated { Expr::Not(Box::new(any)) } else { any })
    }
}

/// Whether an expression is the same for all rows.
fn is_constant(expr: &Expr) -> bool {
    let varies = |expr: &Expr| {
        matches!(
            expr,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::Unnest(_)
        )
    };
    !expr.is_volatile() && !expr.exists(|expr| Ok(varies(expr))).unwrap_or(true)
}
