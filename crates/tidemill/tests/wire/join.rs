//! Random joins of tables whose columns have the same names, with conditions across their sides: the rows are PostgreSQL's,
//! be the tables here, on a server, or on several.

use rand::Rng;
use rand::rngs::StdRng;
use tokio_postgres::Client;

use crate::postgres::Postgres;
use crate::random::{Seeds, Tables, answer, pick};
use crate::server::{Server, rows};

const QUERIES: usize = 120;
const TABLES: Tables = Tables {
    columns: &[
        ("k", "int", &["0", "1", "2", "3", "4", "5"]),
        ("d", "int", &["0", "1", "2", "3"]),
        ("t", "text", &["'0'", "'1'", "'2'"]),
    ],
    rows: 12,
};

/// A query of a small grammar.
struct Joins<'r> {
    random: &'r mut StdRng,
    names: &'static [&'static str],
}

impl Joins<'_> {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        pick(self.random, from)
    }

    fn table(&mut self) -> String {
        format!("{}{}", self.pick(&["f", "f", "l", "m"]), self.random.random_range(1..=3))
    }

    fn number(&mut self) -> String {
        format!("{}.{}", self.pick(self.names), self.pick(&["k", "d"]))
    }

    fn condition(&mut self, depth: u32) -> String {
        let (x, y, z) = (self.number(), self.number(), self.number());
        match self.random.random_range(if depth == 0 { 0..9 } else { 0..14 }) {
            0 => format!("{x} {} {y}", self.pick(&["=", "<>", "<", ">="])),
            1 => format!("{x} IS {}DISTINCT FROM {y}", self.pick(&["", "NOT "])),
            2 => format!("{x} {} {}", self.pick(&["=", "<>", "<", ">="]), self.random.random_range(0..4)),
            3 => format!("{x} IS {}NULL", self.pick(&["", "NOT "])),
            4 => format!("coalesce({x}, 0) {} {y}", self.pick(&["=", "<>", ">"])),
            5 => format!("{x} {}BETWEEN {y} AND {z}", self.pick(&["", "NOT "])),
            6 => format!("{x} {}IN (0, {y}, {z})", self.pick(&["", "NOT "])),
            7 => format!("{x} - {y} > 0"),
            8 => format!("{}.t || 'x' <> {}.t", self.pick(self.names), self.pick(self.names)),
            9 | 10 => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
            11 | 12 => format!("({} AND {})", self.condition(depth - 1), self.condition(depth - 1)),
            _ => format!("NOT ({})", self.condition(depth - 1)),
        }
    }

    fn from(&mut self, count: usize) -> String {
        const ALL: [&str; 3] = ["a", "b", "c"];
        let mut from = format!("{} a", self.table());
        for i in 1..count {
            self.names = &ALL[..=i];
            let side = match self.random.random_range(0..5) {
                0 => format!("(SELECT * FROM {} WHERE k > 0)", self.table()),
                _ => self.table(),
            };
            let (column, other) = (self.pick(&["k", "k", "d"]), self.pick(&["k", "k", "d"]));
            let mut on = format!("{}.{other} = {}.{column}", self.pick(&ALL[..i]), ALL[i]);
            if self.random.random_range(0..4) == 0 {
                on += &format!(" AND {}", self.condition(0));
            }
            if self.random.random_range(0..4) == 0 {
                on += &format!(" AND {}", self.membership());
            }
            let name = ALL[i];
            from += &match self.random.random_range(0..12) {
                0..4 => format!(" LEFT JOIN {side} {name} ON {on}"),
                4..7 => format!(" RIGHT JOIN {side} {name} ON {on}"),
                7 => format!(" FULL JOIN {side} {name} ON {on}"),
                8 => format!(" CROSS JOIN {side} {name}"),
                9 if count == 2 => format!(" LEFT JOIN {side} {name} USING (k)"),
                _ => format!(" JOIN {side} {name} ON {on}"),
            };
        }
        from
    }

    /// A condition with a subquery that refers to one table.
    fn membership(&mut self) -> String {
        let key = self.number();
        match self.random.random_range(0..5) {
            0 => format!("{key} IN (SELECT z.d FROM {} z WHERE z.k > 1)", self.table()),
            1 => format!("EXISTS (SELECT FROM {} z WHERE z.d = {key} AND z.k > 0)", self.table()),
            2 => format!("{key} > (SELECT min(z.k) FROM {} z WHERE z.d = {key})", self.table()),
            3 => format!("{key} IN ({})", self.first(&key)),
            _ => format!("NOT EXISTS (SELECT FROM {} z WHERE z.d = {key})", self.table()),
        }
    }

    /// The value of one row of those with a key, in an order that leaves no choice but of equal ones.
    fn first(&mut self, key: &str) -> String {
        let (nulls, skip) = (self.pick(&["FIRST", "LAST"]), self.random.random_range(0..2));
        let order = format!("z.t DESC NULLS {nulls}, -z.d, z.d LIMIT 1 OFFSET {skip}");
        format!("SELECT z.d FROM {} z WHERE z.k >= {key} ORDER BY {order}", self.table())
    }

    fn next(&mut self) -> String {
        self.names = &["a"];
        let count = self.random.random_range(2..=3);
        let from = self.from(count);
        let mut condition = self.condition(2);
        if self.random.random_range(0..4) == 0 {
            condition += &format!(" AND {}", self.membership());
        }
        let (x, y, z) = (self.number(), self.number(), self.number());
        match self.random.random_range(0..7) {
            6 => {
                let first = self.first(&x);
                format!("SELECT {x}, {y}, ({first}) FROM {from} WHERE {condition}")
            }
            0 => format!("SELECT count(*), sum({x}), max({y}) FROM {from} WHERE {condition}"),
            1 => format!(
                "SELECT {x}, count(*), sum({y}) FROM {from} WHERE {condition} GROUP BY {x} HAVING {x} > 0"
            ),
            2 => format!("SELECT {x}, {y}, {z} FROM {from} WHERE {condition} ORDER BY 1, 2, 3 LIMIT 4"),
            3 => format!(
                "SELECT * FROM (SELECT {x} AS k, {y} AS d FROM {from} UNION ALL SELECT d, k FROM {}) AS u WHERE abs(k) = d",
                self.table()
            ),
            _ => format!("SELECT {x}, {y}, {z} FROM {from} WHERE {condition}"),
        }
    }
}

/// The answers are the same, whatever is left to the servers.
async fn check(remote: &Client, client: &Client, query: &str) {
    let Ok(wanted) = answer(remote, query).await else { return };
    for setting in ["enable_hashjoin", "enable_foreign_joins", "enable_foreign_filters", "all"] {
        let set = if setting == "all" { String::new() } else { format!("SET {setting} = off") };
        client.batch_execute(&format!("RESET ALL; {set}")).await.unwrap();
        let found = answer(client, query).await;
        if found.as_ref() != Ok(&wanted) {
            let plan = rows(client, &format!("EXPLAIN {query}")).await.concat().join("\n");
            panic!("{set}: {query}\nis {found:?}\nnot {wanted:?}\n{plan}");
        }
    }
}

#[tokio::test]
async fn joins_answer_as_postgres_does() {
    let Some(node) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let (remote, client) = (node.connect("postgres").await, server.connect().await);
    for mut random in Seeds::new() {
        TABLES.make(&mut random, &node, &remote, &client).await;
        let mut joins = Joins { random: &mut random, names: &["a"] };
        for _ in 0..QUERIES {
            check(&remote, &client, &joins.next()).await;
        }
    }
}
