//! The program itself, through the launcher among the examples.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs in a folder, where results go.
pub fn bench(folder: &Path, arguments: &[&str]) -> Ran {
    finished(command(folder, arguments).output().unwrap())
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(launcher());
    command.current_dir(folder).args(arguments).env_remove("PGPASSWORD");
    command
}

/// Starts one that goes on while the test does something else; `finished` gets its output.
pub fn started(folder: &Path, arguments: &[&str]) -> Child {
    command(folder, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs where a file has room for half a kilobyte.
pub fn bench_with_small_files(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\""]).arg(launcher()).args(arguments);
    finished(command.current_dir(folder).output().unwrap())
}

/// Runs with an output that nobody reads.
pub fn unread(folder: &Path, arguments: &[&str]) -> Ran {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = command(folder, arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    finished(child.wait_with_output().unwrap())
}

pub fn finished(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Looks again and again, for as long as a busy machine may need.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads what it tells on stderr, up to the first line that is the awaited one. What comes after it stays unread.
pub fn until_told(child: &mut Child, what: &str, mut is_it: impl FnMut(&str) -> bool) {
    // One byte at a time: nothing is taken away from `finished`.
    let mut told = BufReader::with_capacity(1, child.stderr.as_mut().unwrap()).lines().map(Result::unwrap);
    let mut before = Vec::new();
    while let Some(line) = told.next() {
        if is_it(&line) {
            return;
        }
        before.push(line);
    }
    panic!("it ended without {what}: {before:#?}");
}

/// Waits until the lines of progress of a run with `-P 1` and without a warm-up tell of so many operations.
pub fn until_done(child: &mut Child, operations: f64) {
    let (mut done, mut last_s) = (0.0, 0.0);
    until_told(child, &format!("{operations} operations"), |line| {
        let progress = line.strip_prefix("progress: ").and_then(|rest| rest.split_once(" tps"));
        let Some((at_s, rate)) = progress.and_then(|(numbers, _)| numbers.split_once(" s, ")) else {
            return false;
        };
        let (at_s, rate): (f64, f64) = (at_s.parse().unwrap(), rate.parse().unwrap());
        done += rate * (at_s - last_s);
        last_s = at_s;
        done >= operations
    });
}

fn launcher() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/bench");
    assert!(path.exists(), "{} is built by `cargo test` with the examples", path.display());
    path
}

/// A file in a folder; gives its path as text.
pub fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A result of `run --output`.
pub fn result(path: &str) -> tidemill_bench::result::ResultFile {
    tidemill_bench::result::ResultFile::read(Path::new(path)).unwrap()
}
