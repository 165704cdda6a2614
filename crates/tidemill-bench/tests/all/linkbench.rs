//! LinkBench by its command line, with the original's files.

use crate::bench::{bench, result, write};

/// Few links, so that a load takes a moment.
const WORKLOAD: &str = "# a small graph
maxid1 = 301
startid1 = 1
link_type_count = 2
nlinks_func = com.facebook.LinkBench.distributions.ZipfDistribution
nlinks_shape = 0.8
nlinks_mean = 5 \n
";

#[test]
fn the_plan_needs_no_database_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let ran =
        bench(folder.path(), &["linkbench", "plan", "--preset", "fb2011", "--nodes", "100000000", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let plan: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let links = plan["links"].as_i64().unwrap() as f64;
    assert!((links / 437_452_202.0 - 1.0).abs() < 0.005, "{links}");
    assert!(plan["source"].as_str().unwrap().starts_with("built-in fit of the 2011 distributions"));
    assert_eq!(plan["largest"][0]["links"], 961_964);
}

#[test]
fn the_original_s_files_load_and_request() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("config")).unwrap();
    write(folder.path(), "config/FBWorkload.properties", WORKLOAD);
    let config = "workload_file = config/FBWorkload.properties\nloaders = 2\nrequesters = 2\nrequests = 300\ndebuglevel = INFO\n";
    let config = write(folder.path(), "config/LinkConfigSqlite.properties", config);
    let target = ["--target", "sqlite:graph.db", "--preset", "fb2017", "-c", &config, "--original-log"];
    let csv = folder.path().join("stats.csv");
    let ran =
        bench(folder.path(), &[&["linkbench", "load", "--csvstats", "stats.csv"][..], &target].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let completed = ran.out.find("LOAD PHASE COMPLETED. Loaded 300 nodes (Expected 300)");
    assert!(completed.is_some() && completed < ran.out.find("LOAD_NODE_BULK count"), "{}", ran.out);
    assert!(
        ran.out.contains("without effect here: debuglevel") && ran.out.starts_with("INFO 20"),
        "{}",
        ran.out
    );
    let header = "op,count,p25_low,p25_high,";
    assert!(std::fs::read_to_string(&csv).unwrap().starts_with(header));
    let again = bench(folder.path(), &[&["linkbench", "load"][..], &target].concat());
    assert!(again.code == 2 && again.err.contains("already exists"), "{}", again.err);
    let advice = "remove the tables of an earlier load first: tidemill bench linkbench load --drop";
    assert!(again.err.contains(advice), "{}", again.err);

    let output = folder.path().join("result.json");
    let request = ["linkbench", "request", "--output", "result.json", "--compat=multiget,history"];
    let ran = bench(folder.path(), &[&request[..], &["--csvstream", "stream.csv"], &target].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let stream = std::fs::read_to_string(folder.path().join("stream.csv")).unwrap();
    let ended = |line: &str| line.split(',').nth(3).unwrap().parse::<u64>().unwrap();
    assert!(
        stream.starts_with("threadID,timestamp,op,totalops,totalerrors,ops,sampleDuration_us,"),
        "{stream}"
    );
    assert_eq!(stream.lines().count(), 1 + 2 * 11, "one interval of two requesters: {stream}");
    let of = |name: &str| {
        let lines = stream.lines().filter(|line| line.split(',').nth(2) == Some(name));
        lines.map(ended).sum::<u64>()
    };
    assert_eq!(stream.lines().skip(1).map(ended).sum::<u64>() - of("RANGE_SIZE"), 600);
    assert_eq!(of("RANGE_SIZE"), of("GET_LINKS_LIST"));
    let logged = |thread: &str, start: &str| {
        let has = |line: &str| line.contains(&format!("[{thread}]: {start}"));
        assert!(ran.out.lines().any(has), "{thread} {start}: {}", ran.out);
    };
    for thread in ["Thread-0", "Thread-1"] {
        let index = thread.rsplit('-').next().unwrap();
        logged(thread, &format!("ThreadID = {index} total requests = 300 requests/second = "));
        logged(thread, &format!("ThreadID = {index} RANGE_SIZE totalOps = "));
    }
    logged(
        "main",
        "Graph Link total retry: 0 add, 0 update, 0 delete, 0 get, 0 multiget, 0 get_link_list, 0 count,",
    );
    logged("main", "Graph Node max retry: 0 add, 0 add_bulk, 0 get, 0 update, 0 delete");
    for line in ["REQUEST PHASE COMPLETED. 600 requests done", "check passed: counts equal visible links"] {
        assert!(ran.out.contains(line), "{}", ran.out);
    }
    assert!(ran.out.contains("reproduced flaws of the original: multiget, history"), "{}", ran.out);
    let kept = result(output.to_str().unwrap());
    assert_eq!((kept.parameters["requests"].as_str(), kept.blemish()), ("300", None));
    assert!(kept.floor_cpu_us.is_some_and(|floor| floor > 0.0), "the generator's own cost is told");
    let fresh = bench(folder.path(), &[&["linkbench", "validate", "--fresh"][..], &target].concat());
    assert!(fresh.code == 2 && fresh.out.contains("check FAILED: links are as planned"), "{}", fresh.out);
}

/// As with the other verbs.
#[test]
fn without_a_target_it_is_a_file_here() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["--nodes", "100", "-D", "nlinks_func=Zipf", "-D", "nlinks_shape=0.8", "-D", "requests=50"];
    for verb in ["load", "request", "validate", "explain"] {
        let ran = bench(folder.path(), &[&["linkbench", verb][..], &small].concat());
        assert_eq!(ran.code, 0, "{verb} {}{}", ran.out, ran.err);
    }
    assert!(folder.path().join("tidemill-bench.db").exists());
}

#[test]
fn it_is_a_suite_like_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let graph = ["--target", "sqlite:graph.db", "-p", "nodes=300", "-p"];
    let define = "define=nlinks_func=Zipf,nlinks_shape=0.8,nlinks_mean=5";
    let graph = [&graph[..], &[define]].concat();
    let ran = bench(folder.path(), &[&["prepare", "linkbench"][..], &graph].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let run = ["run", "linkbench", "--closed", "-t", "200", "-c", "2", "--warmup", "0s", "-o", "r.json"];
    let ran = bench(folder.path(), &[&run[..], &graph].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("GET_LINKS_LIST") && ran.out.contains("right: counts equal visible links"),
        "{}",
        ran.out
    );
}

/// What the server refuses is let through up to a number, and told; the result ranks with no other.
#[test]
fn refused_requests_are_told_and_do_not_rank() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("graph.db").display());
    let graph = ["--target", &url, "--nodes", "300", "-D", "nlinks_func=Zipf", "-D", "nlinks_shape=0.8"];
    let graph = [&graph[..], &["-D", "nlinks_mean=5", "-D", "max_failed_requests=-1"]].concat();
    let loaded = bench(folder.path(), &[&["linkbench", "load"][..], &graph].concat());
    assert_eq!(loaded.code, 0, "{}{}", loaded.out, loaded.err);
    let request = |output: &str| {
        let few = ["linkbench", "request", "-D", "requesters=2", "-D", "requests=300", "--output", output];
        bench(folder.path(), &[&few[..], &graph].concat())
    };
    assert_eq!(request("well.json").code, 0);
    let refuse = "CREATE TRIGGER t BEFORE INSERT ON nodetable BEGIN SELECT RAISE(ABORT, 'none today'); END";
    tidemill_bench::target::Target::open(&url).unwrap().connect().unwrap().execute(refuse).unwrap();
    let ran = request("ill.json");
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    for part in ["none today", "which the workload does not expect", "WARNING: ", "INCOMPLETE: "] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let strict = ["-D", "requesters=2", "-D", "requests=300", "--seed", "5", "--original-log"];
    let strict = [&["linkbench", "request"], &graph[..], &strict, &["-D", "max_failed_requests=0"]].concat();
    let ran = bench(folder.path(), &strict);
    let told = "Benchmark did not complete cleanly: 2/2 request threads aborted\n";
    assert!(ran.code == 2 && ran.out.contains(told), "{}{}", ran.out, ran.err);
    let compared = bench(folder.path(), &["compare", "well.json", "ill.json"]);
    assert_eq!(compared.code, 2);
    assert!(compared.out.contains("ill.json does not rank: "), "{}", compared.out);
    assert!(compared.out.contains("errors that the workload does not expect"), "{}", compared.out);
}

/// Nothing that was measured is lost because of a file beside it.
#[test]
fn files_that_cannot_be_written_are_told_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["--nodes", "100", "-D", "nlinks_func=Zipf", "-D", "nlinks_shape=0.8", "-D", "requests=50"];
    let run =
        |verb: &str, rest: &[&str]| bench(folder.path(), &[&["linkbench", verb][..], &small, rest].concat());
    for file in ["--csvstats", "--csvstream"] {
        let ran = run("request", &[file, "none/x.csv"]);
        assert!(ran.code == 1 && ran.err.contains("none/x.csv: No such file"), "{}{}", ran.out, ran.err);
        assert!(!ran.out.contains("requests finished"), "{}", ran.out);
    }
    assert_eq!(run("load", &["--csvstats", "none/x.csv"]).code, 1);
    assert_eq!(run("load", &[]).code, 0);
    // A full disk shows only when the run is over.
    let ran = run("request", &["--csvstats", "/dev/full", "--csvstream", "/dev/full", "-o", "kept.json"]);
    assert!(ran.code == 2 && ran.err.contains("/dev/full: No space left"), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("GET_LINKS_LIST"), "{}", ran.out);
    assert!(folder.path().join("kept.json").exists());
}

#[test]
fn wrong_input_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "c.properties", "maxid1 = 100\nrequestors = 3\n");
    // As the original has it: 1 for the command line, 2 for what is configured.
    let told = |code: i32, arguments: &[&str]| {
        let ran = bench(folder.path(), &[&["linkbench"], arguments].concat());
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
        ran.err
    };
    let message = |arguments: &[&str]| told(2, arguments);
    let unknown = message(&["plan", "-c", &file]);
    assert!(
        unknown.contains("c.properties:2)") && unknown.contains("did you mean \"requesters\"?"),
        "{unknown}"
    );
    assert!(message(&["plan", "-D", "maxid1=x"]).contains("\"x\" is not a whole number"));
    let rate = message(&["request", "--nodes", "10", "-D", "requesters=2", "-D", "requestrate=600000000"]);
    assert!(rate.contains("600000000 of each of 2 requesters is above 1000000000 a second"), "{rate}");
    assert!(message(&["plan", "--data-file", "none.dat"]).contains("none.dat: No such file"));
    assert!(told(1, &["plan", "--compat=x"]).contains("\"x\" is not known; there are all, write-uncorr"));
    let missing =
        bench(folder.path(), &["linkbench", "request", "--nodes", "10", "--target", "sqlite:empty.db"]);
    assert!(missing.code == 2 && missing.err.contains("no such table"), "{}", missing.err);
    assert!(missing.err.contains("make the tables first: tidemill bench linkbench load"), "{}", missing.err);
}
