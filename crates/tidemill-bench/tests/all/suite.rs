//! Suites as folders, thresholds, and what results say.

use crate::bench::{bench, result, write};

const SUITE: &str = r#"
summary = "counting"
prepare = ["make.sql"]

[parameters.scale]
default = 3
help = "rows"

[[script]]
file = "count.sql"
name = "count"

[[check]]
name = "rows"
sql = "select count(*) from t"
equals = ":scale * 1"

[defaults]
rate = 200
time = "1s"
"#;

#[test]
fn a_folder_is_a_suite() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("counting");
    std::fs::create_dir(&folder).unwrap();
    write(&folder, "suite.toml", SUITE);
    write(
        &folder,
        "make.sql",
        "create table t as with recursive n(i) as (select 1 union all select i + 1 from n where i < :scale) select i from n;",
    );
    write(&folder, "count.sql", "\\set k random(1, :scale)\nselect count(*) from t where i <= :k;");
    let url = format!("sqlite:{}", dir.path().join("c.db").display());
    let (folder, target) = (folder.to_str().unwrap(), ["--target", &url]);
    let listed = bench(dir.path(), &["list", folder]);
    assert_eq!(listed.out, "counting       counting\n    -p scale=3\trows\n");
    let unknown = bench(dir.path(), &["list", "repotring"]);
    assert!(unknown.code == 1 && unknown.err.contains("did you mean \"reporting\"?"), "{}", unknown.err);
    let before = bench(dir.path(), &[&["run", folder], &target[..]].concat());
    assert_eq!(before.code, 2, "{}{}", before.out, before.err);
    assert!(before.err.contains("no such table: t"), "{}", before.err);
    let advice = format!("make the tables first: tidemill bench prepare {folder}");
    assert!(before.err.contains(&advice), "{}", before.err);
    let before = bench(dir.path(), &[&["validate", folder], &target[..]].concat());
    assert!(before.code == 2 && before.err.contains(&advice), "{}", before.err);
    let prepared = bench(dir.path(), &[&["prepare", folder, "-s", "10"], &target[..]].concat());
    assert_eq!(prepared.code, 0, "{}", prepared.err);
    let wrong = bench(dir.path(), &[&["validate", folder], &target[..]].concat());
    assert_eq!((wrong.code, wrong.out.trim()), (2, "WRONG: rows: 10 instead of 3"));
    let right = bench(dir.path(), &[&["validate", folder, "--scale", "10"], &target[..]].concat());
    assert_eq!((right.code, right.out.trim()), (0, "right: rows: 10"));
    let refused = bench(dir.path(), &[&["run", folder], &target[..]].concat());
    assert!(
        refused.err.contains("the answers are wrong before the run: rows: 10 instead of 3"),
        "{}",
        refused.err
    );
    let output = dir.path().join("r.json");
    let arguments = [
        "run",
        folder,
        "-s",
        "10",
        "-o",
        output.to_str().unwrap(),
        "-M",
        "prepared",
        "--threshold",
        "missed = 0",
    ];
    let ran = bench(dir.path(), &[&arguments[..], &target].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let result = result(output.to_str().unwrap());
    assert_eq!(result.parameters["scale"], "10");
    assert_eq!((result.suite.as_str(), result.repeats[0].operations[0].as_str()), ("counting", "count"));
    assert_eq!(result.checks.len(), 2, "before and after");
    let missed = bench(
        dir.path(),
        &[&arguments[..arguments.len() - 1], &["count.p50 < 1ns and rate > 100"], &target].concat(),
    );
    assert_eq!(missed.code, 3, "{}{}", missed.out, missed.err);
    assert!(missed.out.contains("MISSED: count.p50 < 1ns: it is "), "{}", missed.out);
}

/// A built-in workload with other defaults, a table and a check of its own; nothing but a file is needed to run it.
#[test]
fn a_folder_may_have_a_built_in_workload() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("small");
    std::fs::create_dir(&folder).unwrap();
    let suite = |parameter: &str| {
        format!(
            "workload = \"reporting\"\nprepare = [\"more.sql\"]\n[parameters.{parameter}]\ndefault = 1\n
             [[check]]\nname = \"rows\"\nsql = \"select count(*) from pgbench_lookup1\"\nequals = \":scale * 10\"\n
             [defaults]\nclients = 2\n"
        )
    };
    write(&folder, "suite.toml", &suite("scale"));
    write(&folder, "more.sql", "create table more as select :scale as scale;");
    let prepared = bench(dir.path(), &["prepare", "small"]);
    assert_eq!(prepared.code, 0, "{}", prepared.err);
    let run =
        ["run", "small", "--closed", "-t", "3", "--warmup", "0", "-P", "0", "-L", "10s", "-o", "r.json"];
    let ran = bench(dir.path(), &run);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for part in
        ["small on sqlite:tidemill-bench.db", "right: rows: 10", "right: query 1 by the seed", "missed "]
    {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let found = result(dir.path().join("r.json").to_str().unwrap());
    assert_eq!((found.plan.clients, found.parameters["scale"].as_str()), (2, "1"));
    let refused = |text: &str| {
        write(&folder, "suite.toml", text);
        bench(dir.path(), &["prepare", "small"]).err
    };
    let message = refused(&suite("scala"));
    assert!(message.contains("has no parameter \"scala\"; did you mean \"scale\"?"), "{message}");
    let message = refused("workload = \"x\"");
    assert!(message.contains("\"x\" is no workload (there are reporting, "), "{message}");
    let message = refused("workload = \"streams\"\n[[script]]\nfile = \"a\"");
    assert!(message.contains("one of them"), "{message}");
}

#[test]
fn options_that_change_nothing_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| bench(dir.path(), &[&["run", "streams", "--closed"], more].concat());
    let ran = run(&["-M", "prepared"]);
    assert!(ran.code == 1 && ran.err.contains("-M has nothing to change"), "{}", ran.err);
    let ran = run(&["-s", "3"]);
    assert!(ran.code == 1 && ran.err.contains("suite streams has no parameter \"scale\""), "{}", ran.err);
}

#[test]
fn an_unknown_key_has_a_position_and_a_suggestion() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    write(dir.path(), "suite.toml", "name = \"x\"\nsummery = \"typo\"\n");
    let ran = bench(dir.path(), &["run", folder, "--target", "noop:", "--closed"]);
    assert_eq!(ran.code, 1);
    for part in ["line 2, column 1", "unknown field `summery`", "did you mean \"summary\"?"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    write(dir.path(), "suite.toml", SUITE);
    write(dir.path(), "count.sql", "select 1;");
    let ran = bench(dir.path(), &["run", folder, "--target", "noop:", "-p", "scales=1"]);
    assert!(ran.err.contains("has no parameter \"scales\"; did you mean \"scale\"?"), "{}", ran.err);
}

/// They are read with the suite, not when a run has use for them.
#[test]
fn wrong_defaults_are_told() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "count.sql", "select 1;");
    write(dir.path(), "make.sql", "select 1;");
    for (default, message) in [
        ("rate = \"abc\"", "rate of [defaults]: \"abc\" is no rate"),
        ("rate = -1", "rate of [defaults]: \"-1\" is no rate"),
        ("clients = 0", "clients of [defaults]: a run needs at least one client"),
        ("limit = \"soon\"", "limit of [defaults]: \"soon\" is no duration"),
        ("mode = \"fast\"", "unknown variant `fast`"),
        ("clients = \"x\"", "invalid type: string \"x\", expected a whole number, not below 0"),
    ] {
        let suite = SUITE.replace("rate = 200", default);
        write(dir.path(), "suite.toml", &suite);
        let ran = bench(dir.path(), &["validate", dir.path().to_str().unwrap(), "--target", "noop:"]);
        assert!(ran.code == 1 && ran.err.contains(message), "{default}: {}", ran.err);
    }
}

#[test]
fn a_folder_without_what_it_names_is_told() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "suite.toml", SUITE);
    let ran = bench(dir.path(), &["prepare", dir.path().to_str().unwrap(), "--target", "noop:"]);
    assert!(ran.err.contains("count.sql: No such file"), "{}", ran.err);
}

#[test]
fn what_is_no_result_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (text, message) in
        [("{}", "it has no format"), ("[", "EOF"), ("{\"format\": 99}", "it has format 99")]
    {
        let path = write(dir.path(), "x.json", text);
        let ran = bench(dir.path(), &["report", &path]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(message), "{}", ran.err);
    }
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let ran = bench(dir.path(), &["report", "empty"]);
    assert!(ran.code == 2 && ran.err.contains("empty: there is no result"), "{}{}", ran.out, ran.err);
}

/// The article's table in small: clients across, a setting down; then the page of it.
#[test]
fn reporting_is_swept_over_clients() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("r.db").display());
    let target = ["--target", &url, "-p", "scale=1"];
    let prepared = bench(dir.path(), &[&["prepare", "reporting"], &target[..]].concat());
    assert_eq!(prepared.code, 0, "{}", prepared.err);
    let valid = bench(dir.path(), &[&["validate", "reporting"], &target[..]].concat());
    let right = |query, groups| {
        format!("right: query {query} by the seed: {groups} groups, {groups} of them right\n")
    };
    let keys = "right: keys and indexes: as made\n".to_owned();
    assert_eq!(valid.out, [keys, right(1, 10), right(2, 10), right(3, 200)].concat());
    let mut connection = tidemill_bench::target::Target::open(&url).unwrap().connect().unwrap();
    let one = "(select min(id) from pgbench_reporting where fk1 = 3)";
    connection.execute(&format!("update pgbench_reporting set v1 = v1 - 1 where id = {one}")).unwrap();
    let wrong = bench(dir.path(), &[&["validate", "reporting"], &target[..]].concat());
    assert!(wrong.out.contains("WRONG: query 3 by the seed: 200 groups, 199 of them right"), "{}", wrong.out);
    connection.execute(&format!("update pgbench_reporting set v1 = v1 + 1 where id = {one}")).unwrap();
    // Nor are other tables timed than the result tells of.
    let without = bench(dir.path(), &[&["validate", "reporting", "-p", "keys=no"], &target[..]].concat());
    assert!(
        without.out.contains("WRONG: keys and indexes: pgbench_lookup1 has PRIMARY KEY, "),
        "{}",
        without.out
    );
    connection.execute("drop index ix_pgbench_reporting_fk1").unwrap();
    let run = ["run", "reporting", "--closed", "-t", "1", "-P", "0"];
    let dropped = bench(dir.path(), &[&run[..], &target].concat());
    let told = "keys and indexes: pgbench_reporting has no INDEX ix_pgbench_reporting_fk1\n";
    assert!(dropped.code == 2 && dropped.err.contains(told), "{}{}", dropped.out, dropped.err);
    connection.execute("create index ix_pgbench_reporting_fk1 on pgbench_reporting (fk1)").unwrap();
    // The seed of a run is not that of the data.
    let run = ["run", "reporting", "--closed", "-t", "1", "-P", "0", "--seed", "2"];
    let other = bench(dir.path(), &[&run[..], &target].concat());
    assert_eq!(other.code, 0, "{}{}", other.out, other.err);
    let other = bench(dir.path(), &[&run[..], &["-p", "data_seed=2"], &target].concat());
    let told = "made with the parameters of the run: data_seed=2 keys=yes scale=1";
    assert!(other.code == 2 && other.err.contains(told), "{}{}", other.out, other.err);
    let arguments = [
        "sweep",
        "reporting",
        "--over",
        "clients=1,2",
        "--over",
        "set.cache_size=100,1000",
        "--rate",
        "2/client",
        "--limit",
        "2s",
        "-T",
        "2s",
        "--warmup",
        "0",
        "-o",
        "swept",
        "--html",
        "page.html",
    ];
    let swept = bench(dir.path(), &[&arguments, &target[..]].concat());
    assert_eq!(swept.code, 0, "{}{}", swept.out, swept.err);
    assert!(swept.out.contains("late % (clients across, set.cache_size down)"), "{}", swept.out);
    let again = bench(dir.path(), &["report", "swept"]);
    assert_eq!(again.out.lines().count(), 25, "five tables of two rows: {}", again.out);
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert_eq!(page.matches("<table class=\"heat\">").count(), 5);
    assert!(page.contains("<svg") && !page.contains("http"), "it needs nothing from outside");
    if let Some(document) = crate::browser::opened(&dir.path().join("page.html")) {
        // Four runs of two clients or one, each with its own section, cards, table and plots.
        for (part, least) in
            [("<section>", 4), ("class=\"cards\"", 4), ("class=\"operations\"", 4), ("<polyline", 8)]
        {
            assert!(document.matches(part).count() >= least, "{part}: {document}");
        }
    }
    for (over, message) in [
        ("clints=1", "\"clints\" cannot be varied"),
        ("clients=0", "\"0\" is no number of clients"),
        ("clients", "is not NAME=A,B,C"),
        ("set.cach_size=1,2", "SQLite has no pragma \"cach_size\"; did you mean \"cache_size\"?"),
    ] {
        let ran = bench(dir.path(), &[&["sweep", "reporting", "--over", over], &target[..]].concat());
        assert!(ran.code == 1 && ran.err.contains(message), "{}", ran.err);
    }
}

#[test]
fn reporting_agrees_on_servers() {
    let urls = [crate::postgres::Postgres::start().map(|server| (server.url(), Some(server), None))]
        .into_iter()
        .chain([crate::mariadb::MariaDb::start().map(|server| (server.url("root"), None, Some(server)))])
        .flatten();
    for (url, _postgres, _mariadb) in urls {
        let dir = tempfile::tempdir().unwrap();
        let target = ["--target", &url, "-p", "scale=1"];
        let prepared = bench(dir.path(), &[&["prepare", "reporting"], &target[..]].concat());
        assert_eq!(prepared.code, 0, "{}", prepared.err);
        for mode in ["simple", "prepared"] {
            let arguments =
                ["run", "reporting", "--closed", "-t", "3", "--warmup", "0", "-P", "0", "-M", mode];
            let ran = bench(dir.path(), &[&arguments, &target[..]].concat());
            assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
            assert!(ran.out.contains("right: keys and indexes: as made"), "{}", ran.out);
            for (query, groups) in [(1, 10), (2, 10), (3, 200)] {
                let right =
                    format!("right: query {query} by the seed: {groups} groups, {groups} of them right");
                assert!(ran.out.contains(&right), "{}", ran.out);
            }
        }
    }
}

#[test]
fn a_rate_is_found_and_results_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let slow = write(dir.path(), "slow.sql", "\\sleep 10 ms\n");
    let found = bench(
        dir.path(),
        &[
            "search",
            &slow,
            "--target",
            "noop:",
            "--until",
            "p95 < 60ms",
            "--from",
            "20",
            "-T",
            "2s",
            "--warmup",
            "0",
            "--tolerance",
            "20",
            "--repeats",
            "2",
        ],
    );
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
    assert!(found.out.contains("; 2 searches: "), "{}", found.out);
    // One client that sleeps 10 ms does less than 100 a second, and queues before that.
    let rate: f64 = found.out.split(' ').next().unwrap().parse().unwrap();
    assert!((20.0..100.0).contains(&rate), "{}", found.out);
    let never = bench(
        dir.path(),
        &["search", &slow, "--target", "noop:", "--until", "max < 1ms", "--from", "40", "-T", "300ms"],
    );
    assert_eq!(never.code, 3, "{}{}", never.out, never.err);

    let slower = write(dir.path(), "slower.sql", "\\sleep 14 ms\n");
    for (script, output) in [(&slow, "a.json"), (&slow, "b.json"), (&slower, "c.json")] {
        let ran = bench(
            dir.path(),
            &[
                "run", script, "--target", "noop:", "--closed", "-T", "8s", "--warmup", "0", "-P", "0", "-o",
                output,
            ],
        );
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
    let worse = bench(dir.path(), &["compare", "a.json", "c.json", "--check"]);
    assert_eq!(worse.code, 3, "{}", worse.out);
    assert!(worse.out.contains("NOT THE SAME RUN: suite"), "{}", worse.out);
    let p50 = worse.out.lines().find(|line| line.starts_with("p50")).unwrap();
    assert!(p50.ends_with("worse"), "{p50}");
    let better = bench(dir.path(), &["compare", "c.json", "a.json", "--check"]);
    assert!(better.code == 0 && better.out.contains("better"), "{}", better.out);
}

/// Searches with other seeds ask the same tables; one that fails takes nothing away from those before it.
#[test]
fn searches_are_repeated_on_the_same_data() {
    let dir = tempfile::tempdir().unwrap();
    let small = ["--target", "sqlite:f.db", "-p", "rows=2000", "-p", "sensors=50"];
    assert_eq!(bench(dir.path(), &[&["prepare", "federation"][..], &small].concat()).code, 0);
    let search = ["search", "--until", "rate < 15", "--repeats", "2", "--from", "10", "--tolerance", "100"];
    let search = [&search[..], &["--constant", "-T", "1s", "--warmup", "0", "-o", "found.json"]].concat();
    let found = bench(dir.path(), &[&search[..], &["federation"], &small].concat());
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
    assert!(found.out.contains("(20.0 does not; 2 searches: 10.0 to 10.0)"), "{}", found.out);

    std::fs::remove_file(dir.path().join("found.json")).unwrap();
    let folder = dir.path().join("full");
    std::fs::create_dir(&folder).unwrap();
    let check = "[[check]]\nname = \"there is room\"\nsql = \"select count(*) < 30 from t\"\nequals = \"1\"\nwhen = \"before\"";
    let suite = format!("prepare = [\"make.sql\"]\n[[script]]\nfile = \"one.sql\"\n{check}");
    write(&folder, "suite.toml", &suite);
    write(&folder, "make.sql", "create table t (n int)");
    write(&folder, "one.sql", "insert into t values (1);");
    assert_eq!(bench(dir.path(), &["prepare", "full"]).code, 0);
    let ended = bench(dir.path(), &[&search[..], &["full"]].concat());
    assert_eq!(ended.code, 2, "{}{}", ended.out, ended.err);
    for part in ["10.0 a second meets rate < 15", "INCOMPLETE: the search ended early: the answers are wrong"]
    {
        assert!(ended.out.contains(part), "{part}: {}{}", ended.out, ended.err);
    }
    assert_eq!(result(dir.path().join("found.json").to_str().unwrap()).blemish(), None);
}

/// What arrives by chance is nothing that a database does better.
#[test]
fn a_rate_that_was_asked_for_is_not_judged() {
    let dir = tempfile::tempdir().unwrap();
    let quick = write(dir.path(), "quick.sql", "\\sleep 1 ms\n");
    let slow = write(dir.path(), "slow.sql", "\\sleep 20 ms\n");
    for (script, seed) in [(&quick, "1"), (&quick, "2"), (&slow, "3")] {
        let open = ["run", script, "--target", "noop:", "-R", "100", "-T", "6s", "--warmup", "0", "-P", "0"];
        let ran = bench(dir.path(), &[&open[..], &["--seed", seed, "-o", &format!("{seed}.json")]].concat());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    }
    let rate = |new: &str| {
        let compared = bench(dir.path(), &["compare", "1.json", new]);
        compared.out.lines().find(|line| line.starts_with("rate ")).unwrap().to_owned()
    };
    assert!(rate("2.json").ends_with("  as asked: the chance of the arrivals"), "{}", rate("2.json"));
    assert!(rate("3.json").ends_with("  worse"), "{}", rate("3.json"));
}

/// Whatever has samples has an interval, and what the generator costs stands beside it.
#[test]
fn figures_have_intervals() {
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "work.sql", "\\set ms random(1, 9)\n\\sleep :ms ms\n");
    let other = write(dir.path(), "other.sql", "\\sleep 5 ms\n");
    let open = ["--target", "noop:", "-R", "150", "-L", "10ms", "-T", "6s", "--warmup", "0", "-P", "0"];
    let ran = bench(
        dir.path(),
        &[&["run", &script, &other][..], &open, &["--repeats", "2", "-o", "r.json"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for figure in [
        "rate",
        "mean",
        "p99",
        "stddev",
        "late",
        "skipped",
        "missed",
        "service mean",
        "service p99",
        "lag mean",
        "lag p99",
    ] {
        let line = ran.out.lines().find(|line| line.starts_with(&format!("{figure}  ")));
        let line = line.unwrap_or_else(|| panic!("{figure}: {}", ran.out));
        assert!(line.contains(" to ") && !line.contains("too few"), "{line}");
    }
    // Of 1,800 operations two or so lie beyond it: that has no upper end.
    let far = ran.out.lines().find(|line| line.starts_with("p99.9  ")).unwrap();
    assert!(far.ends_with("too few to tell"), "{far}");
    let head = ran.out.lines().find(|line| line.starts_with("95 % intervals")).unwrap();
    for figure in ["rate", "p99.9", "late", "skipped"] {
        assert!(head.contains(figure), "{head}");
    }
    assert!(ran.out.contains("step  lowest to highest repeat"), "{}", ran.out);
    let sweep = ["sweep", &script, "--over", "clients=1,2", "-o", "swept"];
    let swept = bench(dir.path(), &[&sweep[..], &open].concat());
    assert_eq!(swept.code, 0, "{}{}", swept.out, swept.err);
    assert_eq!(swept.out.matches('[').count(), 10, "each cell of five tables: {}", swept.out);
    let mixed = bench(dir.path(), &[&sweep[..], &open].concat());
    assert!(mixed.code == 1 && mixed.err.contains("\"swept\" has results already"), "{}", mixed.err);
}

/// Options and variables of scripts vary too.
#[test]
fn scripts_are_swept() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        write(dir.path(), "v.sql", "select cast(:scale as int) + :x as sum \\gset\n\\set seen debug(:sum)\n");
    let sweep = |over: &[&str]| {
        let fixed = ["sweep", &script, "--target", "sqlite::memory:", "--closed", "-t", "1", "-o", "swept"];
        let over: Vec<&str> = over.iter().flat_map(|over| ["--over", over]).collect();
        bench(dir.path(), &[&fixed[..], &["--warmup", "0", "-T", "1s"], &over].concat())
    };
    let ran = sweep(&["scale=10,20", "define.x=1,2", "threads=1"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for sum in [11, 12, 21, 22] {
        assert!(ran.err.contains(&format!("debug(script=0,command=2): int {sum}")), "{sum}: {}", ran.err);
    }
    let wrong = sweep(&["define.x=1", "threads=0"]);
    assert!(wrong.code == 1 && wrong.err.contains("\"0\" is no number of threads"), "{}", wrong.err);
}

/// Twice the same: no figure is better or worse, and each has a floor.
#[test]
fn an_aa_run_tells_the_noise_floor() {
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "work.sql", "\\sleep 10 ms\n");
    let closed =
        ["--target", "noop:", "--closed", "-T", "6s", "--warmup", "0", "-P", "0", "--aa", "-o", "a.json"];
    let ran = bench(dir.path(), &[&["run", &script][..], &closed].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let found = result(dir.path().join("a.json").to_str().unwrap());
    assert_eq!((found.repeats.len(), found.again.len()), (1, 1));
    for figure in ["rate", "mean", "p50"] {
        let line = ran.out.lines().find(|line| line.starts_with(figure)).unwrap();
        let (_, floor) = line.split_once("± ").unwrap_or_else(|| panic!("{}", ran.out));
        let floor: f64 = floor.strip_suffix(" %").unwrap().parse().unwrap();
        assert!(floor < 100.0, "{line}");
    }
    let compared = bench(dir.path(), &["compare", "a.json", "a.json", "--check"]);
    assert_eq!(compared.code, 0, "{}", compared.out);
    assert!(compared.out.contains("noise floor (A/A): rate "), "{}", compared.out);
    assert!(!compared.out.contains("worse") && !compared.out.contains("better"), "{}", compared.out);
}

/// As with pgbench, N operations are N; and what is told of a run is told without its warm-up.
#[test]
fn operations_are_those_that_were_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("n.db").display());
    let target = tidemill_bench::target::Target::open(&url).unwrap();
    let mut connection = target.connect().unwrap();
    connection.execute("create table t (n int)").unwrap();
    let script = write(dir.path(), "two.sql", "insert into t values (1);\n\\sleep 1 ms\n");
    let run = |more: &[&str]| {
        let fixed = ["run", &script, "--target", &url, "-P", "0", "-o", "r.json"];
        let ran = bench(dir.path(), &[&fixed[..], more].concat());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let outcome = result(dir.path().join("r.json").to_str().unwrap()).repeats.remove(0);
        (outcome.record.total().processed, outcome.parts.iter().map(|part| part.count).collect::<Vec<_>>())
    };
    assert_eq!(run(&["--closed", "-t", "3"]), (3, vec![3, 3]));
    assert_eq!(connection.query_int("select count(*) from t").unwrap(), 3);
    let (processed, steps) = run(&["-R", "50", "-T", "1s", "--warmup", "1s"]);
    assert_eq!(steps, [processed; 2]);
    let all = connection.query_int("select count(*) from t").unwrap() as u64;
    assert!(all > 3 + processed, "the warm-up was there: {all} {processed}");
}
