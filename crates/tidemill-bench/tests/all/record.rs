//! What a result keeps of a run, and what is told where two were not the same.

use crate::bench::{bench, bench_with_small_files, finished, result, started, write};

/// Two runs of one file that differ in everything that can be told to scripts.
#[test]
fn what_differs_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let run = |text: &str, more: &[&str], output: &str| {
        write(dir.path(), "a.sql", text);
        let verb = ["run", "a.sql", "--target", "noop:", "-t", "20", "-P", "0", "-o", output];
        let ran = bench(dir.path(), &[&verb[..], more].concat());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    };
    let first = ["-M", "prepared", "-D", "a=1", "-s", "5", "--set", "work_mem=8MB", "-L", "0.06"];
    run("select :a;\nselect 1;\n", &[&first[..], &["-R", "500", "-c", "2", "-j", "2"]].concat(), "a.json");
    let second = ["-M", "simple", "-D", "a=2", "-s", "6", "--set", "work_mem=4MB", "--constant", "-D", "b=3"];
    run("select :a;\nselect 2;\n", &[&second[..], &["-R", "500", "-c", "2", "-j", "1"]].concat(), "b.json");
    let kept = result(dir.path().join("a.json").to_str().unwrap());
    assert_eq!((kept.variables["a"].as_str(), kept.variables["scale"].as_str()), ("1", "5"));
    assert_eq!(kept.scripts[0].text, "select :a;\nselect 1;\n");
    assert_eq!((kept.mode.unwrap().name(), kept.settings["work_mem"].as_str()), ("prepared", "8MB"));
    let told = [
        "NOT THE SAME RUN: pace: 500 a second (Poisson) / 500 a second (evenly spaced)",
        "NOT THE SAME RUN: limit: 0.06 ms / none",
        "NOT THE SAME RUN: mode: prepared / simple",
        "NOT THE SAME RUN: variable a: 1 / 2",
        "NOT THE SAME RUN: variable scale: 5 / 6",
        "NOT THE SAME RUN: variable b: none / 3",
        "NOT THE SAME RUN: text of a.sql, line 2: select 1; / select 2;",
        "DIFFERENT: setting work_mem: 8MB / 4MB",
        "DIFFERENT: threads: 2 / 1",
    ];
    let compared = bench(dir.path(), &["compare", "a.json", "b.json"]);
    let lines = compared.out.lines().take_while(|line| !line.starts_with("figure"));
    assert_eq!(lines.collect::<Vec<_>>(), told, "{}", compared.err);
    let reported = bench(dir.path(), &["report", "a.json", "b.json", "--html", "p.html"]);
    assert!(reported.out.contains("mode: prepared\nvariables: a=1 scale=5\n"), "{}", reported.out);
    let page = std::fs::read_to_string(dir.path().join("p.html")).unwrap();
    for line in told {
        let line = format!("{line} (from the first result)");
        assert!(reported.out.contains(&line) && page.contains(&line), "{line}: {}", reported.out);
    }
    let same = bench(dir.path(), &["compare", "a.json", "a.json"]);
    assert!(same.out.starts_with("figure"), "{}", same.out);
}

/// It has no times, meets no condition, and ranks with nothing.
#[test]
fn a_run_of_nothing_says_so() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.sql", "select 1;");
    let run = |more: &[&str]| {
        let verb =
            ["run", "a.sql", "--target", "noop:", "-R", "0.001", "-T", "1s", "--warmup", "0", "-P", "0"];
        bench(dir.path(), &[&verb[..], &["-o", "r.json"], more].concat())
    };
    let nothing = run(&["--html", "p.html"]);
    assert_eq!(nothing.code, 2, "{}{}", nothing.out, nothing.err);
    assert!(nothing.out.contains("WARNING: nothing was measured: of 0 operations"), "{}", nothing.out);
    let p99 = nothing.out.lines().find(|line| line.starts_with("p99 ")).unwrap();
    assert_eq!(p99.split_whitespace().collect::<Vec<_>>()[..2], ["p99", "-"], "{p99}");
    let page = std::fs::read_to_string(dir.path().join("p.html")).unwrap();
    assert!(!page.contains("0.000 <small>ms") && page.contains("Nothing was measured"), "{}", nothing.out);
    let missed = run(&["--threshold", "skipped = 0"]);
    let told = "MISSED: skipped = 0: it is of nothing: no such operation was measured";
    assert!(missed.code == 3 && missed.out.contains(told), "{}", missed.out);
    let compared = bench(dir.path(), &["compare", "r.json", "r.json"]);
    assert!(
        compared.code == 2 && compared.out.contains("does not rank: nothing was measured"),
        "{}",
        compared.out
    );
}

/// The page has the figures of the text, and a heading that says what there is.
#[test]
fn the_page_has_the_maximum_of_the_text() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.sql", "\\sleep 2 ms");
    let load = ["--target", "noop:", "--closed", "-t", "20", "-P", "0", "--html", "p.html"];
    let ran = bench(dir.path(), &[&["run", "a.sql"][..], &load].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let row = ran.out.lines().find(|line| line.starts_with("all: response")).unwrap();
    let max = row.split_whitespace().last().unwrap();
    let page = || std::fs::read_to_string(dir.path().join("p.html")).unwrap();
    assert!(page().contains(&format!("<td>{max}</td></tr>")), "{row}");
    let swept = bench(dir.path(), &[&["sweep", "a.sql", "--over", "clients=1,2"][..], &load].concat());
    assert_eq!(swept.code, 0, "{}{}", swept.out, swept.err);
    assert!(page().contains("<tr><th>clients</th>") && !page().contains("\\ clients"));
}

/// Runs that end in the same second keep a result each.
#[test]
fn no_result_takes_the_place_of_another() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.sql", "select 1;");
    let run = ["run", "a.sql", "--target", "noop:", "--closed", "-t", "1", "-P", "0"];
    let together = [(); 4].map(|()| started(dir.path(), &run));
    let mut kept: Vec<String> = together
        .into_iter()
        .map(|child| {
            let ran = finished(child.wait_with_output().unwrap());
            let path = ran.out.lines().find_map(|line| line.strip_prefix("result: "));
            result(dir.path().join(path.unwrap()).to_str().unwrap()).suite + path.unwrap()
        })
        .collect();
    kept.sort();
    kept.dedup();
    assert_eq!(kept.len(), 4, "{kept:?}");
}

/// A disk that is full leaves the result that was there, and no part of the new one.
#[test]
fn what_cannot_be_written_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.sql", "select 1;");
    let run = ["run", "a.sql", "--target", "noop:", "--closed", "-t", "1", "-P", "0", "-o", "r.json"];
    assert_eq!(bench(dir.path(), &run).code, 0);
    let before = std::fs::read_to_string(dir.path().join("r.json")).unwrap();
    let full = bench_with_small_files(dir.path(), &run);
    assert!(full.code == 2 && full.err.contains("r.json: File too large"), "{}{}", full.out, full.err);
    assert!(full.out.contains("\np99 "), "the figures are told: {}", full.out);
    assert_eq!(std::fs::read_to_string(dir.path().join("r.json")).unwrap(), before);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "a script and a result");
}

/// Before the run, and not when all of it is measured.
#[test]
fn a_place_where_nothing_can_be_written_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.sql", "select 1;");
    let long = ["a.sql", "--target", "noop:", "-T", "1h", "-R", "1"];
    let verbs = [&["run"][..], &["search", "--until", "p99 < 1s"], &["sweep", "--over", "clients=1,2"]];
    for (verb, option) in [(0, "-o"), (0, "--html"), (1, "-o"), (2, "-o"), (2, "--html")] {
        let place = "/proc/nosuch/x";
        let ran = bench(dir.path(), &[verbs[verb], &long, &[option, place]].concat());
        assert!(ran.code == 1 && ran.err.contains(place), "{verb} {option}: {}{}", ran.out, ran.err);
    }
    let ran = bench(dir.path(), &[verbs[0], &long, &["-o", "."]].concat());
    assert!(ran.code == 1 && ran.err.contains(".: is a directory"), "{}{}", ran.out, ran.err);
}

#[test]
fn numbers_that_measure_nothing_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.sql", "select 1;");
    let common = ["a.sql", "--target", "noop:", "--closed", "-t", "1", "-P", "0"];
    for (verb, more, told) in [
        ("run", ["-L", "0"], "--limit must be above 0"),
        ("run", ["-j", "0"], "number would be zero"),
        ("sweep", ["--over", "clients=1,1"], "--over clients: \"1\" is there twice"),
        ("sweep", ["--over", "limit=0,1s"], "--limit must be above 0"),
    ] {
        let ran = bench(dir.path(), &[&[verb], &common[..], &more].concat());
        assert!(ran.code == 1 && ran.err.contains(told), "{more:?}: {}{}", ran.out, ran.err);
    }
}
