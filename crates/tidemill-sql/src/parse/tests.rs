//! Each form of statement, and where errors point.

use super::*;
use crate::error::SqlState;
use crate::insert::{InsertRows, insert_shape};
use crate::relation::{infer_columns, relations};
use crate::statement::{CopyFormat, CopySource, FetchDirection, MigrateTarget, ObjectKind};
use crate::types::{Scalar, Type};

fn one(sql: &str) -> Statement {
    let mut parsed = parse(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    assert_eq!(parsed.len(), 1, "{sql}");
    parsed.remove(0).statement
}

fn error(sql: &str) -> (String, Option<usize>) {
    let e = parse(sql).map(|p| p.len()).unwrap_err();
    (e.message.clone(), e.position)
}

#[test]
fn the_seed_parses() {
    for sql in [
        "CREATE CONTINUOUS VIEW v0 AS SELECT COUNT(*) FROM stream;",
        "ACTIVATE;",
        "INSERT INTO stream (x) VALUES (1);",
        "SET stream_targets TO v0;",
        "SET stream_targets TO DEFAULT;",
        "DEACTIVATE;",
        "SELECT count FROM v0;",
        "select proname from pg_proc order by oid desc;",
        "CREATE CONTINUOUS VIEW v1 AS SELECT sum(x::int),count(*),avg(y::int) FROM stream;",
        "activate;",
        "select relname from pg_class where relkind='C';",
        "insert into stream(x,y,z) select generate_series(1,1000),1,1;",
    ] {
        one(sql);
    }
}

#[test]
fn a_continuous_view_keeps_the_text_of_its_query() {
    let sql = "-- first\nCREATE CONTINUOUS VIEW v WITH (sw = '5 minutes', step_factor=10, pk) AS\n SELECT x::int FROM s WHERE 'a;b' <> x ; SELECT 1";
    let parsed = parse(sql).unwrap();
    assert_eq!(parsed.len(), 2);
    let Statement::CreateView(view) = &parsed[0].statement else { panic!() };
    assert_eq!(view.query_text, "SELECT x::int FROM s WHERE 'a;b' <> x");
    assert_eq!(&parsed[0].text[view.query_offset..][..6], "SELECT");
    let options: Vec<_> = view.options.iter().map(|o| (o.name.as_str(), o.value.as_deref())).collect();
    assert_eq!(options, [("sw", Some("5 minutes")), ("step_factor", Some("10")), ("pk", None)]);
    assert_eq!(parsed[1].text, "SELECT 1");
}

#[test]
fn a_transform_tells_where_its_rows_go() {
    for (sql, tag, function, names) in [
        (
            "CREATE CONTINUOUS TRANSFORM t AS SELECT x FROM s THEN EXECUTE PROCEDURE f('a', 'public.\"B\"')",
            "CREATE CONTINUOUS TRANSFORM",
            "f",
            vec!["a", "B"],
        ),
        (
            "CREATE VIEW t WITH (action=transform, outputfunc=pipelinedb.f('a')) AS SELECT x FROM s",
            "CREATE VIEW",
            "f",
            vec!["a"],
        ),
        (
            "CREATE OR REPLACE CONTINUOUS TRANSFORM t AS SELECT x FROM s",
            "CREATE CONTINUOUS TRANSFORM",
            "",
            vec![],
        ),
    ] {
        let Statement::CreateView(view) = one(sql) else { panic!() };
        assert!(view.is_transform());
        assert_eq!((view.tag(), view.query_text.as_str()), (tag, "SELECT x FROM s"));
        let (name, arguments) = match &view.output {
            Some(output) => {
                (output.name.name.as_str(), output.arguments.iter().map(|a| a.name.as_str()).collect())
            }
            None => ("", vec![]),
        };
        assert_eq!((name, arguments), (function, names), "{sql}");
    }
}

#[test]
fn streams_are_created_altered_and_dropped() {
    let Statement::CreateStream(s) =
        one("CREATE FOREIGN TABLE s (x int, \"Y\" varchar(3)[], t timestamptz(3)) SERVER pipelinedb")
    else {
        panic!()
    };
    assert_eq!(s.server.as_deref(), Some("pipelinedb"));
    let columns: Vec<_> = s.columns.iter().map(|c| format!("{} {}", c.name, c.ty.display())).collect();
    assert_eq!(columns, ["x integer", "Y character varying(3)[]", "t timestamp(3) with time zone"]);
    assert!(matches!(one("ALTER STREAM s ADD COLUMN z numeric(10,2)"), Statement::AlterStream { .. }));
    assert!(matches!(
        one("DROP STREAM IF EXISTS a, public.b CASCADE"),
        Statement::Drop { kind: ObjectKind::Stream, if_exists: true, cascade: true, names } if names.len() == 2
    ));
}

#[test]
fn session_statements() {
    assert!(matches!(one("SET pipelinedb.stream_targets TO a, b"),
        Statement::Set { name, value: Some(v), .. } if name == "pipelinedb.stream_targets" && v == ["a", "b"]));
    assert!(matches!(one("set local work_mem = '64MB'"), Statement::Set { local: true, .. }));
    assert!(matches!(one("SET TIME ZONE 'Europe/Paris'"), Statement::Set { name, .. } if name == "TimeZone"));
    assert!(
        matches!(one("SET extra_float_digits = -3"), Statement::Set { value: Some(v), .. } if v == ["-3"])
    );
    assert!(
        matches!(one("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"), Statement::Begin { start: false, modes } if modes.len() == 2)
    );
    assert!(matches!(one("SHOW ALL"), Statement::Show(None)));
    assert!(matches!(one("ALTER USER postgres WITH ENCRYPTED PASSWORD 'x'"),
        Statement::AlterRole { name, password: Some(p) } if name == "postgres" && p == "x"));
    for refused in ["CREATE ROLE x", "LISTEN x", "PREPARE TRANSACTION 'x'", "LOCK TABLE t"] {
        assert_eq!(parse(refused).unwrap_err().state.0, "0A000", "{refused}");
    }
    assert!(
        matches!(one("PREPARE p(int, text) AS SELECT $1, $2"), Statement::Prepare { types, .. } if types.len() == 2)
    );
    assert!(matches!(one("EXECUTE p(1, 'a')"), Statement::Execute { arguments, .. } if arguments.len() == 2));
    assert!(matches!(
        one("FETCH FORWARD 10 FROM c"),
        Statement::Fetch { direction: FetchDirection::Forward(10), .. }
    ));
    assert!(
        matches!(one("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 1"), Statement::DeclareCursor(d) if d.hold)
    );
}

#[test]
fn copy_takes_both_kinds_of_options() {
    for sql in [
        "COPY s (x, y) FROM STDIN WITH (FORMAT csv, HEADER true, DELIMITER ';', NULL 'NA')",
        "COPY s (x, y) FROM STDIN WITH CSV HEADER DELIMITER ';' NULL AS 'NA'",
    ] {
        let Statement::Copy(copy) = one(sql) else { panic!() };
        assert_eq!(copy.options.format, CopyFormat::Csv);
        assert_eq!(copy.options.delimiter, Some(b';'));
        assert!(matches!(copy.source, CopySource::Relation { columns, .. } if columns.len() == 2));
    }
    assert!(matches!(one("COPY (SELECT 1) TO STDOUT (FORMAT binary)"), Statement::Copy(c) if c.to));
    assert_eq!(
        error("COPY s FROM STDIN (FORMAT text, QUOTE 'x')").0,
        "COPY quote available only in CSV mode"
    );
}

#[test]
fn tables_are_created_and_emptied() {
    let Statement::CreateTable(t) = one(
        "CREATE TABLE IF NOT EXISTS t (a int NOT NULL DEFAULT 1 + 2, \"B\" varchar(3) DEFAULT 'x' NULL, \
         c timestamptz(3) CONSTRAINT given NOT NULL DEFAULT now())",
    ) else {
        panic!()
    };
    let shown = |c: &crate::statement::TableColumn| {
        (c.column.name.clone(), c.not_null, c.default.as_ref().map(|d| d.text.clone()))
    };
    let wanted = [("a", true, Some("1 + 2")), ("B", false, Some("'x'")), ("c", true, Some("now()"))];
    let wanted = wanted.map(|(name, not_null, text)| (name.to_string(), not_null, text.map(String::from)));
    assert_eq!(t.columns.iter().map(shown).collect::<Vec<_>>(), wanted);
    let Statement::CreateTableAs(t) = one("CREATE TABLE t (a, b) AS SELECT 1, 2 WITH NO DATA") else {
        panic!()
    };
    assert_eq!((t.columns.as_slice(), t.with_data), (["a".to_string(), "b".into()].as_slice(), false));
    assert!(matches!(one("CREATE TABLE t AS VALUES (1)"), Statement::CreateTableAs(t) if t.with_data));
    assert!(matches!(one("TRUNCATE a, ONLY public.b * RESTART IDENTITY CASCADE"),
        Statement::Truncate(truncate) if truncate.names.len() == 2 && truncate.restarts && truncate.cascades));
    for (sql, message, position) in [
        ("CREATE TABLE t (a int PRIMARY KEY)", "PRIMARY KEY is not supported", 23),
        ("CREATE TABLE t (a int, UNIQUE (a))", "UNIQUE is not supported", 24),
        ("CREATE TABLE t (a serial)", "type serial is not supported", 19),
        ("CREATE TEMP TABLE t (a int)", "temporary and unlogged tables are not supported", 8),
        ("CREATE TABLE t (a int) WITH (x = 1)", "WITH of a table is not supported", 24),
        ("CREATE TABLE t ()", "a table without columns is not supported", 14),
        (
            "CREATE TABLE t (a int NULL NOT NULL)",
            "conflicting NULL/NOT NULL declarations for column \"a\" of table \"t\"",
            28,
        ),
        ("CREATE TABLE t (a int,)", "syntax error at or near \")\"", 23),
    ] {
        assert_eq!(error(sql), (message.into(), Some(position)), "{sql}");
    }
}

#[test]
fn there_are_no_rights_and_owners() {
    for (sql, message, position) in [
        ("ALTER SERVER s OWNER TO u", "the owner of a server cannot be changed", 16),
        ("ALTER FOREIGN TABLE t OWNER TO u", "the owner of a foreign table cannot be changed", 23),
        ("ALTER FOREIGN TABLE t SET SCHEMA s", "the schema of a foreign table cannot be changed", 23),
        ("GRANT USAGE ON FOREIGN SERVER s TO u", "GRANT is not supported", 1),
        ("GRANT USAGE ON FOREIGN DATA WRAPPER w TO u", "GRANT is not supported", 1),
        ("REVOKE ALL ON FOREIGN SERVER s FROM u", "REVOKE is not supported", 1),
        ("CREATE DISTRIBUTED_FUNC f (int) RETURNS int", "CREATE DISTRIBUTED_FUNC is not supported", 1),
    ] {
        let error = parse(sql).unwrap_err();
        assert_eq!(error.state, SqlState::FEATURE_NOT_SUPPORTED, "{sql}");
        assert_eq!((error.message.as_str(), error.position), (message, Some(position)), "{sql}");
        assert!(error.hint.is_some(), "{sql}");
    }
}

#[test]
fn errors_point_at_the_place() {
    assert_eq!(error("ALTER FOREIGN TABLE t SET x"), ("syntax error at or near \"SET\"".into(), Some(23)));
    assert_eq!(error("SELECT 1; SELEC 2"), ("syntax error at or near \"SELEC\"".into(), Some(11)));
    assert_eq!(error("SELECT * FROM"), ("syntax error at end of input".into(), Some(14)));
    assert_eq!(error("SELECT 'abc"), ("unterminated quoted string at or near \"'abc\"".into(), Some(8)));
    assert_eq!(error("CREATE STREAM s (x foo)"), ("type \"foo\" does not exist".into(), Some(20)));
    assert_eq!(error("DROP STREAM s x"), ("syntax error at or near \"x\"".into(), Some(15)));
    assert_eq!(error("::text COLLATE \"C\""), ("syntax error at or near \"::\"".into(), Some(1)));
    assert_eq!(error("SELECT 1, ::text COLLATE c"), ("syntax error at or near \"::\"".into(), Some(11)));
    let nested = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(parse(&nested).unwrap_err().state, SqlState::STATEMENT_TOO_COMPLEX);
}

#[test]
fn inserts_are_recognised() {
    let shape = |sql: &str| match one(sql) {
        Statement::Sql(s) => match *s {
            sqlparser::ast::Statement::Insert(insert) => insert_shape(&insert).ok().flatten(),
            _ => None,
        },
        _ => None,
    };
    let rows = shape("INSERT INTO s (x, y) VALUES (1, 'a'), (-2.5, NULL), ($1, DEFAULT), ('1'::int, true)")
        .unwrap()
        .rows;
    assert!(matches!(rows, InsertRows::Values(v) if v.len() == 4));
    let rows = shape("insert into stream(x,y,z) select generate_series(1,1000),1,1").unwrap().rows;
    assert!(matches!(rows, InsertRows::Series(c) if c.len() == 3));
    assert!(shape("INSERT INTO s (x) SELECT a FROM t").is_none());
    assert!(shape("INSERT INTO s (x) VALUES (1 + 1)").is_none());
    assert!(shape("INSERT INTO s (x) VALUES (1) RETURNING x").is_none());
}

#[test]
fn streams_are_inferred() {
    let query = parse_query(
        "WITH c AS (SELECT 1) SELECT sum(x::int), y FROM public.s WHERE x::bigint > 1 GROUP BY y",
    )
    .unwrap();
    let names: Vec<_> = relations(&query).iter().map(ToString::to_string).collect();
    assert_eq!(names, ["public.s"]);
    assert_eq!(
        infer_columns(&query, "s").unwrap(),
        [("x".to_string(), Type::new(Scalar::Int8)), ("y".to_string(), Type::new(Scalar::Text))]
    );
    let conflict = parse_query("SELECT x::int, x::date FROM s").unwrap();
    assert_eq!(infer_columns(&conflict, "s").unwrap_err().state, SqlState::DATATYPE_MISMATCH);
}

/// Whatever the words, there is an answer.
#[test]
fn token_soup_never_panics() {
    const WORDS: [&str; 32] = [
        "CREATE",
        "CONTINUOUS",
        "VIEW",
        "STREAM",
        "SELECT",
        "FROM",
        "(",
        ")",
        ",",
        "x",
        "'a'",
        "1",
        ";",
        "AS",
        "WITH",
        "=",
        "COPY",
        "STDIN",
        "INSERT",
        "INTO",
        "VALUES",
        "$1",
        "SET",
        "TO",
        "ALTER",
        "ADD",
        "COLUMN",
        "int",
        "::",
        "\"é\"",
        "DROP",
        "*",
    ];
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x5eed_u64);
    println!("SEED={seed}");
    let mut state = seed;
    for _ in 0..4000 {
        let mut text = String::new();
        for _ in 0..(state % 24) {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            text.push_str(WORDS[(state >> 33) as usize % WORDS.len()]);
            text.push(' ');
        }
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        if let Err(e) = parse(&text) {
            assert!(e.position.unwrap_or(1) <= text.chars().count() + 1, "{text}: {e:?}");
        }
    }
}

#[test]
fn foreign_servers_have_statements_of_their_own() {
    use crate::statement::{
        ForeignStatement as F, ForeignTableAction, ImportSelection, MappedUser, OptionChange,
    };
    let foreign = |sql| match one(sql) {
        Statement::Foreign(statement) => statement,
        other => panic!("{sql}: {other:?}"),
    };
    let F::AlterServer { version: None, options, .. } = foreign(
        "ALTER SERVER s OPTIONS (ADD a '1', SET b '2', DROP c, d '4', set 'x', ADD drop 'y', DROP add)",
    ) else {
        panic!()
    };
    let shown: Vec<_> = options
        .iter()
        .map(|change| match change {
            OptionChange::Add(o) => format!("add {} {}", o.name, o.value),
            OptionChange::Set(o) => format!("set {} {}", o.name, o.value),
            OptionChange::Drop(name) => format!("drop {name}"),
        })
        .collect();
    assert_eq!(shown, ["add a 1", "set b 2", "drop c", "add d 4", "add set x", "add drop y", "drop add"]);
    let F::CreateUserMapping { user: MappedUser::Named(user), .. } =
        foreign("CREATE USER MAPPING FOR \"Public\" SERVER s OPTIONS (password 'x')")
    else {
        panic!()
    };
    assert_eq!(user, "Public");
    let F::ImportSchema(import) =
        foreign("IMPORT FOREIGN SCHEMA \"A b\" EXCEPT (x, \"Y\") FROM SERVER s INTO public")
    else {
        panic!()
    };
    assert_eq!(import.remote, "A b");
    assert_eq!(import.selection, ImportSelection::Except(vec!["x".into(), "Y".into()]));
    let F::AlterTable { actions, .. } =
        foreign("ALTER FOREIGN TABLE t ADD c int NOT NULL, DROP COLUMN IF EXISTS d, OPTIONS (SET a 'b')")
    else {
        panic!()
    };
    assert!(matches!(
        actions.as_slice(),
        [
            ForeignTableAction::AddColumn { .. },
            ForeignTableAction::DropColumn { if_exists: true, .. },
            ForeignTableAction::Options(_)
        ]
    ));
    let end = "syntax error at end of input".to_string();
    assert_eq!(error("ALTER SERVER s"), (end.clone(), Some(15)));
    assert_eq!(error("CREATE FOREIGN TABLE t (a int)"), (end.clone(), Some(31)));
    assert_eq!(error("CREATE USER MAPPING FOR u SERVER s OPTIONS (a"), (end, Some(46)));
    assert_eq!(error("DROP SERVER s.t"), ("syntax error at or near \".\"".into(), Some(14)));
}

#[test]
fn node_filters_become_a_part_of_the_name() {
    let parsed = |sql: &str| match one(sql) {
        Statement::Sql(statement) => statement.to_string().replace('\u{1}', "|"),
        other => panic!("{sql}: {other:?}"),
    };
    for (sql, wanted) in [
        (
            "SELECT 1 FROM T IN ('/a/','/b/') WHERE x IN ('c')",
            "SELECT 1 FROM \"t|/a/|/b/\" AS \"t\" WHERE x IN ('c')",
        ),
        ("SELECT 1 FROM s.\"T\" IN ('/a/') AS u", "SELECT 1 FROM s.\"T|/a/\" AS u"),
        (
            "SELECT 1 FROM t IN ('/a/') u JOIN v IN ('/b/') ON true",
            "SELECT 1 FROM \"t|/a/\" u JOIN \"v|/b/\" AS \"v\" ON true",
        ),
        ("SELECT a IS DISTINCT FROM b IN ('x')", "SELECT a IS DISTINCT FROM b IN ('x')"),
        ("SELECT 1 FROM (SELECT 1 FROM t IN ('/a/'))", "SELECT 1 FROM (SELECT 1 FROM \"t|/a/\" AS \"t\")"),
        ("DELETE FROM t IN ('/a/')", "DELETE FROM \"t|/a/\" AS \"t\""),
    ] {
        assert_eq!(parsed(sql), wanted, "{sql}");
    }
}

#[test]
fn what_the_parser_reads_in_another_way() {
    for (sql, wanted) in [
        ("INSERT INTO local VALUES (1)", "INSERT INTO \"local\" VALUES (1)"),
        ("INSERT INTO Directory SELECT 1", "INSERT INTO \"directory\" SELECT 1"),
        ("SELECT x::text COLLATE \"C\" < 'y'", "SELECT x COLLATE \"C\"::TEXT < 'y'"),
        ("SELECT a::varchar(3)::text[] COLLATE s.\"C\"", "SELECT a COLLATE s.\"C\"::VARCHAR(3)::TEXT[]"),
        ("SELECT f(x::int, y) COLLATE \"C\"", "SELECT f(x::INT, y) COLLATE \"C\""),
        (
            "INSERT INTO t SELECT f(1) ON CONFLICT DO NOTHING",
            "INSERT INTO t SELECT f(1) WHERE true ON CONFLICT DO NOTHING",
        ),
        (
            "INSERT INTO t SELECT (SELECT a FROM b) ON CONFLICT DO NOTHING",
            "INSERT INTO t SELECT (SELECT a FROM b) WHERE true ON CONFLICT DO NOTHING",
        ),
        (
            "INSERT INTO t SELECT a FROM b ON CONFLICT DO NOTHING",
            "INSERT INTO t SELECT a FROM b ON CONFLICT DO NOTHING",
        ),
        (
            "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
            "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING",
        ),
    ] {
        let Statement::Sql(statement) = one(sql) else { panic!("{sql}") };
        assert_eq!(statement.to_string(), wanted, "{sql}");
    }
}

#[test]
fn tables_are_migrated() {
    let Statement::Migrate(migrate) = one(
        "MIGRATE TABLE s.t TO u OPTIONS (USE_MULTITENANT_SERVER 'm') SERVER a OPTIONS (table_name 'T 1'), \"B\"",
    ) else {
        panic!()
    };
    assert_eq!(
        (migrate.source.name.as_str(), migrate.options[0].name.as_str()),
        ("t", "use_multitenant_server")
    );
    assert!(matches!(&migrate.target, MigrateTarget::To(name) if name.name == "u"));
    let servers: Vec<_> = migrate.servers.iter().map(|s| (s.name.as_str(), s.options.len())).collect();
    assert_eq!(servers, [("a", 1), ("B", 0)]);
    assert_eq!(error("MIGRATE TABLE t REPLACE TO u SERVER a").0, "syntax error at or near \"TO\"");
    assert_eq!(error("MIGRATE TABLE t SERVER").0, "syntax error at end of input");
}

/// What the parser reads twice where it is nested, it would read 2^n times.
#[test]
fn what_is_nested_is_read_once() {
    let nested = |open: &str, inner: &str, close: &str| {
        format!("SELECT {}{inner}{}", open.repeat(30), close.repeat(30))
    };
    let well =
        [("f(", "1", ")"), ("coalesce(a, ", "b", ")"), ("replace(", "x", ", 'a', 'b')"), ("ROW(", "1", ")")];
    for (open, inner, close) in well {
        let sql = nested(open, inner, close);
        assert!(parse(&sql).is_ok(), "{sql}");
    }
    // An error further in sends the parser back at each level: the work has a limit then.
    let badly = [
        ("f(", "1", ""),
        ("CAST(", "1", ""),
        ("sum(Y (", "1", ""),
        ("CASE WHEN true THEN ", "1", ""),
        ("ceil(", ") )", ")"),
    ];
    for (open, inner, close) in badly {
        let sql = nested(open, inner, close);
        let state = parse(&sql).unwrap_err().state;
        assert!([SqlState::SYNTAX_ERROR, SqlState::STATEMENT_TOO_COMPLEX].contains(&state), "{sql}");
    }
}
