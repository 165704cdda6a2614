//! `tidemill demo`: both acts, with nodes of either kind, and once more on the same data directory.

use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use tokio_postgres::NoTls;

use crate::postgres;
use crate::server::rows;

const TURBINES: [&str; 4] = ["R80711", "R80721", "R80736", "R80790"];
const SAMPLES: usize = 250;

/// A demo that runs, or has ended.
struct Demo {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Demo {
    fn start(dir: &Path, nodes: &str, more: &[&str]) -> Self {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/la-haute-borne_asset_table.csv");
        let mut process = Command::new(env!("CARGO_BIN_EXE_tidemill"))
            .args(["demo", "--listen", "127.0.0.1:0", "--nodes", nodes, "--assets"])
            .arg(assets)
            .arg("--data")
            .arg(dir.join("scada.csv.zst"))
            .arg("--data-dir")
            .arg(dir.join("data"))
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// What it says until it waits for its end, or until it has ended; of blanks, one.
    fn said(&mut self) -> String {
        let mut said = String::new();
        for line in self.lines.by_ref() {
            said.push_str(&line.unwrap().split_whitespace().collect::<Vec<_>>().join(" "));
            said.push('\n');
            if said.ends_with("to start afresh.\n") {
                break;
            }
        }
        said
    }

    /// Ctrl-C, and the end in order.
    fn interrupt(mut self) {
        assert!(
            Command::new("kill").args(["-INT", &self.process.id().to_string()]).status().unwrap().success()
        );
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A folder that PostgreSQL's user can get to, and in it a file like the turbines' one, but small.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut text =
        "Wind_turbine_name,Date_time,Ba_avg,P_avg,Ws_avg,Va_avg,Ot_avg,Ya_avg,Wa_avg\n".to_string();
    for sample in 0..SAMPLES {
        for (number, turbine) in TURBINES.iter().enumerate() {
            let (day, hour) = (1 + sample / 24, sample % 24);
            text.push_str(&format!(
                "{turbine},2014-01-{day:02}T{hour:02}:00:00+01:00,-1.0,{},7.1,,4.7,181.3,182.0\n",
                (number + 1) * 600
            ));
        }
    }
    std::fs::write(dir.path().join("scada.csv.zst"), zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    dir
}

/// The process ids that the servers of the nodes have noted.
fn postmasters(dir: &Path) -> Vec<PathBuf> {
    let folders = TURBINES.map(|turbine| dir.join("data/nodes").join(turbine.to_lowercase()));
    folders.map(|folder| folder.join("postmaster.pid")).into_iter().filter(|file| file.exists()).collect()
}

fn check(said: &str, nodes: &str) {
    let wanted = [
        "Per turbine: two years".to_string(),
        format!("the same data in four {nodes}"),
        "tidemill=> CREATE SERVER r80711 FOREIGN DATA WRAPPER".to_string(),
        "1000 rows in ".to_string(),
        "tidemill-> CHILDREN (r80711.measurements, r80721.measurements, ".to_string(),
        "| 1000 | 250 | 7.1 |".to_string(),
        "| R80736 | MM82 | 48.4461 | 5.5925 | 88 |".to_string(),
        "ERROR: ".to_string(),
        "WARNING: node of table \"measurements\" missing from the answer: /r80790/".to_string(),
        "| r80790 | down |".to_string(),
        "It is back".to_string(),
    ];
    let mut rest = said;
    for part in wanted {
        let (_, after) = rest.split_once(&part).unwrap_or_else(|| panic!("{part} is not in {rest}"));
        rest = after;
    }
    let node = "| /r80790/ | 250 | 2400 |\n(4 rows)\nTime: ";
    assert_eq!(said.matches(node).count(), 2, "{said}");
    assert_eq!(said.matches("| /r80736/ | 250 | 1800 |\n(3 rows)\nTime: ").count(), 1, "{said}");
}

async fn play(nodes: &str, are: &str) {
    let dir = folder();
    let mut first = Demo::start(dir.path(), nodes, &[]);
    let said = first.said();
    check(&said, are);
    let (_, port) = said.split_once("psql -h 127.0.0.1 -p ").unwrap();
    let config = format!("host=127.0.0.1 port={} user=postgres", port.split_whitespace().next().unwrap());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(rows(&client, "SELECT count(*) FROM measurements").await, [["1000"]]);
    first.interrupt();
    assert_eq!(postmasters(dir.path()), Vec::<PathBuf>::new());

    let mut second = Demo::start(dir.path(), nodes, &[]);
    let said = second.said();
    assert!(said.contains("goes on from there"), "{said}");
    check(&said, are);
    // It is killed; what it has left does not keep the next one from starting.
    drop(second);
    let mut third = Demo::start(dir.path(), nodes, &["--once"]);
    check(&third.said(), are);
    assert!(third.process.wait().unwrap().success());
    assert_eq!(postmasters(dir.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn the_demo_plays_over_postgresql() {
    if postgres::installed().is_some() {
        play("postgresql", "PostgreSQL servers").await;
    }
}

#[tokio::test]
async fn the_demo_plays_over_sqlite() {
    play("sqlite", "SQLite files").await;
}
