//! What pgbench runs is run, and what it refuses is refused, beside pgbench where it is installed.

use crate::bench::{bench, result, write};
use crate::postgres::Postgres;

/// Function bodies, commands in capitals, lines that go on, numbers of texts, and NULL as a text.
#[test]
fn what_pgbench_runs_is_run() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let text = "create or replace function f() returns int language sql\n\
                begin atomic select 1; select case when true then 2 end; end;\n\
                \\SET x debug(1 +\\\n\\\n 2)\n\\\n\\ Sleep -5 \\\n MS\n\\set y debug(:hexadecimal + 1)\n\\sleep :zero us\n\
                select f() as f, null as n \\GSET\n\\set f debug(:f)\nselect length(':n') as empty \\gset\n\\set e debug(:empty)\n\
                select 1 as a union all select 2 \\; select 3 as b \\gset\n\\set b debug(:b)\n\
                select :{?zero} as g \\gset\n\\set g debug(:g)\n";
    let script = write(dir.path(), "s.sql", text);
    let debug = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.find("debug(").map(|at| line[at..].to_owned())).collect()
    };
    let variables = ["-D", "hexadecimal=0x10", "-D", "zero=-1.5"];
    let theirs = debug(&server.pgbench(&[&["-t", "1", "-f", &script][..], &variables].concat()));
    assert_eq!(theirs.len(), 6, "{theirs:?}");
    for mode in ["simple", "extended"] {
        let place = ["run", &script, "--target", &server.url(), "--closed", "-t", "1", "-P", "0", "-M", mode];
        // Only the simple mode sends several statements at once, or a variable within quotes.
        let simple = "select 1 as a union all select 2 \\; select 3 as b \\gset";
        let single = text.replace(simple, "select 3 as b \\gset").replace("length(':n')", "length(:n)");
        write(dir.path(), "s.sql", if mode == "simple" { text } else { &single });
        let ours = bench(dir.path(), &[&place[..], &variables, &["-o", "r.json"]].concat());
        assert_eq!((ours.code, debug(&ours.err)), (0, theirs.clone()), "{}{}", ours.out, ours.err);
        // Settings of the server with their units.
        let kept = result(dir.path().join("r.json").to_str().unwrap()).target.server_settings;
        assert!(kept["shared_buffers"].ends_with("MB"), "{kept:?}");
    }
}

/// Each is an error here and there.
#[test]
fn what_pgbench_refuses_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let place = ["--target", "noop:", "--closed", "-t", "1", "-P", "0"];
    for (options, told) in [
        (["-D", "1a=1"], "invalid variable name: \"1a\""),
        (["-D", "a =1"], "invalid variable name: \"a \""),
        (["-D", "a="], "invalid variable definition: \"a=\""),
        (["-D", "=1"], "invalid variable definition: \"=1\""),
        (["-s", "x"], "the scale of scripts is a whole number above 0"),
    ] {
        write(dir.path(), "s.sql", "select 1;");
        let ran = bench(dir.path(), &[&["run", "s.sql"][..], &place, &options].concat());
        assert!(ran.code == 1 && ran.err.contains(told), "{options:?}: {}{}", ran.out, ran.err);
    }
    let over = ["sweep", "s.sql", "--over", "define.1a=1,2"];
    let ran = bench(dir.path(), &[&over[..], &place].concat());
    assert!(ran.code == 1 && ran.err.contains("invalid variable name: \"1a\""), "{}", ran.err);
    let Some(server) = Postgres::start() else { return };
    let database = server.url();
    let place = ["--target", &database, "--closed", "-t", "1", "-P", "0"];
    for (text, told) in [
        ("select 1 as \"A b\" \\gset", "\\gset: invalid variable name: \"A b\""),
        ("select 1 \\aset", "\\aset: invalid variable name: \"?column?\""),
        ("select 1 as x \\gset 1", "\\gset: invalid variable name: \"1x\""),
        ("select 1 as x \\; create temp table t (i int) \\gset", "\\gset: expected one row, got 0"),
        ("create temp table t (i int) \\gset", "\\gset: expected one row, got 0"),
        ("copy (select 1) to stdout;", "COPY TO STDOUT has nobody here who would read its rows"),
        ("\\set a ''", "unexpected character"),
        ("select 'x' as x \\gset\n\\sleep :x", "invalid sleep time \"x\" for variable \"x\""),
    ] {
        let script = write(dir.path(), "s.sql", text);
        assert!(!server.runs_pgbench(&["-t", "1", "-f", &script]), "pgbench runs {text}");
        let ran = bench(dir.path(), &[&["run", "s.sql"][..], &place].concat());
        let said = format!("{}{}", ran.out, ran.err);
        assert!(ran.code > 0 && said.contains(told), "{text}: {said}");
    }
}

/// On the other databases the final result counts too.
#[test]
fn the_final_result_is_the_one_that_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = crate::mariadb::MariaDb::start();
    let urls = [Some("sqlite::memory:".to_owned()), mariadb.as_ref().map(|server| server.url("root"))];
    for url in urls.into_iter().flatten() {
        let run = |text: &str| {
            let script = write(dir.path(), "s.sql", text);
            bench(dir.path(), &["run", &script, "--target", &url, "--closed", "-t", "1", "-P", "0"])
        };
        let create = "create temporary table t (i int)";
        let refused = run(&format!("select 1 as x \\; {create} \\gset"));
        assert!(refused.code == 2 && refused.out.contains("expected one row, got 0"), "{}", refused.out);
        let right = run(&format!("{create} \\; select 1 as x \\gset\n\\set y debug(:x)"));
        assert!(right.code == 0 && right.err.contains("int 1"), "{}{}", right.out, right.err);
    }
}
