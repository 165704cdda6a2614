//! What goes wrong: bad input, servers that stall or die.

use std::time::{Duration, Instant};

use crate::bench::{bench, finished, result, started, unread, until, until_done, until_told, write};
use crate::postgres::Postgres;

/// The stop is seen in the percentiles, because response times count from the intended starts: 10 percent of the
/// operations were due while nothing moved.
#[test]
fn a_stalled_server_shows() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "one.sql", "select 1;\n");
    let path = dir.path().join("r.json");
    let path = path.to_str().unwrap();
    let url = server.url();
    let arguments = ["run", &script, "--target", &url, "-c", "4", "-R", "100", "-T", "20s", "--warmup", "0"];
    let mut child = started(dir.path(), &[&arguments[..], &["-P", "1", "-o", path]].concat());
    until_done(&mut child, 300.0);
    server.signal("STOP");
    std::thread::sleep(Duration::from_secs(2));
    server.signal("CONT");
    let ran = finished(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let total = result(path).repeats[0].record.total();
    let ms = |share: f64| total.response.quantile(share) as f64 / 1e6;
    assert!(ms(0.5) < 200.0, "half of all saw nothing of it: {} ms", ms(0.5));
    assert!(ms(0.95) > 500.0, "the stop of 2 s in 20 s is in p95: {} ms", ms(0.95));
    assert!(ms(1.0) > 1500.0, "{} ms", ms(1.0));
    // Four operations hung; in a closed loop nobody else would have noticed.
    assert!(total.service.quantile(0.95) < total.response.quantile(0.95));
    assert_eq!((total.skipped, total.failed, total.backlog), (0, 0, 0));
}

fn wait_for_sessions(server: &Postgres, sessions: i64) {
    let target = tidemill_bench::target::Target::open(&server.url()).unwrap();
    let mut connection = target.connect().unwrap();
    let sql = "select count(*) from pg_stat_activity where application_name = 'tidemill bench' and pid <> pg_backend_pid()";
    until("the run begins", || connection.query_int(sql).unwrap() >= sessions);
}

#[test]
fn a_server_that_dies_leaves_an_incomplete_result() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "one.sql", "select 1;\n");
    let path = dir.path().join("r.json");
    let path = path.to_str().unwrap();
    let url = server.url();
    let arguments = ["run", &script, "--target", &url, "-c", "2", "-R", "200", "-T", "60s", "--warmup", "0"];
    let mut child = started(dir.path(), &[&arguments[..], &["-P", "1", "-o", path]].concat());
    until_done(&mut child, 100.0);
    server.signal("KILL");
    let begin = Instant::now();
    let ran = finished(child.wait_with_output().unwrap());
    assert!(begin.elapsed() < Duration::from_secs(50), "it ends when nobody is left");
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("INCOMPLETE: clients ended early (2): connection lost"), "{}", ran.out);
    let result = result(path);
    assert!(result.blemish().is_some());
    let total = result.repeats[0].record.total();
    // Nobody knows what became of the last operations: they are none that failed.
    assert!(total.processed > 50 && total.failed == 0, "{}", ran.out);
    let again = bench(dir.path(), &["report", path]);
    assert!(again.out.contains("INCOMPLETE"), "{}", again.out);
}

/// What was measured before the server died is told and kept.
#[test]
fn a_sweep_and_a_search_keep_what_they_have() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "one.sql", "select 1;\n");
    let url = server.url();
    let common = [&script, "--target", &url, "-T", "1s", "--warmup", "0"];
    let sweep = ["sweep", "--over", "clients=1,2,4,8", "--rate", "50", "-o", "swept", "--html", "page.html"];
    let mut sweeping = started(dir.path(), &[&sweep[..1], &common, &sweep[1..]].concat());
    // Below any rate that this server does not meet, so that only its end ends the search.
    let search = ["search", "--until", "rate > 0", "--from", "10", "-o", "found.json"];
    let mut searching = started(dir.path(), &[&search[..1], &common, &search[1..]].concat());
    until_told(&mut sweeping, "a first point", |line| line.starts_with("1 of 4: "));
    until_told(&mut searching, "a first rate", |line| line.starts_with("10.0/s: "));
    // Of the search and of the sweep's second point.
    wait_for_sessions(&server, 3);
    server.signal("KILL");
    let swept = finished(sweeping.wait_with_output().unwrap());
    assert_eq!(swept.code, 2, "{}{}", swept.out, swept.err);
    for part in ["late % (clients across", "results: swept", "INCOMPLETE: "] {
        assert!(swept.out.contains(part), "{part}: {}{}", swept.out, swept.err);
    }
    assert!(dir.path().join("page.html").exists());
    let found = finished(searching.wait_with_output().unwrap());
    assert_eq!(found.code, 2, "{}{}", found.out, found.err);
    for part in ["a second meets rate > 0", "INCOMPLETE: the search ended early"] {
        assert!(found.out.contains(part), "{part}: {}{}", found.out, found.err);
    }
    assert_eq!(result(dir.path().join("found.json").to_str().unwrap()).blemish(), None);
}

/// More than anybody could begin: they are counted, with and without a limit.
#[test]
fn slots_beyond_all_measure_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "one.sql", "select 1;\n");
    for more in [&["-L", "10"][..], &["--constant"], &["-c", "3"]] {
        let run = ["run", &script, "--target", "noop:", "-R", "1e9", "-T", "2s", "--warmup", "1s", "-P", "0"];
        let ran = bench(dir.path(), &[&run[..], &["-o", "r.json"], more].concat());
        // Who gets through the slots of the warm-up only has measured nothing. With a limit they are skipped.
        assert_eq!(ran.code, 2, "{more:?}: {}{}", ran.out, ran.err);
        let is_behind = ran.out.contains("WARNING: the rate was not reached");
        assert_eq!(is_behind, more[0] != "-L", "{more:?}: {}", ran.out);
        let due = result(dir.path().join("r.json").to_str().unwrap()).repeats[0].record.total().due();
        assert!((1_990_000_000..2_010_000_000).contains(&due), "{more:?}: {due}");
    }
}

/// As with `| head`: no panic, the same exit code, and the result is there.
#[test]
fn output_that_nobody_reads_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "one.sql", "select 1;\n");
    let run =
        ["run", &script, "--target", "noop:", "--closed", "-t", "5", "-T", "1s", "-P", "0", "-o", "r.json"];
    let missed = [&run[..], &["--threshold", "rate < 0"]].concat();
    for (arguments, code) in
        [(&["list"][..], 0), (&run, 0), (&missed, 3), (&["linkbench", "plan", "--nodes", "1000"], 0)]
    {
        let ran = unread(dir.path(), arguments);
        assert_eq!((ran.code, ran.err.contains("panicked")), (code, false), "{arguments:?}: {}", ran.err);
    }
    assert_eq!(result(dir.path().join("r.json").to_str().unwrap()).blemish(), None);
}

#[test]
fn bad_input_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "one.sql", "select 1;\n");
    let wrong = write(dir.path(), "wrong.sql", "select 1;\n\\sett x 1\n");
    let run = |more: &[&str]| bench(dir.path(), &[&["run"], more].concat());
    let helped = bench(dir.path(), &["run", "--help"]);
    assert!(helped.code == 0 && helped.out.contains("Usage"), "{}", helped.out);
    let verb = bench(dir.path(), &["runn"]);
    assert!(verb.code == 1 && verb.err.contains("unrecognized subcommand"), "{}", verb.err);
    for (arguments, code, message) in [
        (&["--closed"][..], 1, "required arguments were not provided"),
        (&[&script, "-M", "foo"], 1, "invalid value 'foo'"),
        (&[&script, "--closed", "--rate", "5"], 1, "cannot be used with"),
        (
            &[&script, "--target", "postgres://127.0.0.1:1/x", "--closed"],
            2,
            "could not connect to 127.0.0.1:1",
        ),
        (
            &[&script, "--target", "postgres://no.such.host.invalid/x", "--closed"],
            2,
            "could not connect to no.such.host.invalid:5432",
        ),
        (&[&script, "--target", "oracle://x/y", "--closed"], 1, "no database is known for \"oracle:\""),
        (&[&script, "--target", "postgres://x/y?sslmod=off", "--closed"], 1, "no option \"sslmod\""),
        (
            &[&script, "--target", "sqlite:/no/such/folder/x.db", "--closed"],
            2,
            "could not connect to sqlite:/no/such/folder/x.db",
        ),
        (&[&script, "--target", "noop:"], 1, "say how much is asked: --rate N"),
        (&[&script, "--target", "noop:", "--rate=-1"], 1, "is no rate"),
        (
            &[&script, "--target", "noop:", "--rate", "1e12"],
            1,
            "the rate \"1e12\" is above 1000000000 a second",
        ),
        (&[&script, "--target", "noop:", "--closed", "-T", "soon"], 1, "\"soon\" is no duration"),
        (
            &[&script, "--target", "noop:", "--closed", "-T", "1s", "--threshold", "p99 <"],
            1,
            "is no duration",
        ),
        (&[&script, "--target", "noop:", "--closed", "--time", "0"], 1, "--time must be above 0"),
        (
            &[&script, "--target", "noop:", "--closed", "--threshold", "p99 < 5"],
            1,
            "\"5\" has no unit: say 5ms or 5s",
        ),
        (
            &[&script, "--target", "noop:", "--closed", "--threshold", "nosuch.p99 < 5ms"],
            1,
            "there is no operation \"nosuch\"",
        ),
        (&[&wrong, "--target", "noop:", "--closed"], 1, "wrong.sql:2: invalid command \"\\sett\""),
        (
            &["repotring", "--target", "noop:", "--closed"],
            1,
            "there is no suite, folder or script \"repotring\"",
        ),
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(message), "{arguments:?}: {}", ran.err);
    }
    for option in ["--repeats", "-t"] {
        let ran = run(&[&script, "--target", "noop:", "--closed", option, "0"]);
        assert!(ran.code != 0 && ran.err.contains("non-zero"), "{option}: {}", ran.err);
    }
}

#[test]
fn wrong_credentials_and_missing_tables_are_told() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "t.sql", "select * from no_such_table;\n");
    let run =
        |url: &str| bench(dir.path(), &["run", &script, "--target", url, "--closed", "-T", "1s", "-P", "0"]);
    let nobody = run(&format!("postgres://nobody:x@127.0.0.1:{}/postgres", server.port));
    assert_eq!(nobody.code, 2);
    assert!(nobody.err.contains("role \"nobody\" does not exist"), "{}", nobody.err);
    let missing = run(&server.url());
    assert_eq!(missing.code, 2);
    assert!(missing.out.contains("relation \"no_such_table\" does not exist"), "{}", missing.out);
    assert!(missing.out.contains("HINT: make the tables of the scripts first"), "{}", missing.out);
}

/// Passwords of all kinds, right and wrong.
#[test]
fn passwords_are_sent_as_the_server_wants_them() {
    let Some(server) = Postgres::start() else { return };
    let admin = tidemill_bench::target::Target::open(&server.url()).unwrap();
    let mut admin = admin.connect().unwrap();
    admin
        .execute(
            "set password_encryption = 'md5'; create role md5er login password 'one';
             set password_encryption = 'scram-sha-256'; create role scrammer login password 'p@ss:w/rd';
             create role plain login password 'three';",
        )
        .unwrap();
    let file = admin.query_value("show hba_file").unwrap().unwrap();
    let rules = "host all md5er all md5\nhost all scrammer all scram-sha-256\nhost all plain all password\nhost all all all trust\n";
    std::fs::write(file, rules).unwrap();
    admin.query_value("select pg_reload_conf()").unwrap();
    let url = |user: &str| format!("postgres://{user}@127.0.0.1:{}/postgres", server.port);
    // The reload is not instant: wrong passwords are refused once it is there.
    let connect = |user: &str| tidemill_bench::target::Target::open(&url(user)).unwrap().connect();
    until("the rules are read", || connect("plain:wrong").is_err());
    for right in ["md5er:one", "scrammer:p%40ss%3Aw%2Frd", "plain:three"] {
        let connected = connect(right);
        assert!(connected.is_ok(), "{right}: {:?}", connected.err());
    }
    for wrong in ["md5er:x", "scrammer:x", "plain:x"] {
        let error = connect(wrong).err().unwrap().to_string();
        assert!(error.contains("password authentication failed"), "{error}");
    }
    let error = connect("plain").err().unwrap().to_string();
    assert!(error.contains("asks for the password of \"plain\""), "{error}");
}

/// Conflicts are part of a workload: told by code, and when they are many, with a warning and without a verdict.
#[test]
fn conflicts_are_told_by_code() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let target = tidemill_bench::target::Target::open(&server.url()).unwrap();
    target.connect().unwrap().execute("create table c (n int); insert into c values (0)").unwrap();
    let text = "begin isolation level serializable;\nselect n from c;\nupdate c set n = n + 1;\ncommit;\n";
    let script = write(dir.path(), "conflict.sql", text);
    let url = server.url();
    let run =
        ["run", &script, "--target", &url, "--closed", "-c", "4", "-t", "200", "-P", "1", "-o", "r.json"];
    let ran = bench(dir.path(), &run);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("error 40001: could not serialize access"), "{}", ran.err);
    assert!(
        ran.out.contains("of the operations failed (40001): these are figures of the others"),
        "{}",
        ran.out
    );
    let found = result(dir.path().join("r.json").to_str().unwrap());
    let failed = found.repeats[0].record.total().failed;
    let errors: Vec<_> =
        found.repeats[0].errors.iter().map(|(code, e)| (code, e.operations, e.unexpected)).collect();
    assert_eq!((errors, found.blemish()), (vec![("40001", failed, 0)], None));
    assert!(
        ran.out.contains(&format!("error 40001: {failed} operations failed; the first: ")),
        "{}",
        ran.out
    );
    let compared = bench(dir.path(), &["compare", "r.json", "r.json"]);
    assert!(compared.code == 0 && compared.out.contains("NOT ALL OPERATIONS: r.json: "), "{}", compared.out);
    assert_eq!(compared.out.matches("does not rank: too many failed").count(), 6, "{}", compared.out);
    assert_eq!(bench(dir.path(), &["compare", "r.json", "r.json", "--check"]).code, 2);
}

/// As with pgbench: what such a script does is not there for others.
#[test]
fn a_script_that_leaves_its_transaction_open_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (postgres, mariadb) = (Postgres::start(), crate::mariadb::MariaDb::start());
    let urls = [
        Some(format!("sqlite:{}", dir.path().join("open.db").display())),
        postgres.as_ref().map(Postgres::url),
        mariadb.as_ref().map(|server| server.url("root")),
    ];
    let folder = dir.path().join("open");
    std::fs::create_dir(&folder).unwrap();
    write(&folder, "suite.toml", "prepare = [\"make.sql\"]\n[[script]]\nfile = \"lost.sql\"\n");
    write(&folder, "make.sql", "begin; create table kept (n int); insert into kept values (1);");
    let lost = write(&folder, "lost.sql", "begin;\ninsert into lost values (1);\n");
    let well = write(dir.path(), "well.sql", "begin;\ninsert into lost values (1);\nrollback;\n");
    for url in urls.into_iter().flatten() {
        let target = tidemill_bench::target::Target::open(&url).unwrap();
        target.connect().unwrap().execute("create table lost (n int)").unwrap();
        let run = |script: &str, mode| {
            let run = ["run", script, "--target", &url, "--closed", "-t", "3", "-P", "0", "-M", mode];
            bench(dir.path(), &run)
        };
        for mode in ["simple", "prepared"] {
            let ran = run(&lost, mode);
            let told = "end of script reached without completing the last transaction";
            assert!(ran.code == 2 && ran.out.contains(told), "{url} {mode}: {}{}", ran.out, ran.err);
            assert_eq!(run(&well, mode).code, 0, "{url} {mode}");
        }
        let prepared = bench(dir.path(), &["prepare", "open", "--target", &url]);
        let told = "make.sql: its last transaction is not completed";
        // MySQL commits before and after a table is made, and what comes then by itself.
        let is_mysql = url.starts_with("mysql");
        assert!(is_mysql || prepared.code == 2 && prepared.err.contains(told), "{url}: {}", prepared.err);
    }
}

/// Without a limit nothing is late or skipped, and half of what was due never began.
#[test]
fn a_rate_that_is_not_reached_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let slow = write(dir.path(), "slow.sql", "\\sleep 30 ms\n");
    let run = [
        "run", &slow, "--target", "noop:", "-R", "100", "-T", "2s", "--warmup", "0", "-P", "0", "-o",
        "r.json",
    ];
    let ran = bench(dir.path(), &[&run[..], &["--threshold", "skipped = 0 and late = 0"]].concat());
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    for part in ["MISSED: the rate was not reached: ", "WARNING: the rate was not reached ("] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(!ran.out.contains("MISSED: skipped"), "{}", ran.out);
    let total = result(dir.path().join("r.json").to_str().unwrap()).repeats[0].record.total();
    assert!(total.backlog > 50 && total.missed() > 25.0, "{} {}", total.backlog, total.missed());
    let compared = bench(dir.path(), &["compare", "r.json", "r.json"]);
    assert!(
        compared.out.contains("NOT THE RATE THAT WAS ASKED FOR: r.json: the rate was"),
        "{}",
        compared.out
    );
    let sweep = ["sweep", &slow, "--target", "noop:", "--over", "rate=100", "-T", "1s", "--warmup", "0"];
    let swept = bench(dir.path(), &sweep);
    assert!(swept.out.contains("WARNING: rate=100: the rate was not reached"), "{}", swept.out);
}

/// A limit without a unit is pgbench's: milliseconds.
#[test]
fn a_limit_alone_is_in_milliseconds() {
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "slow.sql", "\\sleep 20 ms\n");
    let run = ["run", &script, "--target", "noop:", "--closed", "-t", "3", "-L", "10", "-P", "0"];
    let ran = bench(dir.path(), &run);
    assert!(ran.code == 0 && ran.out.contains("limit 10 ms") && ran.out.contains("late 3/3"), "{}", ran.out);
}

/// Nine of ten lose against others, and those that do not are quick.
#[test]
fn what_fails_meets_nothing() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let text = "\\set x random(1, 100)\n\\if :x <= 90\ndo $$ begin raise exception $q$x$q$ using errcode = $q$40001$q$; end $$;\n\
                \\else\nselect 1;\n\\endif\n";
    let script = write(dir.path(), "fails.sql", text);
    let url = server.url();
    let common = [&script, "--target", &url, "-T", "1s", "--warmup", "0"];
    let run = ["run", "-R", "100", "-P", "0", "--threshold"];
    let told = "of the operations failed (40001), and no condition says how many may";
    let ran = bench(dir.path(), &[&run[..], &["p99 < 10s"], &common].concat());
    assert!(ran.code == 3 && ran.out.contains("MISSED: ") && ran.out.contains(told), "{}", ran.out);
    let allowed = bench(dir.path(), &[&run[..], &["p99 < 10s and failed < 99%"], &common].concat());
    assert_eq!(allowed.code, 0, "{}{}", allowed.out, allowed.err);
    let search = ["search", "--from", "40", "--until", "p99 < 10s and skipped = 0"];
    let searched = bench(dir.path(), &[&search[..], &common].concat());
    assert!(searched.code == 3 && searched.out.contains("no rate meets p99 < 10s"), "{}", searched.out);
    for part in [told, "WARNING: nothing is late or skipped without --limit, whatever \"skipped = 0\" says"] {
        assert!(searched.err.contains(part), "{part}: {}", searched.err);
    }
    let swept = bench(dir.path(), &[&["sweep", "--over", "rate=50"], &common[..]].concat());
    assert!(
        swept.out.contains("WARNING: rate=50: ") && swept.out.contains("failed (40001)"),
        "{}",
        swept.out
    );
}
