//! What a query reads: its relations, and the columns of a stream that nobody has declared.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use sqlparser::ast::{
    CastKind, Expr, GroupByExpr, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor, Visitor,
};

use crate::data_type::column_type;
use crate::error::{Result, SqlError, SqlState};
use crate::name::{fold, quote_ident};
use crate::parse::parse_query;
use crate::types::{Scalar, Type};
use crate::walk::walk;

/// The relations that a query names, each once and in order; names of its WITH clauses are left out.
pub fn relations(query: &Query) -> Vec<ObjectName> {
    let mut collector = Relations::default();
    let _ = walk(query, &mut collector);
    let Relations { found, defined, .. } = collector;
    let is_defined =
        |n: &ObjectName| n.0.len() == 1 && n.0[0].as_ident().is_some_and(|i| defined.contains(&fold(i)));
    found.into_iter().filter(|n| !is_defined(n)).collect()
}

#[derive(Default)]
struct Relations {
    found: Vec<ObjectName>,
    defined: HashSet<String>,
    /// The next name is that of a function.
    called: bool,
}

impl Visitor for Relations {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for cte in query.with.iter().flat_map(|w| &w.cte_tables) {
            self.defined.insert(fold(&cte.alias.name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.called =
            matches!(factor, TableFactor::Table { args: Some(_), .. } | TableFactor::Function { .. });
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if !std::mem::take(&mut self.called) && !self.found.contains(relation) {
            self.found.push(relation.clone());
        }
        ControlFlow::Continue(())
    }
}

/// The text of a query in which a relation of the schema `public` has got another name. Where the query goes by the old
/// name, that becomes an alias.
pub fn renamed(text: &str, from: &str, to: &str) -> Result<String> {
    let query = parse_query(text)?;
    let mut places = Places { from, found: vec![], is_defined: false };
    let _ = walk(query.as_ref(), &mut places);
    let unclear = places.is_defined && !places.found.is_empty();
    if unclear || places.found.iter().any(|place| place.start == 0) {
        let message = format!("cannot rename \"{from}\" where a view reads it by that name");
        return Err(SqlError::unsupported(message).with_hint("Drop the view and create it again."));
    }
    let mut chars: Vec<char> = text.chars().collect();
    for place in places.found.iter().rev() {
        let alias = if place.has_alias { String::new() } else { format!(" AS {}", quote_ident(from)) };
        let name = format!("{}{alias}", quote_ident(to));
        chars.splice(place.start - 1..place.end - 1, name.chars());
    }
    Ok(chars.into_iter().collect())
}

/// Where a query names a relation, in the order of the text.
struct Places<'a> {
    from: &'a str,
    found: Vec<Place>,
    /// A WITH clause has the name too.
    is_defined: bool,
}

/// Characters of the text, from 1.
struct Place {
    start: usize,
    end: usize,
    has_alias: bool,
}

impl Visitor for Places<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let mut defined = query.with.iter().flat_map(|w| &w.cte_tables);
        self.is_defined |= defined.any(|cte| fold(&cte.alias.name) == self.from);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let parts: Vec<_> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        if let [schema @ .., last] = parts.as_slice()
            && fold(last) == self.from
            && schema.last().is_none_or(|schema| fold(schema) == "public")
        {
            self.found.push(Place {
                start: last.span.start.column as usize,
                end: last.span.end.column as usize,
                has_alias: alias.is_some(),
            });
        }
        ControlFlow::Continue(())
    }
}

/// The columns that a query over one undeclared stream refers to, in the order of their first mention, with the type
/// of their cast, text without one. Casts to several types give the widest number or an error.
pub fn infer_columns(query: &Query, stream: &str) -> Result<Vec<(String, Type)>> {
    let mut columns = Columns::default();
    let _ = walk(query, &mut columns);
    if let Some((column, a, b)) = columns.conflict {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!("type conflict for column \"{column}\" of stream \"{stream}\""),
        )
        .with_detail(format!("It is cast to {} and to {}.", a.display(), b.display()))
        .with_hint("Declare the stream with CREATE STREAM."));
    }
    let inferred = columns.order.into_iter().map(|name| {
        let ty = columns.types.get(&name).copied().unwrap_or(Type::new(Scalar::Text));
        (name, ty)
    });
    Ok(inferred.collect())
}

#[derive(Default)]
struct Columns {
    order: Vec<String>,
    types: BTreeMap<String, Type>,
    conflict: Option<(String, Type, Type)>,
    /// Names in GROUP BY and ORDER BY that stand for an item of the select list, which are still to be met.
    aliases: Vec<String>,
}

impl Columns {
    fn mention(&mut self, name: &str) {
        if name != "arrival_timestamp" && !self.order.iter().any(|n| n == name) {
            self.order.push(name.to_string());
        }
    }

    /// `GROUP BY k` after `SELECT x::int AS k`: not a column of the stream.
    fn note_aliases<'a>(&mut self, select: &Select, items: impl Iterator<Item = &'a Expr>) {
        let aliases: HashSet<String> = select
            .projection
            .iter()
            .filter_map(|item| {
                if let SelectItem::ExprWithAlias { alias, .. } = item { Some(fold(alias)) } else { None }
            })
            .collect();
        let names = items
            .filter_map(|item| if let Expr::Identifier(ident) = item { Some(fold(ident)) } else { None });
        self.aliases.extend(names.filter(|name| aliases.contains(name)));
    }

    fn cast(&mut self, name: &str, ty: Type) {
        self.mention(name);
        match self.types.get(name) {
            None => drop(self.types.insert(name.to_string(), ty)),
            Some(known) if *known == ty => {}
            Some(known) => match widest(*known, ty) {
                Some(wide) => drop(self.types.insert(name.to_string(), wide)),
                None => self.conflict = Some((name.to_string(), *known, ty)),
            },
        }
    }
}

impl Visitor for Columns {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = &*query.body else { return ControlFlow::Continue(()) };
        if let GroupByExpr::Expressions(items, _) = &select.group_by {
            self.note_aliases(select, items.iter());
        }
        if let Some(OrderBy { kind: OrderByKind::Expressions(items), .. }) = &query.order_by {
            self.note_aliases(select, items.iter().map(|item| &item.expr));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } => {
                if let (Some(name), Ok(ty)) = (column_name(inner), column_type(data_type)) {
                    self.cast(&name, ty);
                }
            }
            _ => {
                if let Some(name) = column_name(expr) {
                    match self.aliases.iter().position(|alias| *alias == name) {
                        Some(met) => drop(self.aliases.swap_remove(met)),
                        None => self.mention(&name),
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(fold(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(fold),
        Expr::Nested(inner) => column_name(inner),
        _ => None,
    }
}

/// The wider of two number types, of two text types, or of two times.
pub fn widest(a: Type, b: Type) -> Option<Type> {
    const ORDERS: [&[Scalar]; 3] = [
        &[Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Numeric, Scalar::Float4, Scalar::Float8],
        &[Scalar::Bpchar, Scalar::Varchar, Scalar::Text],
        &[Scalar::Date, Scalar::Timestamp, Scalar::Timestamptz],
    ];
    if a.array != b.array {
        return None;
    }
    ORDERS.iter().find_map(|order| {
        let rank = |t: Type| order.iter().position(|s| *s == t.scalar);
        let (ra, rb) = (rank(a)?, rank(b)?);
        let wide = if ra >= rb { a } else { b };
        Some(Type { typmod: if a == b { a.typmod } else { -1 }, ..wide })
    })
}
