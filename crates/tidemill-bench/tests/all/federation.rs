//! The federation suite: its answers, and the marks of its table.

use std::path::Path;

use tidemill_bench::target::{Connection, Target};

use crate::bench::{Ran, bench};

/// Data in two databases under one PostgreSQL, and in none: the answers are the reference's.
#[test]
fn federation_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let run = |output: &str, more: &[&str]| {
        let common = ["-p", "rows=20000", "-p", "sensors=50"];
        let prepared = bench(dir.path(), &[&["prepare", "federation"][..], &common, more].concat());
        assert_eq!(prepared.code, 0, "{}{}", prepared.out, prepared.err);
        let verb = ["run", "federation", "--closed", "-t", "15", "--warmup", "0", "-P", "0", "-o", output];
        let page = ["--html", "page.html"];
        let ran = bench(dir.path(), &[&verb[..], &common, more, &page].concat());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert_eq!(ran.out.matches("\nright: ").count(), 15, "{}", ran.out);
        // One system is the fastest everywhere; the legend has the mark too.
        assert_eq!(ran.out.matches('⊙').count(), 16, "{}", ran.out);
        let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
        assert!(page.contains("Scenario1: search for big tables") && page.matches('⊙').count() == 16);
    };
    let sqlite = format!("sqlite:{}", dir.path().join("f.db").display());
    // Without nodes all is in the target.
    run("local.json", &["--target", &sqlite]);
    let missing = bench(dir.path(), &["prepare", "federation", "--target", &sqlite, "-p", "engine=tidemill"]);
    assert!(missing.err.contains("parameter \"nodes\" says where the data are"), "{}", missing.err);
    let Some(server) = crate::postgres::Postgres::start() else { return };
    let admin = Target::open(&server.url()).unwrap();
    let mut admin = admin.connect().unwrap();
    for database in ["one", "two"] {
        admin.execute(&format!("create database {database}")).unwrap();
    }
    let node = |database: &str| format!("postgres://postgres@127.0.0.1:{}/{database}", server.port);
    let nodes = format!("nodes={},{}", node("one"), node("two"));
    // PostgreSQL says itself what it has.
    run("fdw.json", &["--target", &server.url(), "-p", &nodes]);
    run("all.json", &["--target", &sqlite, "-p", &nodes, "-p", "engine=local"]);
    let report = |base: &str| bench(dir.path(), &["report", base, "fdw.json", "--html", "page.html"]);
    let page = || std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    let both = report("all.json");
    let row = both.out.lines().find(|line| line.starts_with("  join large aggregate")).unwrap();
    assert!(both.out.contains("Scenario3: join large tables") && row.contains('⊙'), "{}", both.out);
    assert!(page().contains("<th>local</th><th>postgres_fdw</th>") && page().contains('⊙'));
    // Half of the rows are no match for all of them.
    let unequal = report("local.json");
    let told = "NOT THE SAME DATA, so there are no marks: local: 1 × 20000 rows of 50 sensors, seed 1; \
                postgres_fdw: 2 × 20000 rows of 50 sensors, seed 1";
    assert!(unequal.out.contains(told) && page().contains(told), "{}", unequal.out);
    assert!(!unequal.out.contains('⊙') && !page().contains("<td>⊙"), "{}", unequal.out);
    // What stands in the result is what the tables were made over.
    let others = format!("nodes={},postgres://postgres@127.0.0.1:1/two", node("one"));
    let others = ["--target", &server.url(), "-p", &others, "-p", "engine=postgres_fdw"];
    let refused = bench(
        dir.path(),
        &[&["run", "federation", "--closed", "-t", "1", "-p", "check=no"], &others[..]].concat(),
    );
    let told = format!(
        "server bench_node1 is dbname two, host 127.0.0.1, port {}, and not dbname two, host 127.0.0.1, port 1\n",
        server.port
    );
    assert!(refused.code == 2 && refused.err.contains(&told), "{}{}", refused.out, refused.err);
    let place = ["--target", &server.url(), "-p", &nodes, "-p", "engine=postgres_fdw"];
    marks_tell_what_went_wrong(dir.path(), admin.as_mut(), &node("one"), &place);
}

/// Bad input, and nothing that an engine cannot do: with the answers checked, and without.
fn missing_tables_are_told(dir: &Path, url: &str) {
    let verbs = [
        &["validate", "federation"][..],
        &["run", "federation", "--closed", "-t", "1"],
        &["run", "federation", "--closed", "-t", "1", "-p", "check=no"],
    ];
    for verb in verbs {
        let ran = bench(dir, &[verb, &["--target", url]].concat());
        assert_eq!(ran.code, 2, "{verb:?}: {}{}", ran.out, ran.err);
        let told = ran.out + &ran.err;
        assert!(
            told.contains("make the tables first: tidemill bench prepare federation"),
            "{verb:?}: {told}"
        );
        assert!(!told.contains("right: "), "{verb:?}: {told}");
    }
}

#[test]
fn federation_without_its_tables_is_told() {
    let dir = tempfile::tempdir().unwrap();
    missing_tables_are_told(dir.path(), "sqlite:new.db");
}

#[test]
fn federation_has_all_of_it_in_mysql() {
    let Some(server) = crate::mariadb::MariaDb::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let url = server.url("root");
    missing_tables_are_told(dir.path(), &url);
    let place = ["-p", "rows=2000", "-p", "sensors=50", "--target", &url];
    let prepared = bench(dir.path(), &[&["prepare", "federation"][..], &place].concat());
    assert_eq!(prepared.code, 0, "{}{}", prepared.out, prepared.err);
    let validated = bench(dir.path(), &[&["validate", "federation"][..], &place].concat());
    assert_eq!(validated.out.matches("right: ").count(), 15, "{}", validated.out);
    let nodes = format!("nodes={url}");
    let refused = bench(dir.path(), &["prepare", "federation", "-p", &nodes]);
    assert!(
        refused.err.contains("the nodes of suite federation speak PostgreSQL's protocol, which mysql://root"),
        "{}",
        refused.err
    );
}

/// UNK, WRONG and N/A; the queries beside them go on.
fn marks_tell_what_went_wrong(dir: &Path, admin: &mut dyn Connection, node: &str, place: &[&str]) {
    let run = |more: &[&str]| {
        let verb = ["run", "federation", "--closed", "-t", "15", "--warmup", "0", "-P", "0"];
        bench(dir, &[&verb[..], &["-p", "rows=20000", "-p", "sensors=50"], place, more].concat())
    };
    let mark = |ran: &Ran, query: &str| {
        let row = ran.out.lines().find(|line| line.starts_with(&format!("  {query} ")));
        let row = row.unwrap_or_else(|| panic!("{query}: {}{}", ran.out, ran.err));
        row.split_whitespace().last().unwrap().to_owned()
    };
    let mut one = Target::open(node).unwrap().connect().unwrap();
    one.execute(
        "alter table bench_hist rename to rows;
         create view bench_hist as select * from rows where (select pg_sleep(5) is not null)",
    )
    .unwrap();
    let late = run(&["-p", "check=no", "--set", "statement_timeout=500ms"]);
    assert_eq!((late.code, mark(&late, "aggregate")), (0, "UNK".to_owned()), "{}{}", late.out, late.err);
    assert!(mark(&late, "join small").parse::<f64>().is_ok(), "{}", late.out);
    one.execute("drop view bench_hist; alter table rows rename to bench_hist").unwrap();

    one.execute("update bench_hist set v = v + 1 where eid = 'n0s7'").unwrap();
    let wrong = run(&[]);
    assert_eq!(
        (wrong.code, mark(&wrong, "aggregate")),
        (2, "WRONG".to_owned()),
        "{}{}",
        wrong.out,
        wrong.err
    );
    assert!(
        wrong.out.contains("WRONG: 1: aggregate: 1 rows, 1 of them different instead of"),
        "{}",
        wrong.out
    );
    let right: f64 = mark(&wrong, "where").parse().unwrap();
    assert!(right > 0.0);

    admin.execute("drop foreign table bench_unit cascade").unwrap();
    let missing = run(&["-p", "check=no"]);
    assert_eq!(missing.code, 2, "{}{}", missing.out, missing.err);
    assert!(missing.out.contains("HINT: make the tables first"), "{}", missing.out);
    let cannot = "select 'name' || n as name, (n / (n - n))::text as unit from generate_series(0, 99) n";
    admin.execute(&format!("create view bench_unit as {cannot}")).unwrap();
    let failed = run(&["-p", "check=no"]);
    assert_eq!(
        (failed.code, mark(&failed, "join small")),
        (0, "N/A".to_owned()),
        "{}{}",
        failed.out,
        failed.err
    );
    assert_eq!(failed.out.matches(" N/A\n").count(), 3, "{}", failed.out);

    // Marks alone are no measurement.
    admin.execute("drop view bench_hist cascade; drop foreign table bench_signal cascade").unwrap();
    let nothing = run(&["-p", "check=no"]);
    let told = "WARNING: nothing was measured: of 0 operations that were due none ended well";
    assert!(nothing.code == 2 && nothing.out.contains(told), "{}{}", nothing.out, nothing.err);
}
