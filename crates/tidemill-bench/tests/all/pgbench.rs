//! Beside pgbench: the same scripts, seeds and rates.

use crate::bench::{bench, finished, result, started, write};
use crate::postgres::Postgres;

const EXPRESSIONS: &str = r"
\set a debug(random(1, 1000000))
\set b debug(random_gaussian(-5, 1000000, 2.5))
\set c debug(random_exponential(1, 1000000, 3.0))
\set d debug(random_zipfian(1, 1000000, 1.2))
\set e debug(random_zipfian(1, 1000, 2.5) * 2.0)
\set f debug(hash(:a))
\set g debug(hash_fnv1a(:a, 5432))
\set h debug(hash_murmur2(-1, 0))
\set i debug(permute(:a, 1000))
\set j debug(permute(7, 64, 5))
\set k debug(~ 1 + 2)
\set l debug(7 / 2.0)
\set m debug(-7 % 3)
\set n debug(pow(2, 0.5) + ln(10) + exp(1) + sqrt(2))
\set o debug(int(-2.5))
\set p debug(1 << 3 | 5 & 6 # 1)
\set q debug(:default_seed)
\set r debug(mod(7.5, 2))
\set s debug(case when :a % 2 = 0 then greatest(1, 2.5) else least(:a, 7) end)
\set t debug(null is null and not 1 > 2 or false)
\set u debug(1e20 / 3)
\set v debug(:client_id + :scale)
\set w debug(-9223372036854775808)
\set x debug(double(5) = 5 and 3 <> 4 and 2 >= 2)
\set y debug(null + 1)
\set z debug(pi())
\if :a % 2 = 0
\set aa debug(1)
\elif :a % 3 = 0
\set aa debug(2)
\else
\set aa debug(3)
\endif
select :a + 1 as next \gset r_
\set ab debug(:r_next - :a)
\set ac debug(:r_next = :a + 1)
select 1 as one where false \aset
select 2 as two \aset
\set ad debug(:two)
\set ae debug(double(1) / 0.0)
\set af debug(-:ae)
\set ag debug(:ae - :ae)
\set ah debug(null and false)
\set ai debug(null or true)
\set aj debug(false and null)
\set ak debug(true and null)
\set al debug(null or 3)
";

#[test]
fn expressions_and_seeds_are_pgbenchs() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = write(dir.path(), "expressions.sql", EXPRESSIONS);
    let debug = |text: &str| {
        let mut lines: Vec<String> =
            text.lines().filter_map(|line| line.find("debug(").map(|at| line[at..].to_owned())).collect();
        lines.sort();
        lines
    };
    for (seed, mode) in [("1", "simple"), ("42", "extended"), ("123456789", "prepared")] {
        let seed_argument = format!("--random-seed={seed}");
        let theirs = server.pgbench(&["-c", "3", "-t", "10", "-M", mode, &seed_argument, "-f", &script]);
        let ours = bench(
            dir.path(),
            &[
                "run",
                &script,
                "--target",
                &server.url(),
                "--closed",
                "-c",
                "3",
                "-t",
                "10",
                "-M",
                mode,
                "--seed",
                seed,
                "--warmup",
                "0",
                "-P",
                "0",
            ],
        );
        assert_eq!(ours.code, 0, "{}{}", ours.out, ours.err);
        let (theirs, ours) = (debug(&theirs), debug(&ours.err));
        assert_eq!(theirs.len(), 38 * 30, "every client and transaction says all of it");
        assert_eq!(ours, theirs, "seed {seed}");
    }
}

/// With one client, whose thread has no other to choose for.
#[test]
fn scripts_are_chosen_as_pgbench_chooses_them() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let one = write(dir.path(), "one.sql", "\\set k debug(1)\n");
    let two = write(dir.path(), "two.sql", "\\set k debug(2)\n");
    let chosen = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("debug("));
        lines.map(|line| line[line.len() - 1..].to_owned()).collect::<String>()
    };
    for (seed, weights, more) in
        [("1", ["", ""], &[][..]), ("42", ["@3", "@2"], &[]), ("7", ["", "@9"], &["-D", "default_seed=5"])]
    {
        let files = [format!("{one}{}", weights[0]), format!("{two}{}", weights[1])];
        let seed_argument = format!("--random-seed={seed}");
        let theirs = ["-t", "40", &seed_argument, "-f", &files[0], "-f", &files[1]];
        let theirs = chosen(&server.pgbench(&[&theirs[..], more].concat()));
        let ours = ["run", &files[0], &files[1], "--target", "noop:", "--closed", "-t", "40", "--seed", seed];
        let ours = bench(dir.path(), &[&ours[..], &["-P", "0"], more].concat());
        assert_eq!((chosen(&ours.err), theirs.len()), (theirs, 40), "seed {seed}: {}", ours.out);
    }
}

/// What both tell, as late %, skipped %, mean, lag (ms) and processed.
const COMPARED: [&str; 5] = ["late %", "skipped %", "mean ms", "lag ms", "processed"];

/// Of the standard normal distribution: outside of it is one figure of ten thousand by chance.
const Z: f64 = 3.89;

/// Pairs of runs with the same script, rate and limit. Both of a pair run at the same time, so that a busy machine is the same for
/// both, and the server's part is sleep. The mean difference of each figure has an interval, and 0 lies in it. How tight that is
/// depends on the number of pairs (TIDEMILL_PGBENCH_PAIRS); nothing is asserted of a single run.
#[test]
fn late_skipped_mean_and_lag_agree() {
    let Some(server) = Postgres::start() else { return };
    let pairs = std::env::var("TIDEMILL_PGBENCH_PAIRS").map_or(12, |pairs| pairs.parse().unwrap());
    assert!(pairs >= 5, "fewer say nothing of their spread");
    let dir = tempfile::tempdir().unwrap();
    let text = "\\set ms random(1, 20)\nselect pg_sleep(:ms / 1000.0);\n";
    let script = write(dir.path(), "work.sql", text);
    let path = dir.path().join("r.json");
    let path = path.to_str().unwrap();
    let mut differences = vec![Vec::new(); COMPARED.len()];
    for pair in 0..pairs {
        let (seed, theirs_seed) = ((1000 + pair).to_string(), format!("--random-seed={}", 5000 + pair));
        let url = server.url();
        let place =
            ["run", &script, "--target", &url, "--seed", &seed, "-o", path, "--warmup", "0", "-P", "0"];
        let plan = ["-c", "2", "-T", "3s", "-R", "150", "-L", "30ms"];
        let ours = started(dir.path(), &[&place[..], &plan].concat());
        let plan = ["-c", "2", "-T", "3", "-R", "150", "-L", "30"];
        let theirs = told_by_pgbench(&server.pgbench(&[&plan[..], &[&theirs_seed, "-f", &script]].concat()));
        let ours = finished(ours.wait_with_output().unwrap());
        assert_eq!(ours.code, 0, "{}{}", ours.out, ours.err);
        let total = result(path).repeats[0].record.total();
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole as f64;
        let ours = [
            percent(total.late, total.processed),
            percent(total.skipped, total.asked()),
            total.response.mean() / 1e6,
            total.lag.mean() / 1e6,
            total.processed as f64,
        ];
        assert!(
            total.response.mean() > total.service.mean(),
            "waiting for a free client is part of the response"
        );
        differences
            .iter_mut()
            .zip(ours)
            .zip(theirs)
            .for_each(|((all, ours), theirs)| all.push(ours - theirs));
    }
    for (name, differences) in COMPARED.iter().zip(&differences) {
        let (mean, far) = interval(differences);
        println!("{name}: {pairs} pairs differ by {mean:.3} ± {far:.3}");
        assert!(mean.abs() <= far, "{name}: {mean} ± {far}: {differences:?}");
    }
}

fn told_by_pgbench(said: &str) -> [f64; 5] {
    let number = |line: &str, after: &str| -> f64 {
        let line = said.lines().find(|l| l.starts_with(line)).unwrap_or_else(|| panic!("{line} in {said}"));
        let rest = &line[line.find(after).unwrap() + after.len()..];
        rest.trim().split([' ', '%', '/']).next().unwrap().parse().unwrap()
    };
    [
        number("number of transactions above", "("),
        number("number of transactions skipped", "("),
        number("latency average", "="),
        number("rate limit schedule lag", "avg "),
        number("number of transactions actually processed", ":"),
    ]
}

/// The mean, and how far the ends of its interval are from it: Student's t by its expansion (Cornish and Fisher).
fn interval(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let freedom = n - 1.0;
    let t = Z
        + (Z.powi(3) + Z) / (4.0 * freedom)
        + (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / (96.0 * freedom.powi(2))
        + (3.0 * Z.powi(7) + 19.0 * Z.powi(5) + 17.0 * Z.powi(3) - 15.0 * Z) / (384.0 * freedom.powi(3));
    (mean, t * (variance / n).sqrt())
}

/// `\\aset` takes the last row of each result that has one; pgbench leaves the same variables.
#[test]
fn variables_come_from_joined_statements() {
    let dir = tempfile::tempdir().unwrap();
    let text = "select 1 as a, 2 as b union all select 3, 4 order by 1 \\; select 5 as a where false \\; select 6 as c, 7 as b\n\
                \\aset p_\n\\set sum :p_a * 100 + :p_c\ninsert into seen values (:sum, :p_b);\n";
    let script = write(dir.path(), "joined.sql", text);
    let server = Postgres::start();
    let sqlite = format!("sqlite:{}", dir.path().join("j.db").display());
    for url in [Some(sqlite), server.as_ref().map(Postgres::url)].into_iter().flatten() {
        let target = tidemill_bench::target::Target::open(&url).unwrap();
        let mut connection = target.connect().unwrap();
        connection.execute("create table seen (sum int, b int)").unwrap();
        let once = ["--closed", "-t", "1", "--warmup", "0", "-P", "0", "--target", &url];
        let ran = bench(dir.path(), &[&["run", &script][..], &once].concat());
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let mut rows = 1;
        if let Some(server) = server.as_ref().filter(|server| server.url() == url) {
            server.pgbench(&["-t", "1", "-f", &script]);
            rows = 2;
        }
        let same = "select count(*) from seen where sum = 306 and b = 7";
        assert_eq!(connection.query_int(same).unwrap(), rows, "{url}");
    }
}

#[test]
fn pipelines_and_weights_work_in_scripts() {
    let Some(server) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let piped = "\\startpipeline\nselect 1;\nselect :client_id;\n\\endpipeline\n";
    let (a, b) = (write(dir.path(), "a.sql", piped), write(dir.path(), "b.sql", "select 2 \\; select 3;\n"));
    for mode in ["extended", "prepared"] {
        let path = dir.path().join("r.json");
        let path = path.to_str().unwrap();
        let weighted = format!("{a}@3");
        let b = write(dir.path(), "b.sql", "select 2;\n");
        let arguments = [
            "run",
            &weighted,
            &b,
            "--target",
            &server.url(),
            "--closed",
            "-t",
            "2000",
            "-M",
            mode,
            "--warmup",
            "0",
            "-P",
            "0",
            "-T",
            "60s",
            "-o",
            path,
        ];
        let ran = bench(dir.path(), &arguments);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        let outcome = &result(path).repeats[0];
        let counts: Vec<u64> = outcome.record.operations.iter().map(|tally| tally.processed).collect();
        assert_eq!(counts.iter().sum::<u64>(), 2000);
        // 1,500 expected; the standard deviation is 19.
        assert!((1400..1600).contains(&counts[0]), "{counts:?}");
    }
    let ran = bench(dir.path(), &["run", &a, "--target", &server.url(), "--closed", "-t", "1", "-P", "0"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    assert!(ran.out.contains("cannot use pipeline mode with the simple query protocol"), "{}", ran.out);
    let simple = bench(
        dir.path(),
        &[
            "run",
            &write(dir.path(), "b.sql", "select 2 \\; select 3;"),
            "--target",
            &server.url(),
            "--closed",
            "-t",
            "5",
            "-P",
            "0",
            "--warmup",
            "0",
        ],
    );
    assert_eq!(simple.code, 0, "{}", simple.out);
    drop(b);
}
