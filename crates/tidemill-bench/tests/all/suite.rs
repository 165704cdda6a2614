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
    let before = bench(dir.path(), &[&["run", folder], &target[..]].concat());
    assert_eq!(before.code, 2, "{}{}", before.out, before.err);
    assert!(before.err.contains("no such table: t"), "{}", before.err);
    let prepared = bench(dir.path(), &[&["prepare", folder, "-p", "scale=10"], &target[..]].concat());
    assert_eq!(prepared.code, 0, "{}", prepared.err);
    let wrong = bench(dir.path(), &[&["validate", folder], &target[..]].concat());
    assert_eq!((wrong.code, wrong.out.trim()), (2, "WRONG: rows: 10 instead of 3"));
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
}
