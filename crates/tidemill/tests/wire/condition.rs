//! Random conditions over values of which many are null: each is true, false or null as PostgreSQL says.

use rand::Rng;
use rand::rngs::StdRng;
use tokio_postgres::Client;

use crate::postgres::Postgres;
use crate::random::{Seeds, answer, pick};
use crate::server::{Server, rows};

const QUERIES: usize = 400;
const ROWS: usize = 40;

async fn prepare(random: &mut StdRng, clients: [&Client; 2]) {
    let mut value =
        |of: &[&str]| if random.random_bool(0.25) { "NULL".into() } else { pick(random, of).to_string() };
    let int = ["0", "1", "2", "3"];
    let bool = ["true", "false"];
    let kinds: [&[&str]; 7] =
        [&int, &int, &int, &["0", "1", "1.5", "'NaN'"], &["'a'", "'b'", "'ab'", "''"], &bool, &bool];
    let row = |_| format!("({})", kinds.map(&mut value).join(", "));
    let values: Vec<_> = (0..ROWS).map(row).collect();
    let make = format!(
        "DROP TABLE IF EXISTS w; CREATE TABLE w (a int, b int, c int, x float8, s text, p bool, q bool);
         INSERT INTO w VALUES {}",
        values.join(", ")
    );
    for client in clients {
        client.batch_execute(&make).await.unwrap();
    }
}

/// A query of a small grammar.
struct Conditions<'r>(&'r mut StdRng);

impl Conditions<'_> {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        pick(self.0, from)
    }

    fn not(&mut self) -> &'static str {
        self.pick(&["", "NOT "])
    }

    fn number(&mut self) -> &'static str {
        const COMPUTED: &[&str] = &[
            "a + 1",
            "a - b",
            "coalesce(a, b)",
            "-c",
            "nullif(a, 1)",
            "CASE WHEN p THEN a ELSE b END",
            "greatest(a, b)",
            "abs(c - 2)",
            "a * 0",
        ];
        if self.0.random_bool(0.8) { self.pick(&["a", "b", "c"]) } else { self.pick(COMPUTED) }
    }

    /// What a number is compared with, mostly a literal.
    fn item(&mut self) -> &'static str {
        if self.0.random_bool(0.75) {
            self.pick(&["0", "1", "2", "3", "NULL", "1", "2"])
        } else {
            self.number()
        }
    }

    fn items(&mut self) -> String {
        (0..self.0.random_range(1..6)).map(|_| self.item()).collect::<Vec<_>>().join(", ")
    }

    fn leaf(&mut self) -> String {
        const PLAIN: &[&str] = &[
            "p",
            "q",
            "p = q",
            "p <> q",
            "p < q",
            "true",
            "false",
            "NULL",
            "x > 1",
            "x = 'NaN'",
            "x IN (1, 'NaN')",
            "s LIKE 'a%'",
            "s NOT LIKE '%b'",
            "s LIKE ''",
            "s LIKE '%'",
            "s = ''",
            "s || s = 'aa'",
            "s ~ 'a'",
            "s IN ('a', NULL)",
            "s NOT IN ('a', 'b')",
            "length(s) > 1",
        ];
        let (x, y, not) = (self.number(), self.item(), self.not());
        match self.0.random_range(0..13) {
            0..3 => format!("{x} {} {y}", self.pick(&["=", "<>", "<", "<=", ">", ">="])),
            3..6 => format!("{x} {not}IN ({})", self.items()),
            6 => format!("{x} {not}BETWEEN {}{y} AND {}", self.pick(&["", "SYMMETRIC "]), self.item()),
            7 => format!("{x} IS {not}NULL"),
            8 => format!("{x} IS {not}DISTINCT FROM {y}"),
            9 => format!("{x} {} (ARRAY[{}])", self.pick(&["= ANY", "<> ALL"]), self.items()),
            _ => self.pick(PLAIN).to_string(),
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        if depth == 0 || self.0.random_bool(0.4) {
            return self.leaf();
        }
        let (one, other) = (self.condition(depth - 1), self.condition(depth - 1));
        match self.0.random_range(0..12) {
            0..4 => format!("({one} AND {other})"),
            4..8 => format!("({one} OR {other})"),
            8 => format!("NOT ({one})"),
            9 => format!("({one}) IS {}{}", self.not(), self.pick(&["TRUE", "FALSE", "UNKNOWN"])),
            10 => format!("CASE WHEN {one} THEN {other} ELSE {} END", self.condition(depth - 1)),
            _ => match self.pick(&["=", "IS DISTINCT FROM", ""]) {
                "" => format!("coalesce({one}, {other})"),
                op => format!("(({one}) {op} ({other}))"),
            },
        }
    }

    fn next(&mut self) -> String {
        let depth = self.0.random_range(1..4);
        let condition = self.condition(depth);
        match self.0.random_range(0..4) {
            0 => format!("SELECT a, b, c, {condition} FROM w"),
            1 => format!("SELECT count(*), count(a) FROM w WHERE {condition}"),
            2 => format!("SELECT {condition}, count(*) FROM w GROUP BY 1"),
            _ => format!("SELECT count(*) FROM w WHERE NOT ({condition})"),
        }
    }
}

#[tokio::test]
async fn conditions_answer_as_postgres_does() {
    let Some(postgres) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let (theirs, ours) = (postgres.connect("postgres").await, server.connect().await);
    for mut random in Seeds::new() {
        prepare(&mut random, [&theirs, &ours]).await;
        let mut conditions = Conditions(&mut random);
        for _ in 0..QUERIES {
            let query = conditions.next();
            // A comparison of nothing but NULL may have no type there.
            let Ok(wanted) = answer(&theirs, &query).await else { continue };
            let found = answer(&ours, &query).await;
            if found.as_ref() != Ok(&wanted) {
                let plan = rows(&ours, &format!("EXPLAIN VERBOSE {query}")).await.concat().join("\n");
                panic!("{query}\nis {found:?}\nnot {wanted:?}\n{plan}");
            }
        }
    }
}
