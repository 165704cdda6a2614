//! Ctrl-C: a run ends soon, and what was measured is kept.

use crate::bench::{finished, result, started, until, until_done, until_told, write};
use crate::postgres::Postgres;

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "one.sql", "select 1;\n");
    let path = dir.path().join("r.json");
    let path = path.to_str().unwrap();
    let arguments =
        ["run", &script, "--target", "sqlite::memory:", "-R", "100", "-T", "60s", "--warmup", "0"];
    let mut child = started(dir.path(), &[&arguments[..], &["-P", "1", "-o", path]].concat());
    until_done(&mut child, 50.0);
    interrupt(&child);
    let ran = finished(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.out.contains("INCOMPLETE: interrupted"), "{}", ran.out);
    assert!(result(path).repeats[0].record.total().processed > 20);
}

/// Waits until it has begun: before, an interrupt would just end it.
fn until_begun(child: &std::process::Child) {
    const SIGINT: u64 = 1 << 1;
    let status = format!("/proc/{}/status", child.id());
    until("it catches SIGINT", || {
        let status = std::fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        u64::from_str_radix(caught.unwrap().trim(), 16).unwrap() & SIGINT != 0
    });
}

fn interrupt(child: &std::process::Child) {
    until_begun(child);
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
}

/// Neither the run nor the check after it waits for the server.
#[test]
fn ctrl_c_ends_a_run_whose_server_hangs() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("asked");
    std::fs::create_dir(&folder).unwrap();
    let check = "[[check]]\nname = \"one\"\nsql = \"select 1\"\nequals = \"1\"";
    write(&folder, "suite.toml", &format!("[[script]]\nfile = \"one.sql\"\n{check}"));
    write(&folder, "one.sql", "select 1;\n");
    let url = server.url();
    let run = ["run", "asked", "--target", &url, "-c", "2", "-R", "50", "-T", "60s", "--warmup", "0"];
    let mut child = started(dir.path(), &[&run[..], &["-P", "1", "-o", "r.json"]].concat());
    until_done(&mut child, 25.0);
    server.signal("STOP");
    interrupt(&child);
    let ran = finished(child.wait_with_output().unwrap());
    server.signal("CONT");
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("INCOMPLETE: interrupted\n"), "{}", ran.out);
    assert!(result(dir.path().join("r.json").to_str().unwrap()).repeats[0].record.total().processed > 5);
}

/// What runs in the server is cancelled there.
#[test]
fn ctrl_c_cancels_what_takes_long() {
    if let Some(server) = Postgres::start() {
        let active = "select count(*) from pg_stat_activity where query like '%pg_sleep%' and state = 'active' and pid <> pg_backend_pid()";
        let errors = cancelled(&server.url(), "select pg_sleep(600);\n", active);
        assert_eq!(errors, [("57014".to_owned(), 2)]);
    }
    if let Some(server) = crate::mariadb::MariaDb::start() {
        let active = "select count(*) from information_schema.processlist where info like '%sleep%' and id <> connection_id()";
        cancelled(&server.url("root"), "select sleep(600);\n", active);
    }
}

/// The errors by which clients ended.
fn cancelled(url: &str, text: &str, active: &str) -> Vec<(String, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "long.sql", text);
    let run = ["run", &script, "--target", url, "-c", "2", "--closed", "-T", "60s", "-P", "0"];
    let child = started(dir.path(), &[&run[..], &["--warmup", "0", "-o", "r.json"]].concat());
    let target = tidemill_bench::target::Target::open(url).unwrap();
    let mut connection = target.connect().unwrap();
    until("both sleep", || connection.query_int(active).unwrap() == 2);
    interrupt(&child);
    let ran = finished(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("INCOMPLETE: interrupted\n"), "{}", ran.out);
    until("nobody sleeps", || connection.query_int(active).unwrap() == 0);
    let found = result(dir.path().join("r.json").to_str().unwrap());
    found.repeats[0].errors.iter().map(|(code, failure)| (code.to_owned(), failure.clients)).collect()
}

/// Nor are answers asked for that take long, when the run does not rank anyway.
#[test]
fn ctrl_c_leaves_out_the_check_after_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("asked");
    std::fs::create_dir(&folder).unwrap();
    let forever = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    let check = format!("[[check]]\nname = \"all\"\nsql = \"{forever}\"\nequals = \"1\"\nwhen = \"after\"");
    write(&folder, "suite.toml", &format!("[[script]]\nfile = \"one.sql\"\n{check}"));
    write(&folder, "one.sql", "select 1;\n");
    let run = ["run", "asked", "-R", "50", "-T", "60s", "--warmup", "0", "-P", "1", "-o", "r.json"];
    let mut child = started(dir.path(), &run);
    until_done(&mut child, 25.0);
    interrupt(&child);
    let ran = finished(child.wait_with_output().unwrap());
    assert!(ran.code == 2 && ran.out.contains("INCOMPLETE: interrupted\n"), "{}{}", ran.out, ran.err);
}

/// A run that has ended is told and kept whatever becomes of the check behind it.
#[test]
fn ctrl_c_cancels_the_check_after_the_run() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("asked");
    std::fs::create_dir(&folder).unwrap();
    let check =
        "[[check]]\nname = \"long\"\nsql = \"select 1 from pg_sleep(600)\"\nequals = \"1\"\nwhen = \"after\"";
    write(&folder, "suite.toml", &format!("[[script]]\nfile = \"one.sql\"\n{check}"));
    write(&folder, "one.sql", "select 1;\n");
    let url = server.url();
    let run = ["run", "asked", "--target", &url, "--closed", "-t", "20", "-P", "0", "-o", "r.json"];
    let child = started(dir.path(), &run);
    let mut connection = tidemill_bench::target::Target::open(&url).unwrap().connect().unwrap();
    let active = "select count(*) from pg_stat_activity where query like '%pg_sleep%' and state = 'active' and pid <> pg_backend_pid()";
    until("it is checked", || connection.query_int(active).unwrap() == 1);
    interrupt(&child);
    let ran = finished(child.wait_with_output().unwrap());
    let told = "INCOMPLETE: the answers can be checked: interrupted\n";
    assert!(ran.code == 2 && ran.out.contains(told) && ran.out.contains("\np99 "), "{}{}", ran.out, ran.err);
    until("nobody sleeps", || connection.query_int(active).unwrap() == 0);
    let kept = result(dir.path().join("r.json").to_str().unwrap());
    assert_eq!(kept.repeats[0].record.total().processed, 20);
}

/// A script that sleeps waits for no server.
#[test]
fn ctrl_c_leaves_behind_what_does_not_end() {
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "sleep.sql", "select 1;\n\\sleep 600 s\n");
    let run = ["run", &script, "--target", "noop:", "--closed", "-c", "2", "-T", "60s", "--warmup", "0"];
    let mut child = started(dir.path(), &[&run[..], &["-P", "1", "-o", "r.json"]].concat());
    until_told(&mut child, "progress", |line| line.starts_with("progress: "));
    interrupt(&child);
    let ran = finished(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("INCOMPLETE: interrupted; 2 clients did not end\n"), "{}", ran.out);
}
