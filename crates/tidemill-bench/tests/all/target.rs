//! What every target must do, against each kind of database.

use tidemill_bench::error::Error;
use tidemill_bench::target::{Cell, Connection, Dialect, Rows, Statement, Stretch, Target, Value};

use crate::postgres::Postgres;

#[test]
fn sqlite_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    contract(&format!("sqlite:{}", dir.path().join("a.db").display()));
    contract("sqlite::memory:");
}

#[test]
fn postgres_keeps_the_contract() {
    let Some(server) = Postgres::start() else { return };
    contract(&server.url());
    pipelines(&server.url());
    types(&server.url());
}

pub fn contract(url: &str) {
    let target = Target::open(url).unwrap();
    let bytes = if target.dialect() == Dialect::Postgres { "bytea" } else { "blob" };
    let mut connection = target.connect().unwrap();
    connection
        .execute(&format!(
            "create table t (a bigint primary key, b varchar(100), c {bytes}, d double precision)"
        ))
        .unwrap();
    // One text may hold several statements.
    connection
        .execute("insert into t (a, b) values (1, 'x'); insert into t (a, b) values (2, null), (3, 'it''s')")
        .unwrap();
    let mut rows = Rows::default();
    let done = connection.query("select a, b from t order by a", &mut rows).unwrap();
    assert_eq!((done.rows, rows.len(), rows.columns()), (3, 3, 2));
    assert_eq!((rows.name(0), rows.name(1)), (Some("a"), Some("b")));
    assert_eq!((rows.int(2, 0), rows.text(2, 1).as_deref()), (Some(3), Some("it's")));
    assert!(rows.is_null(1, 1));

    let place = |n| target.dialect().placeholder(n);
    let insert =
        format!("insert into t (a, b, c, d) values ({}, {}, {}, {})", place(1), place(2), place(3), place(4));
    let insert = connection.prepare(&insert).unwrap();
    let all: Vec<u8> = (0..=255).collect();
    let values =
        [Value::Int(-9_000_000_000), Value::Text("a\\b'c\n\t€"), Value::Bytes(&all), Value::Float(0.1)];
    assert_eq!(connection.run(insert, &values, None).unwrap().affected, 1);
    let select = connection.prepare(&format!("select a, b, c, d from t where a = {}", place(1))).unwrap();
    for _ in 0..2 {
        connection.run(select, &[Value::Int(-9_000_000_000)], Some(&mut rows)).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows.int(0, 0), Some(-9_000_000_000));
        assert_eq!(rows.text(0, 1).as_deref(), Some("a\\b'c\n\t€"));
        assert_eq!(rows.bytes(0, 2), Some(&all[..]));
        assert_eq!(rows.float(0, 3), Some(0.1));
    }
    connection.run(select, &[Value::Int(77)], Some(&mut rows)).unwrap();
    assert!(rows.is_empty());
    let one = format!("select b from t where a = {}", place(1));
    connection.run_once(&one, &[Value::Int(1)], Some(&mut rows)).unwrap();
    assert_eq!(rows.text(0, 0).as_deref(), Some("x"));

    let error = connection.execute("select nothing from nowhere").unwrap_err();
    assert!(matches!(error, Error::Server(_)), "{error}");
    let error =
        connection.run(insert, &[Value::Int(1), Value::Null, Value::Null, Value::Null], None).unwrap_err();
    assert!(error.code().is_some(), "{error}");
    assert_eq!(connection.query_int("select count(*) from t").unwrap(), 4, "usable after errors");
    stretches(connection.as_mut(), insert, select);
    loads(connection.as_mut());
}

/// Statements that travel together are one transaction, or with others around them a part of one.
fn stretches(connection: &mut dyn Connection, insert: Statement, select: Statement) {
    let mut rows = Rows::default();
    let row = |a| [Value::Int(a), Value::Text("s"), Value::Null, Value::Null];
    let (first, second, third) = (row(101), row(102), row(103));
    let mut run = |connection: &mut dyn Connection, begins, steps: &[_], commits| {
        connection.run_stretch(Stretch { begins, steps, commits }, &mut rows).map(|done| (done, rows.len()))
    };
    let all = [(insert, &first[..]), (select, &first[..1]), (insert, &second[..])];
    let (done, kept) = run(connection, true, &all, true).unwrap();
    assert_eq!((done.affected, kept), (1, 0), "of the last one");
    let all = [(insert, &third[..]), (select, &third[..1])];
    let (done, kept) = run(connection, true, &all, false).unwrap();
    assert_eq!((done.rows, kept), (1, 1));
    assert!(connection.is_in_transaction());
    connection.execute("rollback").unwrap();
    assert!(!connection.is_in_transaction());

    // What comes behind an error is not done, nor is what came before it kept.
    let error = run(connection, true, &[(insert, &third[..]), (insert, &first[..])], true).unwrap_err();
    assert!(error.code().is_some(), "{error}");
    connection.execute("rollback").unwrap();
    assert_eq!(connection.query_int("select count(*) from t where a > 100").unwrap(), 2);

    run(connection, true, &[(insert, &third[..])], false).unwrap();
    let (done, _) = run(connection, false, &[(insert, &row(104)[..])], true).unwrap();
    assert_eq!((done.affected, connection.is_in_transaction()), (1, false));
    assert_eq!(connection.query_int("select count(*) from t where a > 100").unwrap(), 4);
}

fn loads(connection: &mut dyn Connection) {
    let mut load = connection.load("t", &["a", "b", "d"]).unwrap();
    for i in 1000..21_000 {
        load.row(&[Value::Int(i), Value::Text("tab\tnew\nline\\ 'q'"), Value::Float(i as f64 / 8.0)])
            .unwrap();
    }
    assert_eq!(load.finish().unwrap(), 20_000);
    assert_eq!(connection.query_int("select count(*) from t where a >= 1000 and d * 8 = a").unwrap(), 20_000);
    assert_eq!(
        connection.query_value("select b from t where a = 5000").unwrap().as_deref(),
        Some("tab\tnew\nline\\ 'q'")
    );
    // Of an answer that comes in many pieces the last row is kept, wherever a piece ends.
    let mut last = Rows::of_last_row();
    for first in (20_900..21_000).rev().chain([1000]) {
        let sql = format!("select a, b from t where a >= {first} order by a");
        connection.query(&sql, &mut last).unwrap();
        let count = 21_000 - first;
        assert_eq!((last.len(), last.int(count - 1, 0)), (count, Some(20_999)));
        assert_eq!(last.text(count - 1, 1).as_deref(), Some("tab\tnew\nline\\ 'q'"));
    }
    // A load that fails, or is given up, leaves the connection usable.
    let mut load = connection.load("t", &["a"]).unwrap();
    let failed = load.row(&[Value::Int(1000)]).and_then(|()| load.finish());
    assert!(matches!(failed, Err(Error::Server(_))), "{failed:?}");
    let mut load = connection.load("t", &["a"]).unwrap();
    load.row(&[Value::Int(999_999)]).unwrap();
    drop(load);
    assert_eq!(connection.query_int("select count(*) from t where a = 999999").unwrap(), 0);
    assert!(connection.load("nowhere", &["a"]).is_err());
    assert!(!connection.version().unwrap().is_empty());
}

/// Answers larger than all buffers come while the questions are still sent.
fn pipelines(url: &str) {
    let mut connection = Target::open(url).unwrap().connect().unwrap();
    let statement = connection.prepare("select repeat('x', 20000) where $1 > 0").unwrap();
    connection.pipeline_start().unwrap();
    for i in 1..=2000 {
        connection.run(statement, &[Value::Int(i)], None).unwrap();
    }
    assert_eq!(connection.pipeline_end().unwrap().rows, 2000);
    connection.pipeline_start().unwrap();
    connection.run_once("select 1/0", &[], None).unwrap();
    connection.run_once("select 1", &[], None).unwrap();
    assert_eq!(connection.pipeline_end().unwrap_err().code(), Some("22012"));
    assert_eq!(connection.query_int("select 5").unwrap(), 5);
}

fn types(url: &str) {
    let mut connection = Target::open(url).unwrap().connect().unwrap();
    let sql = "select 1::int2, -2::int4, 3::int8, 1.5::float4, 2.5::float8, 1.25::numeric, true, '\\x00ff'::bytea, null";
    let statement = connection.prepare(sql).unwrap();
    let mut rows = Rows::default();
    connection.run(statement, &[], Some(&mut rows)).unwrap();
    assert_eq!((rows.int(0, 0), rows.int(0, 1), rows.int(0, 2)), (Some(1), Some(-2), Some(3)));
    assert_eq!((rows.float(0, 3), rows.float(0, 4), rows.float(0, 5)), (Some(1.5), Some(2.5), Some(1.25)));
    assert_eq!((rows.text(0, 6).as_deref(), rows.bytes(0, 7)), (Some("t"), Some(&[0, 255][..])));
    assert_eq!(rows.cell(0, 8), Cell::Null);
    let statement = connection.prepare("select $1::int2 + $2::int4 + $3::int8, $4::numeric").unwrap();
    let values = [Value::Int(1), Value::Int(2), Value::Int(3), Value::Int(4)];
    connection.run(statement, &values, Some(&mut rows)).unwrap();
    assert_eq!((rows.int(0, 0), rows.int(0, 1)), (Some(6), Some(4)));
    let error = connection
        .run(statement, &[Value::Int(1 << 40), Value::Null, Value::Null, Value::Null], None)
        .unwrap_err();
    assert_eq!(
        error.code(),
        Some("22003"),
        "a number that does not fit goes as text, so that the server says so"
    );
    let refused = connection.execute("copy (select 1) to stdout").unwrap_err();
    assert_eq!(refused.kind(), "unsupported");
    connection.execute("create temp table c (a int)").unwrap();
    let error = connection.execute("copy c from stdin").unwrap_err();
    assert_eq!(error.code(), Some("57014"));
    let statement = connection.prepare("copy c from stdin").unwrap();
    assert_eq!(connection.run(statement, &[], None).unwrap_err().code(), Some("57014"));
    assert_eq!(connection.run_once("copy c from stdin", &[], None).unwrap_err().code(), Some("57014"));
    assert_eq!(connection.query_int("select 6").unwrap(), 6);
    connection.pipeline_start().unwrap();
    connection.run(statement, &[], None).unwrap();
    assert_eq!(connection.pipeline_end().unwrap_err().code(), Some("57014"));
    assert_eq!(connection.query_int("select 7").unwrap(), 7);
}

#[test]
fn mysql_keeps_the_contract() {
    let Some(server) = crate::mariadb::MariaDb::start() else { return };
    contract(&server.url("root"));
    let admin = Target::open(&server.url("root")).unwrap();
    admin
        .connect()
        .unwrap()
        .execute("create user w@'%' identified by 'p@ss'; grant all on *.* to w@'%'")
        .unwrap();
    assert!(Target::open(&server.url("w:p%40ss")).unwrap().connect().is_ok());
    let error = Target::open(&server.url("w:wrong")).unwrap().connect().err().unwrap().to_string();
    assert!(error.contains("Access denied for user 'w'"), "{error}");
    mysql_types(&server.url("root"));
}

fn mysql_types(url: &str) {
    let mut connection = Target::open(url).unwrap().connect().unwrap();
    connection
        .execute(
            "create table k (a tinyint, b smallint unsigned, c int, d bigint unsigned, e float, f decimal(10,3), g date,
             h datetime(6), i time, j year);
             insert into k values (-5, 65535, -70000, 18446744073709551615, 1.5, 1.25, '2026-01-02',
             '2026-01-02 03:04:05.000006', '-30:00:01', 2026)",
        )
        .unwrap();
    let statement = connection.prepare("select * from k where a = ?").unwrap();
    let mut rows = Rows::default();
    connection.run(statement, &[Value::Int(-5)], Some(&mut rows)).unwrap();
    let texts: Vec<_> = (0..10).map(|i| rows.text(0, i).unwrap().into_owned()).collect();
    let wanted = [
        "-5",
        "65535",
        "-70000",
        "18446744073709551615",
        "1.5",
        "1.250",
        "2026-01-02",
        "2026-01-02 03:04:05.000006",
        "-30:00:01",
        "2026",
    ];
    assert_eq!(texts, wanted);
    // Longer than one packet.
    let long = "x".repeat(20_000_000);
    connection.execute("set global max_allowed_packet = 67108864").unwrap();
    let mut connection = Target::open(url).unwrap().connect().unwrap();
    let statement = connection.prepare("select length(?), ?").unwrap();
    connection.run(statement, &[Value::Text(&long), Value::Text(&long)], Some(&mut rows)).unwrap();
    assert_eq!((rows.int(0, 0), rows.bytes(0, 1).map(<[u8]>::len)), (Some(20_000_000), Some(20_000_000)));
}
