//! Walks over a syntax tree.
//!
//! sqlparser compiles its walk once for every type of visitor: some thousand functions, the stack's guard with each. Here
//! the visitor is behind a pointer, so that there is one walk for all of them; a quarter of this crate's code was copies.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Distinct, Expr, FunctionArg, GroupByExpr, NamedWindowDefinition, ObjectName, OrderByExpr, Query, Select,
    SelectItem, Statement, TableFactor, TableWithJoins, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

/// What can be walked over. The walk is compiled with each of these here, and not again where it is called.
pub trait Walk {
    fn accept(&self, visitor: &mut Erased<'_>) -> ControlFlow<()>;
    fn accept_mut(&mut self, visitor: &mut ErasedMut<'_>) -> ControlFlow<()>;
}

macro_rules! walkable {
    ($($node:ty),* $(,)?) => {
        $(impl Walk for $node {
            fn accept(&self, visitor: &mut Erased<'_>) -> ControlFlow<()> {
                self.visit(visitor)
            }

            fn accept_mut(&mut self, visitor: &mut ErasedMut<'_>) -> ControlFlow<()> {
                self.visit(visitor)
            }
        })*
    };
}

walkable!(
    Statement,
    Query,
    Select,
    SelectItem,
    GroupByExpr,
    Expr,
    FunctionArg,
    Option<Expr>,
    Option<Distinct>,
    Vec<SelectItem>,
    Vec<TableWithJoins>,
    Vec<NamedWindowDefinition>,
    Vec<OrderByExpr>,
);

/// Visits `node` and what is in it.
pub fn walk<V: Visitor>(node: &impl Walk, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut held = Held { visitor, broken: None };
    // Why it broke off, if it did, is held.
    let _ = node.accept(&mut Erased(&mut held));
    held.broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Visits `node` and what is in it, to change it.
pub fn walk_mut<V: VisitorMut>(node: &mut impl Walk, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut held = HeldMut { visitor, broken: None };
    let _ = node.accept_mut(&mut ErasedMut(&mut held));
    held.broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Visits every expression before those in it.
pub fn walk_expressions<B>(node: &impl Walk, visit: impl FnMut(&Expr) -> ControlFlow<B>) -> ControlFlow<B> {
    walk(node, &mut Expressions(visit))
}

/// Visits every expression after those in it.
pub fn walk_expressions_mut<B>(
    node: &mut impl Walk,
    visit: impl FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    walk_mut(node, &mut Expressions(visit))
}

struct Expressions<F>(F);

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Expressions<F> {
    type Break = B;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        self.0(expr)
    }
}

impl<B, F: FnMut(&mut Expr) -> ControlFlow<B>> VisitorMut for Expressions<F> {
    type Break = B;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        self.0(expr)
    }
}

/// A visitor, and what it broke off with.
struct Held<'a, V: Visitor> {
    visitor: &'a mut V,
    broken: Option<V::Break>,
}

struct HeldMut<'a, V: VisitorMut> {
    visitor: &'a mut V,
    broken: Option<V::Break>,
}

/// What sqlparser's walk is compiled for.
pub struct Erased<'a>(&'a mut dyn Visitor<Break = ()>);

pub struct ErasedMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

fn hold<B>(flow: ControlFlow<B>, broken: &mut Option<B>) -> ControlFlow<()> {
    flow.map_break(|with| *broken = Some(with))
}

/// Passes every call on.
macro_rules! pass_on {
    ($($method:ident $node:ty),* $(,)?) => {
        impl<V: Visitor> Visitor for Held<'_, V> {
            type Break = ();
            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                hold(self.visitor.$method(node), &mut self.broken)
            })*
        }

        impl<V: VisitorMut> VisitorMut for HeldMut<'_, V> {
            type Break = ();
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                hold(self.visitor.$method(node), &mut self.broken)
            })*
        }

        impl Visitor for Erased<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }

        impl VisitorMut for ErasedMut<'_> {
            type Break = ();
            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }
    };
}

pass_on!(
    pre_visit_query Query,
    post_visit_query Query,
    pre_visit_select Select,
    post_visit_select Select,
    pre_visit_relation ObjectName,
    post_visit_relation ObjectName,
    pre_visit_table_factor TableFactor,
    post_visit_table_factor TableFactor,
    pre_visit_expr Expr,
    post_visit_expr Expr,
    pre_visit_statement Statement,
    post_visit_statement Statement,
    pre_visit_value ValueWithSpan,
    post_visit_value ValueWithSpan,
);
