//! Where the parts of an expression stand in the statement, for the positions of errors.
//!
//! Positions go through DataFusion's planner in the names of the markers' operators, as ` @at:start:end:operand,…`; an
//! ordinary operator gets one as well. They count characters from 1; 0 is unknown.

use sqlparser::ast::{self, BinaryOperator, Expr, Spanned};
use sqlparser::tokenizer::Span;

use super::marker;

const SEPARATOR: &str = " @";

/// The places of an operator and of its operands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The operator, the function's name, the cast.
    pub at: usize,
    /// Of the whole expression; `end` is behind it.
    start: usize,
    end: usize,
    operands: Vec<usize>,
}

impl Places {
    pub fn operand(&self, i: usize) -> usize {
        self.operands.get(i).copied().unwrap_or(0)
    }
}

/// The name of an operator and its places.
pub fn split(name: &str) -> (&str, Places) {
    let Some((name, places)) = name.rsplit_once(SEPARATOR) else { return (name, Places::default()) };
    let mut numbers = places.split([':', ',']).map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let (at, start, end) = (next(), next(), next());
    (name, Places { at, start, end, operands: numbers.collect() })
}

/// Writes the places of an operator expression into its operator. `at` is where the operator stands, which alone can't
/// be told from the expression.
pub fn annotate(expr: &mut Expr, at: usize) {
    let Expr::BinaryOp { left, op, right } = expr else { return };
    let name = match &*op {
        BinaryOperator::Custom(name) => name.clone(),
        other => other.to_string(),
    };
    if name.contains(SEPARATOR) {
        return;
    }
    let operands: Vec<(usize, usize)> = operands(left).chain(operands(right)).map(extent).collect();
    let known = || operands.iter().filter(|(start, _)| *start > 0);
    let start = known().map(|(start, _)| *start).chain((at > 0).then_some(at)).min().unwrap_or(0);
    let end = known().map(|(_, end)| *end).max().unwrap_or(0).max(at);
    let places: Vec<String> = operands.iter().map(|(start, _)| start.to_string()).collect();
    *op = BinaryOperator::Custom(format!("{name}{SEPARATOR}{at}:{start}:{end}:{}", places.join(",")));
}

/// Where an expression begins and where it has ended; (0, 0) if that is not known.
pub fn extent(expr: &Expr) -> (usize, usize) {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::Custom(name), .. } if name.contains(SEPARATOR) => {
            let places = split(name).1;
            (places.start, places.end)
        }
        // Deep trees are chains of these; their spans are not looked for again at each level.
        Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsUnknown(inner)
        | Expr::IsNotUnknown(inner)
        | Expr::Nested(inner)
        | Expr::InSubquery { expr: inner, .. }
        | Expr::UnaryOp { expr: inner, .. } => extent(inner),
        Expr::Tuple(parts) => around(parts.iter().map(extent)),
        Expr::BinaryOp { left, right, .. } => around([extent(left), extent(right)]),
        other => of_span(other.span()),
    }
}

pub fn of_span(span: Span) -> (usize, usize) {
    if span == Span::empty() { (0, 0) } else { (span.start.column as usize, span.end.column as usize) }
}

fn around(extents: impl IntoIterator<Item = (usize, usize)>) -> (usize, usize) {
    extents.into_iter().fold((0, 0), |(start, end), (s, e)| match (start, s) {
        (0, _) => (s, e),
        (_, 0) => (start, end),
        _ => (start.min(s), end.max(e)),
    })
}

/// The operands of a marker: those of a pack, or the expression itself.
fn operands(expr: &Expr) -> Box<dyn Iterator<Item = &Expr> + '_> {
    if let Expr::Function(ast::Function { name, args: ast::FunctionArguments::List(list), .. }) = expr
        && name.0.first().and_then(|part| part.as_ident()).is_some_and(|ident| ident.value == marker::PACK)
    {
        return Box::new(list.args.iter().filter_map(|arg| match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        }));
    }
    Box::new(std::iter::once(expr))
}

/// The text of a statement, to find operators in: the tree does not tell where they stand.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    sql: &'a str,
    is_ascii: bool,
}

impl<'a> Text<'a> {
    pub fn new(sql: &'a str) -> Self {
        Self { sql, is_ascii: sql.is_ascii() }
    }

    /// The operator between two operands: the last one there, or the first word if it is written in another way.
    pub fn operator(&self, name: &str, left: &Expr, right: &Expr) -> usize {
        self.between(name, extent(left).1, extent(right).0)
    }

    /// The first word between an operand and a subquery.
    pub fn word_between(&self, left: &Expr, query: &ast::Query) -> usize {
        self.between("word", extent(left).1, of_span(query.span()).0)
    }

    fn between(&self, name: &str, from: usize, to: usize) -> usize {
        if from == 0 || to <= from {
            return 0;
        }
        let region = self.slice(from, to);
        let found = match name {
            "<>" => region.rfind("<>").or(region.rfind("!=")),
            _ if name.starts_with(|c: char| c.is_alphabetic()) => None,
            _ => region.rfind(name),
        };
        let skipped = region.trim_start_matches(|c: char| c.is_whitespace() || c == ')');
        match found.unwrap_or(region.len() - skipped.len()) {
            at if at < region.len() => from + region[..at].chars().count(),
            _ => 0,
        }
    }

    /// The last place of an operator or keyword before an operand.
    pub fn before(&self, name: &str, operand: &Expr) -> usize {
        self.word_before(name, extent(operand).0)
    }

    /// The last place of a keyword before a position.
    pub fn word_before(&self, word: &str, position: usize) -> usize {
        if position == 0 {
            return 0;
        }
        let region = self.slice(1, position).to_ascii_lowercase();
        region.rfind(&word.to_ascii_lowercase()).map_or(0, |at| region[..at].chars().count() + 1)
    }

    /// The first place of some words at or behind a position.
    pub fn words_behind(&self, words: &str, position: usize) -> usize {
        if position == 0 || words.is_empty() {
            return 0;
        }
        let region = self.slice(position, usize::MAX).to_ascii_lowercase();
        region.find(words).map_or(0, |at| position + region[..at].chars().count())
    }

    /// The word at a position, as it is written.
    pub fn word_at(&self, position: usize) -> &'a str {
        let region = self.slice(position, usize::MAX);
        region.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
    }

    /// The `::` behind an operand.
    pub fn cast(&self, operand: &Expr) -> usize {
        if let Expr::BinaryOp { op: BinaryOperator::Custom(name), .. } = operand
            && let (marker::CAST, Places { at: 1.., .. }) = split(name)
        {
            // Behind the type of the cast that is the operand.
            let from = split(name).1.at + 2;
            let region = self.slice(from, usize::MAX);
            return region.find("::").map_or(0, |at| from + region[..at].chars().count());
        }
        match extent(operand).1 {
            0 => 0,
            end => {
                let region = self.slice(end, usize::MAX);
                let rest = region.trim_start_matches(|c: char| c.is_whitespace() || c == ')' || c == ':');
                let head = &region[..region.len() - rest.len()];
                head.rfind("::").map_or(0, |at| end + region[..at].chars().count())
            }
        }
    }

    /// The first word at or behind a position.
    pub fn word(&self, position: usize) -> usize {
        let region = self.slice(position, usize::MAX);
        let skipped = region.trim_start_matches(|c: char| c.is_whitespace() || c == ':');
        position + region[..region.len() - skipped.len()].chars().count()
    }

    /// Between two positions.
    fn slice(&self, from: usize, to: usize) -> &'a str {
        let byte = |position: usize| match self.is_ascii {
            true => (position - 1).min(self.sql.len()),
            false => self.sql.char_indices().nth(position - 1).map_or(self.sql.len(), |(at, _)| at),
        };
        self.sql.get(byte(from)..byte(to)).unwrap_or_default()
    }
}
