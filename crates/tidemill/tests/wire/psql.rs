//! psql and pgbench as they are installed, and what they print.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::server::Server;

/// Whether a program is installed; says so if not.
fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: there is no {program}");
    }
    found
}

fn command(program: &str, server: &Server) -> Command {
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-p", &server.port.to_string(), "-U", "postgres"]);
    command
}

/// What psql prints for a script: its output, then its errors.
fn psql(server: &Server, script: &str) -> String {
    let mut psql = command("psql", server)
        .args(["-X", "-q", "tidemill", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    psql.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = psql.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    out + &err.replace("psql:<stdin>:", "")
}

fn check(server: &Server, script: &str, wanted: &str) {
    let got = psql(server, script);
    assert_eq!(got.trim_end(), wanted.trim_matches('\n'), "\n{script}\n{got}");
}

#[test]
fn psql_shows_rows_and_errors() {
    if !installed("psql") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    check(
        &server,
        "SELECT 1 AS n, 'x' AS t, NULL AS z, 2.50 AS d;",
        " n | t | z |  d   
---+---+---+------
 1 | x |   | 2.50
(1 row)
",
    );
    check(
        &server,
        "\\x\nSELECT 1 AS a, 'two\nlines' AS b;",
        "-[ RECORD 1 ]
a | 1
b | two  +
  | lines",
    );
    check(
        &server,
        "SELECT 1,\n  nope + 1\nFROM (VALUES (1)) AS t(name);",
        "3: ERROR:  column \"nope\" does not exist
LINE 2:   nope + 1
          ^
HINT:  Perhaps you meant to reference the column \"t.name\".",
    );
    check(
        &server,
        "SELECT 'ä', 1 + 'ö'::text;",
        "1: ERROR:  operator does not exist: integer + text
LINE 1: SELECT 'ä', 1 + 'ö'::text;
                      ^
HINT:  No operator matches the given name and argument types. You might need to add explicit type casts.",
    );
}

/// A file of rows in, a file of rows out.
#[test]
fn psql_copies_files() {
    if !installed("psql") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let (input, output) = (dir.path().join("in.csv"), dir.path().join("out.csv"));
    std::fs::write(&input, "k,x\n1,0.5\n2,1.5\n1,2\n").unwrap();
    let script = format!(
        "CREATE STREAM s (k int, x float8);
CREATE CONTINUOUS VIEW v AS SELECT k, count(*) AS n, sum(x) AS s FROM s GROUP BY k;
\\copy s (k, x) from '{}' csv header
\\copy (SELECT * FROM v ORDER BY k) to '{}' csv header
\\copy (SELECT k FROM v ORDER BY k) to stdout
SELECT count(*) AS groups, sum(n) AS events FROM v \\gset
\\echo :groups of :events
SELECT format('SELECT %s AS x', k) FROM v ORDER BY k \\gexec
\\copy s (k, x) from stdin
3\toops
\\.
",
        input.display(),
        output.display()
    );
    check(
        &server,
        &script,
        "1
2
2 of 3
 x 
---
 1
(1 row)

 x 
---
 2
(1 row)

11: ERROR:  invalid input syntax for type double precision: \"oops\"
CONTEXT:  COPY s, line 1, column x: \"oops\"",
    );
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "k,n,s\n1,2,2.5\n2,1,1.5\n");
}

#[test]
fn psql_runs_transactions_and_settings() {
    if !installed("psql") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let script = "CREATE STREAM s (x int);
CREATE CONTINUOUS VIEW v AS SELECT count(*) FROM s;
\\set ON_ERROR_ROLLBACK off
BEGIN;
INSERT INTO s (x) VALUES (1);
SELECT 1/0;
INSERT INTO s (x) VALUES (2);
COMMIT;
\\t
SELECT count FROM v;
COMMIT;
SET application_name = 'shown';
SHOW application_name;
SELECT 1 \\; SELECT 2;
\\echo :ROW_COUNT :SQLSTATE :LAST_ERROR_SQLSTATE
PREPARE p (int) AS SELECT $1 + 1;
EXECUTE p(41);
\\encoding
";
    check(
        &server,
        script,
        "     0

 shown

        1

        2

1 00000 25P02
       42

UTF8
6: ERROR:  division by zero
7: ERROR:  current transaction is aborted, commands ignored until end of transaction block
11: WARNING:  there is no transaction in progress",
    );
}

fn pgbench(server: &Server, args: &[&str]) -> Output {
    command("pgbench", server).args(args).arg("tidemill").output().unwrap()
}

/// The article's script, in the three modes of the protocol: every event counts once.
#[test]
fn pgbench_writes_a_stream() {
    if !installed("pgbench") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    psql(&server, "CREATE CONTINUOUS VIEW v AS SELECT count(*), sum(x::int) FROM stream;");
    let script = dir.path().join("insert.sql");
    std::fs::write(
        &script,
        "\\set n random(1, 10)
insert into stream (x, y, z) select generate_series(1, 100), 1, 1;
INSERT INTO stream (x) VALUES (:n);
SELECT count FROM v;
",
    )
    .unwrap();
    for (done, mode) in [(1, "simple"), (2, "extended"), (3, "prepared")] {
        let path = script.display().to_string();
        let output = pgbench(&server, &["-n", "-M", mode, "-c", "4", "-t", "25", "-f", &path]);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(
            output.status.success() && out.contains("transactions actually processed: 100/100"),
            "{out}{err}"
        );
        let wanted = (done * 100 * 101).to_string();
        let got = command("psql", &server)
            .args(["-X", "-A", "-t", "-c", "SELECT count FROM v", "tidemill"])
            .output();
        assert_eq!(String::from_utf8(got.unwrap().stdout).unwrap().trim(), wanted, "{mode}");
    }
}

/// pgbench's own tables need what a later version has: it says so, in its own words.
#[test]
fn pgbench_initialization_fails_clearly() {
    if !installed("pgbench") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let output = pgbench(&server, &["-i", "-q"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(error.contains("is not supported") && !error.contains("XX000"), "{error}");
}

#[test]
fn psql_shows_a_transform_as_a_view() {
    if !installed("psql") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    check(
        &server,
        "CREATE STREAM s (a int);
         CREATE TABLE t (x bigint);
         CREATE CONTINUOUS TRANSFORM passed AS SELECT a + 1 AS more FROM s
             THEN EXECUTE PROCEDURE pipeline_stream_insert('t');
         \\dv
         \\d+ passed",
        r#"
         List of relations
 Schema |  Name  | Type |  Owner   
--------+--------+------+----------
 public | passed | view | postgres
(1 row)

                           View "public.passed"
 Column |  Type   | Collation | Nullable | Default | Storage | Description 
--------+---------+-----------+----------+---------+---------+-------------
 more   | integer |           |          |         | plain   | 
View definition:
 SELECT a + 1 AS more FROM s;
Options: action=transform, outputfunc=pipeline_stream_insert('t')
"#,
    );
}
