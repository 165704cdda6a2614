//! `WINDOW w AS (…)`: a specification that begins with the name of another has its partitions and its order.

use std::ops::ControlFlow;

use sqlparser::ast::{
    self, Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitorMut,
    WindowSpec, WindowType,
};

use super::{name, place};
use crate::error::{Result, SqlError, SqlState};
use crate::walk::walk_mut;

/// Writes out what named windows stand for, in a query's select list and in its ORDER BY.
pub fn resolve(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
    let mut known: Vec<(String, WindowSpec)> = Vec::new();
    for NamedWindowDefinition(ident, definition) in &mut select.named_window {
        let spec = match definition {
            NamedWindowExpr::NamedWindow(other) => named(&known, other, 0)?.clone(),
            NamedWindowExpr::WindowSpec(spec) => {
                merge(spec, &known)?;
                spec.clone()
            }
        };
        known.push((name::fold(ident), spec));
    }
    let mut windows = Windows { known: &known, subqueries: 0 };
    let orders = match &mut query.order_by {
        Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(items), .. }) => items.as_mut_slice(),
        _ => &mut [],
    };
    let Select { projection, .. } = &mut **select;
    let flow = match walk_mut(projection, &mut windows) {
        ControlFlow::Continue(()) => {
            orders.iter_mut().try_for_each(|item| walk_mut(&mut item.expr, &mut windows))
        }
        stopped => stopped,
    };
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Windows<'a> {
    known: &'a [(String, WindowSpec)],
    subqueries: usize,
}

impl VisitorMut for Windows<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let merged = match &mut function.over {
            // A subquery has windows of its own.
            _ if self.subqueries > 0 => Ok(()),
            Some(WindowType::WindowSpec(spec)) => merge(spec, self.known),
            Some(WindowType::NamedWindow(ident)) => named(self.known, ident, 0).map(drop),
            None => Ok(()),
        };
        match merged {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// `before`: characters between the place that PostgreSQL tells and the name.
fn named<'w>(known: &'w [(String, WindowSpec)], ident: &Ident, before: usize) -> Result<&'w WindowSpec> {
    let wanted = name::fold(ident);
    match known.iter().find(|(name, _)| *name == wanted) {
        Some((_, spec)) => Ok(spec),
        None => {
            let message = format!("window \"{wanted}\" does not exist");
            Err(at(SqlError::new(SqlState::UNDEFINED_OBJECT, message), ident, before))
        }
    }
}

fn at(error: SqlError, ident: &Ident, before: usize) -> SqlError {
    match place::of_span(ident.span).0 {
        0 => error,
        position => error.with_position(position.saturating_sub(before).max(1)),
    }
}

fn merge(spec: &mut WindowSpec, known: &[(String, WindowSpec)]) -> Result<()> {
    let Some(ident) = spec.window_name.take() else { return Ok(()) };
    // The parenthesis is where PostgreSQL says that a specification is.
    let base = named(known, &ident, 1)?;
    let refuse = |what: String| Err(at(SqlError::new(SqlState::WINDOWING_ERROR, what), &ident, 1));
    let shown = name::fold(&ident);
    if !spec.partition_by.is_empty() {
        return refuse(format!("cannot override PARTITION BY clause of window \"{shown}\""));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return refuse(format!("cannot override ORDER BY clause of window \"{shown}\""));
    }
    if base.window_frame.is_some() {
        return refuse(format!("cannot copy window \"{shown}\" because it has a frame clause"));
    }
    spec.partition_by.clone_from(&base.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    Ok(())
}
