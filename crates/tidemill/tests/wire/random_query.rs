//! Random queries: joins, LATERAL, subqueries of all kinds, aggregates, windows, grouping sets and set operations in each
//! other. Their rows are PostgreSQL's, be the tables here, on a server, or on several.

use rand::Rng;
use rand::rngs::StdRng;
use tokio_postgres::Client;

use crate::postgres::Postgres;
use crate::random::{Column, Kind, Refusal, Seeds, Tables, answer, pick};
use crate::server::{Server, rows};

const QUERIES: usize = 120;
const ROWS: usize = 12;
const COLUMNS: &[Column] = &[
    ("a", "int", &["0", "1", "2", "3", "-1"]),
    ("b", "int", &["0", "1", "2", "3"]),
    ("n", "numeric", &["0", "1", "1.5", "2.50", "-3.25"]),
    ("s", "text", &["'a'", "'b'", "'ab'", "''"]),
    ("d", "date", &["'2020-02-28'", "'2020-03-01'", "'2021-01-01'"]),
    ("p", "bool", &["true", "false"]),
];
const KINDS: [Kind; 6] = [Kind::Int, Kind::Int, Kind::Numeric, Kind::Text, Kind::Date, Kind::Bool];
/// Of what may compute for long there, or here.
const TIMEOUT: &str = "SET statement_timeout = 10000";
/// What is not supported, and what takes too long.
const EXCUSED: [&str; 2] = ["0A000", "57014"];

struct Relation {
    name: String,
    columns: Vec<(String, Kind)>,
}

/// A query and what its columns are.
struct Query {
    sql: String,
    kinds: Vec<Kind>,
}

/// A query of a grammar.
struct Queries<'r> {
    random: &'r mut StdRng,
    /// From the outermost query: what its expressions may refer to.
    scopes: Vec<Vec<Relation>>,
    /// For names.
    next: usize,
    /// How the relations are called that a query may have.
    places: &'static [&'static str],
}

impl Queries<'_> {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        pick(self.random, from)
    }

    /// One of so many.
    fn one_in(&mut self, count: u32) -> bool {
        self.random.random_ratio(1, count)
    }

    fn kind(&mut self) -> Kind {
        KINDS[self.random.random_range(0..KINDS.len())]
    }

    fn name(&mut self) -> String {
        self.next += 1;
        format!("r{}", self.next)
    }

    fn literal(&mut self, kind: Kind) -> String {
        if self.one_in(12) {
            return format!("NULL::{}", kind.name());
        }
        let of = |name: &str| COLUMNS.iter().find(|column| column.1 == name).unwrap().2;
        let value = self.pick(of(kind.name()));
        match kind {
            Kind::Date => format!("date {value}"),
            _ => value.to_string(),
        }
    }

    /// A column of this query, or now and then of one around it.
    fn column(&mut self, kind: Kind) -> Option<String> {
        let last = self.scopes.len().checked_sub(1)?;
        let level = match last {
            1.. if self.one_in(4) => self.random.random_range(0..last),
            _ => last,
        };
        let found: Vec<_> = self.scopes[level]
            .iter()
            .flat_map(|relation| relation.columns.iter().map(move |column| (&relation.name, column)))
            .filter(|(_, column)| column.1 == kind)
            .collect();
        let (relation, (column, _)) = found.get(self.random.random_range(0..found.len().max(1)))?;
        Some(format!("{relation}.{column}"))
    }

    fn leaf(&mut self, kind: Kind) -> String {
        let column = if self.one_in(6) { None } else { self.column(kind) };
        column.unwrap_or_else(|| self.literal(kind))
    }

    fn value(&mut self, kind: Kind, depth: u32) -> String {
        if depth == 0 || self.random.random_bool(0.55) {
            return self.leaf(kind);
        }
        let depth = depth - 1;
        match self.random.random_range(0..9) {
            0 => format!("coalesce({}, {})", self.value(kind, depth), self.value(kind, depth)),
            1 => {
                let (when, then) = (self.condition(depth), self.value(kind, depth));
                format!("CASE WHEN {when} THEN {then} ELSE {} END", self.value(kind, depth))
            }
            2 => format!("nullif({}, {})", self.value(kind, depth), self.value(kind, depth)),
            3 => self.scalar(kind, depth),
            _ => self.computed(kind, depth),
        }
    }

    fn computed(&mut self, kind: Kind, depth: u32) -> String {
        match kind {
            Kind::Int => match self.random.random_range(0..6) {
                0 => format!("length({})", self.value(Kind::Text, depth)),
                1 => format!("({} - {})", self.value(Kind::Date, depth), self.value(Kind::Date, depth)),
                2 => format!("abs({})", self.value(kind, depth)),
                3 => format!("greatest({}, {})", self.value(kind, depth), self.value(kind, depth)),
                4 => format!("({} * {})", self.leaf(kind), self.leaf(kind)),
                _ => self.sum(kind, depth),
            },
            Kind::Numeric => match self.random.random_range(0..4) {
                0 => format!("({} * {})", self.leaf(kind), self.leaf(Kind::Int)),
                1 => format!("{}::numeric", self.leaf(Kind::Int)),
                2 => format!("round({}, 1)", self.value(kind, depth)),
                _ => self.sum(kind, depth),
            },
            Kind::Text => match self.random.random_range(0..4) {
                0 => format!("({} || {})", self.value(kind, depth), self.value(kind, depth)),
                1 => format!("upper({})", self.value(kind, depth)),
                2 => format!("{}::text", self.leaf(Kind::Int)),
                _ => format!("substr({}, 1, 1)", self.value(kind, depth)),
            },
            Kind::Date => format!("({} + {})", self.value(kind, depth), self.value(Kind::Int, depth)),
            Kind::Bool => format!("({})", self.condition(depth)),
        }
    }

    fn sum(&mut self, kind: Kind, depth: u32) -> String {
        format!("({} {} {})", self.value(kind, depth), self.pick(&["+", "-"]), self.value(kind, depth))
    }

    /// A subquery with one row at most.
    fn scalar(&mut self, kind: Kind, depth: u32) -> String {
        let Query { sql, .. } = match self.one_in(2) {
            true => self.aggregated(Some(&[kind]), depth),
            false => {
                let mut query = self.plain(Some(&[kind]), depth);
                query.sql += " ORDER BY 1 LIMIT 1";
                query
            }
        };
        format!("({sql})")
    }

    fn condition(&mut self, depth: u32) -> String {
        let kind = self.kind();
        let not = self.pick(&["", "NOT "]);
        let compare = self.pick(&["=", "=", "<>", "<", "<=", ">", ">="]);
        let depth = depth.saturating_sub(1);
        let x = self.value(kind, depth);
        match self.random.random_range(0..if depth == 0 { 10 } else { 18 }) {
            0..4 => format!("{x} {compare} {}", self.value(kind, depth)),
            4 => format!("{x} IS {not}NULL"),
            5 => format!("{x} {not}IN ({})", self.list(kind, depth)),
            6 => format!("{x} {not}BETWEEN {} AND {}", self.leaf(kind), self.leaf(kind)),
            7 => format!("{x} IS {not}DISTINCT FROM {}", self.value(kind, depth)),
            8 => self.leaf(Kind::Bool),
            9 => format!("{not}({x} {compare} {})", self.leaf(kind)),
            10 | 11 => format!("({} AND {})", self.condition(depth), self.condition(depth)),
            12 | 13 => format!("({} OR {})", self.condition(depth), self.condition(depth)),
            14 => format!("NOT ({})", self.condition(depth)),
            15 => format!("{not}EXISTS ({})", self.query(None, depth).sql),
            16 => format!("{x} {not}IN ({})", self.query(Some(&[kind]), depth).sql),
            _ => {
                let quantifier = self.pick(&["ANY", "ALL"]);
                format!("{x} {compare} {quantifier} ({})", self.query(Some(&[kind]), depth).sql)
            }
        }
    }

    fn list(&mut self, kind: Kind, depth: u32) -> String {
        let count = self.random.random_range(1..5);
        let literal = |this: &mut Self| match this.one_in(4) {
            true => this.value(kind, depth),
            false => this.literal(kind),
        };
        (0..count).map(|_| literal(self)).collect::<Vec<_>>().join(", ")
    }

    /// What stands in FROM becomes a new scope.
    fn enter(&mut self, depth: u32) -> String {
        let count = if depth == 0 { 1 } else { self.random.random_range(1..=3).min(depth + 1) };
        self.scopes.push(vec![]);
        let mut from = String::new();
        for i in 0..count {
            let joins =
                ["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ","];
            let join = if i == 0 { "" } else { self.pick(&joins) };
            let (relation, sql) = self.relation(i, join, depth);
            let name = relation.name.clone();
            self.scopes.last_mut().unwrap().push(relation);
            from += &match join {
                "" => sql,
                "CROSS JOIN" => format!(" CROSS JOIN {sql}"),
                "," => format!(", {sql}"),
                join => format!(" {join} {sql} ON {}", self.on(&name, depth)),
            };
        }
        from
    }

    fn on(&mut self, name: &str, depth: u32) -> String {
        let all: Vec<_> = self
            .scopes
            .last()
            .unwrap()
            .iter()
            .flat_map(|relation| {
                relation.columns.iter().map(|(column, kind)| (relation.name.clone(), column.clone(), *kind))
            })
            .collect();
        let pairs: Vec<_> = all
            .iter()
            .filter(|of| of.0 == name)
            .flat_map(|one| {
                all.iter()
                    .filter(move |other| other.0 != one.0 && other.2 == one.2)
                    .map(move |other| (one, other))
            })
            .collect();
        let mut on = match pairs.get(self.random.random_range(0..pairs.len().max(1))) {
            Some((one, other)) => format!("{}.{} = {}.{}", one.0, one.1, other.0, other.1),
            None => "true".to_string(),
        };
        if self.one_in(3) {
            on += &format!(" AND {}", self.condition(depth.min(1)));
        }
        on
    }

    fn relation(&mut self, i: u32, join: &str, depth: u32) -> (Relation, String) {
        let name = self.name();
        if depth == 0 || !self.one_in(3) {
            let table = format!("{}{}", self.pick(self.places), self.random.random_range(1..=3));
            let columns =
                COLUMNS.iter().zip(KINDS).map(|(column, kind)| (column.0.to_string(), kind)).collect();
            return (Relation { name: name.clone(), columns }, format!("{table} {name}"));
        }
        // It may refer to the relations before it, unless these may be missing beside it.
        let is_lateral = i > 0 && !matches!(join, "RIGHT JOIN" | "FULL JOIN") && self.one_in(2);
        let own = if is_lateral { None } else { self.scopes.pop() };
        let query = self.query(None, depth - 1);
        self.scopes.extend(own);
        let names: Vec<_> = (1..=query.kinds.len()).map(|i| format!("c{i}")).collect();
        let shown = names.join(", ");
        let columns = names.into_iter().zip(query.kinds).collect();
        let lateral = if is_lateral { "LATERAL " } else { "" };
        (Relation { name: name.clone(), columns }, format!("{lateral}({}) {name} ({shown})", query.sql))
    }

    fn wanted(&mut self, kinds: Option<&[Kind]>) -> Vec<Kind> {
        match kinds {
            Some(kinds) => kinds.to_vec(),
            None => (0..self.random.random_range(1..4)).map(|_| self.kind()).collect(),
        }
    }

    fn filter(&mut self, depth: u32) -> String {
        if self.one_in(2) { format!(" WHERE {}", self.condition(depth)) } else { String::new() }
    }

    fn values(&mut self, kinds: &[Kind], depth: u32) -> String {
        kinds.iter().map(|kind| self.value(*kind, depth)).collect::<Vec<_>>().join(", ")
    }

    fn plain(&mut self, kinds: Option<&[Kind]>, depth: u32) -> Query {
        let kinds = self.wanted(kinds);
        let from = self.enter(depth);
        let values = self.values(&kinds, depth);
        let filter = self.filter(depth);
        self.scopes.pop();
        let distinct = if self.one_in(6) { "DISTINCT " } else { "" };
        Query { sql: format!("SELECT {distinct}{values} FROM {from}{filter}"), kinds }
    }

    fn aggregate(&mut self, kind: Kind, depth: u32) -> String {
        let depth = depth.min(1);
        let of = |this: &mut Self, calls: &[&'static str]| {
            let call = this.pick(calls);
            let distinct = if this.one_in(6) { "DISTINCT " } else { "" };
            format!("{call}({distinct}{})", this.value(kind, depth))
        };
        let call = match kind {
            Kind::Int => match self.random.random_range(0..4) {
                0 => "count(*)::int".to_string(),
                1 => {
                    let counted = self.kind();
                    format!("count({})::int", self.value(counted, depth))
                }
                _ => of(self, &["min", "max"]),
            },
            Kind::Numeric => of(self, &["sum", "avg", "min", "max"]),
            Kind::Text => match self.one_in(3) {
                true => {
                    let value = self.leaf(kind);
                    format!("string_agg({value}, ',' ORDER BY {value})")
                }
                false => of(self, &["min", "max"]),
            },
            Kind::Date => of(self, &["min", "max"]),
            Kind::Bool => of(self, &["bool_and", "bool_or"]),
        };
        if !self.one_in(5) {
            return call;
        }
        let filter = format!(" FILTER (WHERE {})", self.condition(depth));
        match call.strip_suffix("::int") {
            Some(call) => format!("({call}{filter})::int"),
            None => call + &filter,
        }
    }

    fn aggregates(&mut self, kinds: &[Kind], depth: u32) -> String {
        kinds.iter().map(|kind| self.aggregate(*kind, depth)).collect::<Vec<_>>().join(", ")
    }

    fn aggregated(&mut self, kinds: Option<&[Kind]>, depth: u32) -> Query {
        let kinds = self.wanted(kinds);
        let from = self.enter(depth);
        let calls = self.aggregates(&kinds, depth);
        let filter = self.filter(depth);
        self.scopes.pop();
        Query { sql: format!("SELECT {calls} FROM {from}{filter}"), kinds }
    }

    /// The first columns are those that it is grouped by.
    fn grouped(&mut self, kinds: Option<&[Kind]>, depth: u32) -> Query {
        let mut kinds = self.wanted(kinds);
        let from = self.enter(depth);
        let filter = self.filter(depth);
        let (mut keys, mut named) = (vec![], vec![]);
        let wanted = self.random.random_range(1..=2);
        while keys.len() < wanted {
            let kind = self.kind();
            let value = self.value(kind, depth.min(1));
            // A constant may be taken for a position, and PostgreSQL 15 shows one where it is not grouped by it.
            let has_column = value.as_bytes().windows(2).any(|two| two[0] == b'r' && two[1].is_ascii_digit());
            if has_column && !value.contains("SELECT") {
                keys.push(kind);
                named.push(value);
            }
        }
        let mut items = vec![];
        for kind in &kinds {
            let key = keys.iter().position(|key| key == kind).filter(|_| self.one_in(2));
            items.push(key.map_or_else(|| self.aggregate(*kind, depth), |key| named[key].clone()));
        }
        // A key that is no column has to be said in the same words: positions say which it is.
        let places: Vec<_> = (1..=named.len()).map(|i| (items.len() + i).to_string()).collect();
        let group = match self.random.random_range(0..6) {
            0 => format!("ROLLUP ({})", named.join(", ")),
            1 => format!("CUBE ({})", named.join(", ")),
            2 => named.join(", "),
            _ => places.join(", "),
        };
        let having = match self.one_in(4) {
            true => {
                let kind = self.kind();
                format!(" HAVING {} IS NOT NULL", self.aggregate(kind, depth))
            }
            false => String::new(),
        };
        self.scopes.pop();
        items.extend(named);
        kinds.extend(keys);
        let sql = format!("SELECT {} FROM {from}{filter} GROUP BY {group}{having}", items.join(", "));
        Query { sql, kinds }
    }

    fn windowed(&mut self, depth: u32) -> Query {
        let mut kinds = self.wanted(None);
        let from = self.enter(depth);
        let mut values = self.values(&kinds, depth);
        let (part, order) = (self.kind(), self.kind());
        let over = match self.random.random_range(0..3) {
            0 => format!("PARTITION BY {}", self.leaf(part)),
            1 => format!("ORDER BY {}", self.leaf(order)),
            _ => format!("PARTITION BY {} ORDER BY {} DESC", self.leaf(part), self.leaf(order)),
        };
        let call = match self.random.random_range(0..5) {
            0 => "rank()".to_string(),
            1 => "dense_rank()".to_string(),
            2 => "count(*)".to_string(),
            3 => format!("max({})", self.leaf(Kind::Int)),
            _ => format!("sum({})", self.leaf(Kind::Int)),
        };
        values += &format!(", ({call} OVER ({over}))::int");
        kinds.push(Kind::Int);
        let filter = self.filter(depth);
        self.scopes.pop();
        Query { sql: format!("SELECT {values} FROM {from}{filter}"), kinds }
    }

    fn set_operation(&mut self, kinds: Option<&[Kind]>, depth: u32) -> Query {
        let kinds = self.wanted(kinds);
        let of = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"];
        let (one, op) = (self.select(&kinds, depth), self.pick(&of));
        let other = self.select(&kinds, depth);
        match self.one_in(4) {
            true => {
                let again = self.pick(&of);
                let last = self.select(&kinds, depth);
                Query { sql: format!("{one} {op} ({other} {again} {last})"), kinds }
            }
            false => Query { sql: format!("{one} {op} {other}"), kinds },
        }
    }

    /// A branch of a set operation, in which an integer may stand for a numeric.
    fn select(&mut self, kinds: &[Kind], depth: u32) -> String {
        let kinds: Vec<_> = kinds
            .iter()
            .map(|kind| if *kind == Kind::Numeric && self.one_in(3) { Kind::Int } else { *kind })
            .collect();
        match self.one_in(4) {
            true => self.aggregated(Some(&kinds), depth).sql,
            false => self.plain(Some(&kinds), depth).sql,
        }
    }

    /// A query with columns of these kinds, or of any.
    fn query(&mut self, kinds: Option<&[Kind]>, depth: u32) -> Query {
        let query = match self.random.random_range(0..12) {
            0 | 1 => self.set_operation(kinds, depth.saturating_sub(1)),
            2 => self.aggregated(kinds, depth),
            3 | 4 if kinds.is_none() => self.grouped(kinds, depth),
            5 if kinds.is_none() => self.windowed(depth),
            _ => self.plain(kinds, depth),
        };
        self.limited(query)
    }

    /// The first rows, in an order that leaves no choice but of equal ones.
    fn limited(&mut self, mut query: Query) -> Query {
        if !self.one_in(4) {
            return query;
        }
        let order: Vec<_> = (1..=query.kinds.len())
            .map(|i| format!("{i}{}", self.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])))
            .collect();
        let count = self.random.random_range(1..6);
        let limit = match self.random.random_range(0..4) {
            0 => format!("OFFSET {count}"),
            1 => format!("FETCH FIRST {count} ROWS WITH TIES"),
            2 => format!("LIMIT {count} OFFSET 1"),
            _ => format!("LIMIT {count}"),
        };
        query.sql += &format!(" ORDER BY {} {limit}", order.join(", "));
        query
    }
}

/// As many digits as are needed: how many zeros are shown at the end of an average is another question.
fn trimmed(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let digits = |value: String| match value.parse::<f64>() {
        Ok(_) if value.contains('.') => value.trim_end_matches('0').trim_end_matches('.').to_string(),
        _ => value,
    };
    let mut rows: Vec<Vec<_>> = rows.into_iter().map(|row| row.into_iter().map(digits).collect()).collect();
    rows.sort();
    rows
}

fn excused(refusal: &Refusal) -> bool {
    EXCUSED.contains(&refusal.code.as_str())
}

async fn check(remote: &Client, client: &Client, query: &str) {
    // Its errors come when a value is computed, which no two planners do at the same time.
    let Ok(wanted) = answer(remote, query).await.map(trimmed) else { return };
    let found = answer(client, query).await.map(trimmed);
    if found.as_ref() != Ok(&wanted) && !found.as_ref().is_err_and(excused) {
        let plan = match client.simple_query(&format!("EXPLAIN {query}")).await {
            Ok(_) => rows(client, &format!("EXPLAIN {query}")).await.concat().join("\n"),
            Err(_) => String::new(),
        };
        panic!("{query}\nis {found:?}\nnot {wanted:?}\n{plan}");
    }
}

#[tokio::test]
async fn queries_answer_as_postgres_does() {
    let Some(node) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let (remote, client) = (node.connect("postgres").await, server.connect().await);
    for client in [&remote, &client] {
        client.batch_execute(TIMEOUT).await.unwrap();
    }
    for mut random in Seeds::new() {
        Tables { columns: COLUMNS, rows: ROWS }.make(&mut random, &node, &remote, &client).await;
        for _ in 0..QUERIES {
            let places = [&["l"] as &[_], &["l", "f", "m"], &["f"], &["m"]][random.random_range(0..4)];
            let mut queries = Queries { random: &mut random, scopes: vec![], next: 0, places };
            let depth = queries.random.random_range(1..4);
            check(&remote, &client, &queries.query(None, depth).sql).await;
        }
    }
}
