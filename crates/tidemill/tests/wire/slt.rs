//! The shared files `tests/slt/*.slt`: each runs here through the simple and the extended protocol, and, where it is
//! installed, on PostgreSQL 15. Both must give what the file says.
//!
//! The files are written in sqllogictest's format, with these refinements:
//!
//! ```text
//! skipif tidemill          the record is not for this server (`onlyif` is for this one only): `tidemill` or `postgresql`
//! query int4 numeric(3,1)  the types of the result's columns; `T` alone leaves them open
//! query int4 rowsort       rows in any order
//! query error              what follows `----` is the error: SQLSTATE, message, then DETAIL, HINT and POSITION
//! statement ok             a statement whose tag does not matter
//! ```
//!
//! A value is NULL, (empty), or its text with newlines written as `\n`.
//!
//! A record with `skipif tidemill` is something that Tidemill does not do: it must still differ (or the mark is to go), and
//! it must not be an internal error. `TIDEMILL_SLT=update` writes what PostgreSQL answers into the files,
//! `TIDEMILL_SLT=mark` sets those marks anew.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::client::{Answer, Client, Column, ErrorFields};
use crate::postgres::Postgres;
use crate::server::Server;

/// Where a record runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Tidemill,
    Postgresql,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Engine::Tidemill => "tidemill",
            Engine::Postgresql => "postgresql",
        }
    }
}

/// One record of a file, with the comments before it.
struct Record {
    line: usize,
    comments: Vec<String>,
    conditions: Vec<String>,
    head: String,
    sql: String,
    expected: String,
}

impl Record {
    fn runs_on(&self, engine: Engine) -> bool {
        self.conditions.iter().all(|condition| match condition.split_once(' ') {
            Some(("onlyif", name)) => name == engine.name(),
            Some(("skipif", name)) => name != engine.name(),
            _ => panic!("line {}: {condition}", self.line),
        })
    }

    fn is_statement(&self) -> bool {
        self.head.starts_with("statement")
    }

    fn sorted(&self) -> bool {
        self.head.ends_with(" rowsort")
    }

    /// The types that the head promises.
    fn types(&self) -> Option<&str> {
        let types = self.head.strip_prefix("query ")?.trim_end_matches(" rowsort");
        (types != "T" && !types.starts_with("error")).then_some(types)
    }

    fn written(&self) -> String {
        let mut lines = self.comments.clone();
        if !self.sql.is_empty() {
            lines.extend(self.conditions.clone());
            lines.extend([self.head.clone(), self.sql.clone()]);
            let answered = !self.is_statement() && !self.head.starts_with("query error ");
            lines.extend(answered.then(|| "----".to_string()));
            lines.extend((answered && !self.expected.is_empty()).then(|| self.expected.clone()));
        }
        lines.join("\n")
    }

    /// What is wrong with an answer.
    fn complaint(&self, answer: &Answer) -> Option<String> {
        if self.is_statement() {
            return answer.error.as_ref().map(shown_error);
        }
        let shown = shown(answer, self.sorted());
        // `query error message` on one line, as sqllogictest has it.
        if let Some(message) = self.head.strip_prefix("query error ") {
            let found =
                answer.error.as_ref().is_some_and(|e| e.get('M').contains(&message.replace('\\', "")));
            return (!found).then(|| format!("{shown}\n  wanted an error: {message}"));
        }
        if shown != self.expected {
            return Some(format!("{shown}\n  wanted:\n{}", self.expected));
        }
        let types = type_names(&answer.columns);
        let wanted = self.types().filter(|wanted| answer.error.is_none() && *wanted != types)?;
        Some(format!("types {types}\n  wanted {wanted}"))
    }
}

fn read(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let mut line = 1;
    for part in text.split("\n\n") {
        let at = line;
        line += part.matches('\n').count() + 2;
        let mut lines = part.trim_matches('\n').lines().peekable();
        let mut take = |prefixes: &[&str]| {
            let mut taken = Vec::new();
            while let Some(next) = lines.next_if(|l| prefixes.iter().any(|p| l.starts_with(p))) {
                taken.push(next.to_string());
            }
            taken
        };
        let comments = take(&["#"]);
        let conditions = take(&["skipif", "onlyif"]);
        let head = take(&["query", "statement"]).pop().unwrap_or_default();
        let rest = lines.collect::<Vec<_>>().join("\n");
        let (sql, expected) = rest.split_once("\n----").unwrap_or((&rest, ""));
        let (sql, expected) = (sql.to_string(), expected.trim_matches('\n').to_string());
        assert!(!head.is_empty() || sql.is_empty(), "line {at}: not a record: {sql}");
        records.push(Record { line: at, comments, conditions, head, sql, expected });
    }
    records
}

fn shown(answer: &Answer, sorted: bool) -> String {
    if let Some(error) = &answer.error {
        return shown_error(error);
    }
    let value = |value: &Option<String>| match value.as_deref() {
        None => "NULL".to_string(),
        Some("") => "(empty)".to_string(),
        Some(text) => text.replace('\n', "\\n"),
    };
    let row = |row: &Vec<Option<String>>| row.iter().map(value).collect::<Vec<_>>().join(" ");
    let mut rows: Vec<String> = answer.rows.iter().map(row).collect();
    if sorted {
        rows.sort();
    }
    rows.join("\n")
}

fn shown_error(error: &ErrorFields) -> String {
    let mut text = format!("{}: {}", error.get('C'), error.get('M'));
    for (letter, label) in [('D', "DETAIL"), ('H', "HINT"), ('P', "POSITION")] {
        if !error.get(letter).is_empty() {
            write!(text, "\n{label}: {}", error.get(letter)).unwrap();
        }
    }
    text
}

/// Types as the head of a record names them.
fn type_names(columns: &[Column]) -> String {
    columns.iter().map(type_name).collect::<Vec<_>>().join(" ")
}

fn type_name(column: &Column) -> String {
    let name = match column.type_oid {
        16 => "bool",
        17 => "bytea",
        18 => "char",
        19 => "name",
        20 => "int8",
        21 => "int2",
        23 => "int4",
        25 => "text",
        26 => "oid",
        114 => "json",
        199 => "json[]",
        700 => "float4",
        701 => "float8",
        1000 => "bool[]",
        1001 => "bytea[]",
        1003 => "name[]",
        1005 => "int2[]",
        1007 => "int4[]",
        1009 => "text[]",
        1014 => "bpchar[]",
        1015 => "varchar[]",
        1016 => "int8[]",
        1021 => "float4[]",
        1022 => "float8[]",
        1042 => "bpchar",
        1043 => "varchar",
        1082 => "date",
        1083 => "time",
        1114 => "timestamp",
        1115 => "timestamp[]",
        1182 => "date[]",
        1183 => "time[]",
        1184 => "timestamptz",
        1185 => "timestamptz[]",
        1186 => "interval",
        1187 => "interval[]",
        1231 => "numeric[]",
        1700 => "numeric",
        2206 => "regtype",
        2249 => "record",
        2950 => "uuid",
        2951 => "uuid[]",
        3802 => "jsonb",
        3807 => "jsonb[]",
        other => return format!("oid{other}"),
    };
    match column.type_oid {
        _ if column.typmod < 0 => name.to_string(),
        // The fields of an interval are not told here.
        1186 => name.to_string(),
        1700 => {
            let (precision, scale) = ((column.typmod - 4) >> 16, (column.typmod - 4) & 0xffff);
            format!("{name}({precision},{scale})")
        }
        1042 | 1043 => format!("{name}({})", column.typmod - 4),
        _ => format!("{name}({})", column.typmod),
    }
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt").join(format!("{name}.slt"))
}

/// Runs the records that are for an engine and collects what is wrong.
fn check(text: &str, engine: Engine, ask: &mut dyn FnMut(&str) -> Answer) -> Vec<String> {
    let mut complaints = Vec::new();
    for record in read(text).iter().filter(|r| !r.sql.is_empty() && r.runs_on(engine)) {
        if let Some(complaint) = record.complaint(&ask(&record.sql)) {
            complaints.push(format!("line {}: {}\n{complaint}\n", record.line, record.sql));
        }
    }
    complaints
}

const SKIPPED: &str = "skipif tidemill";

/// What is wrong with the records that are marked as not done.
fn check_marks(text: &str, ask: &mut dyn FnMut(&str) -> Answer) -> Vec<String> {
    let mut complaints = Vec::new();
    for record in read(text).iter().filter(|r| r.conditions.iter().any(|c| c == SKIPPED) && !r.is_statement())
    {
        let answer = ask(&record.sql);
        if record.complaint(&answer).is_none() {
            complaints.push(format!("line {}: {}\nagrees now: remove its mark\n", record.line, record.sql));
        } else if answer.error.as_ref().is_some_and(|e| e.get('C') == "XX000") {
            let shown = shown(&answer, false);
            complaints.push(format!("line {}: {}\nan internal error: {shown}\n", record.line, record.sql));
        }
    }
    complaints
}

/// The file with marks where Tidemill differs.
fn marked(text: &str, tidemill: &mut Client) -> String {
    let marked = read(text).into_iter().map(|mut record| {
        let query = !record.is_statement() && !record.sql.is_empty();
        if query && !record.conditions.iter().any(|c| c.starts_with("onlyif")) {
            record.conditions.retain(|c| c != SKIPPED);
            let differs = record.complaint(&tidemill.query(&record.sql)).is_some();
            record.conditions.extend(differs.then(|| SKIPPED.to_string()));
        }
        record.written()
    });
    marked.collect::<Vec<_>>().join("\n\n").trim_end().to_string() + "\n"
}

fn on_tidemill(name: &str) {
    let text = std::fs::read_to_string(path(name)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = Client::connect(server.port, "tidemill");
    if mode("mark") {
        return std::fs::write(path(name), marked(&text, &mut client)).unwrap();
    }
    let mut complaints = check(&text, Engine::Tidemill, &mut |sql| client.query(sql));
    complaints.extend(check_marks(&text, &mut |sql| client.query(sql)));
    // A second life for files that define something.
    drop(server);
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = Client::connect(server.port, "tidemill");
    // Several statements are for the simple protocol alone.
    let extended = check(&text, Engine::Tidemill, &mut |sql| match sql.contains("; ") {
        true => client.query(sql),
        false => client.extended(sql),
    });
    complaints.extend(extended.into_iter().map(|c| format!("extended protocol, {c}")));
    assert!(complaints.is_empty(), "{name}: {} complaints\n{}", complaints.len(), complaints.join("\n"));
}

fn mode(wanted: &str) -> bool {
    std::env::var("TIDEMILL_SLT").is_ok_and(|value| value == wanted)
}

/// Every file, on PostgreSQL.
#[test]
fn postgresql_agrees() {
    let Some(postgres) = Postgres::start() else { return };
    let mut complaints = Vec::new();
    for (i, name) in FILES.iter().enumerate() {
        let database = format!("d{i}");
        Client::connect(postgres.port, "postgres").query(&format!("CREATE DATABASE {database}"));
        let mut client = Client::connect(postgres.port, &database);
        let text = std::fs::read_to_string(path(name)).unwrap();
        if mode("update") {
            std::fs::write(path(name), updated(&text, &mut client)).unwrap();
        } else {
            let found = check(&text, Engine::Postgresql, &mut |sql| client.query(sql));
            complaints.extend(found.into_iter().map(|c| format!("{name}, {c}")));
        }
    }
    assert!(complaints.is_empty(), "{} complaints\n{}", complaints.len(), complaints.join("\n"));
}

/// The file with PostgreSQL's answers.
fn updated(text: &str, postgres: &mut Client) -> String {
    let updated = read(text).into_iter().map(|mut record| {
        if record.runs_on(Engine::Postgresql) && !record.sql.is_empty() {
            let answer = postgres.query(&record.sql);
            if !record.is_statement() {
                let sort = if record.sorted() { " rowsort" } else { "" };
                record.expected = shown(&answer, record.sorted());
                record.head = match &answer.error {
                    Some(_) => "query error".to_string(),
                    None => format!("query {}{sort}", type_names(&answer.columns)),
                };
            }
        }
        record.written()
    });
    updated.collect::<Vec<_>>().join("\n\n").trim_end().to_string() + "\n"
}

macro_rules! files {
    ($($name:ident)*) => {
        const FILES: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { on_tidemill(stringify!($name)); })*

        #[test]
        fn all_files_are_run() {
            let mut found: Vec<String> = std::fs::read_dir(path("x").parent().unwrap())
                .unwrap()
                .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
                .collect();
            found.sort();
            let mut listed = FILES.to_vec();
            listed.sort();
            assert_eq!(found, listed);
        }
    };
}

files!(aggregate array cast clause comment condition continuous_view continuous_view_join cte datetime equality error explain function group insert join json literal math membership modify operator order plan query series set_operation string subquery syntax type_array type_bool type_bytea type_date type_float type_integer type_interval type_json type_numeric type_string type_timestamp type_uuid transform view window);
