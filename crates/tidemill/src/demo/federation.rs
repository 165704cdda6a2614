//! The second act: the same data in four databases, read as one table, of which one dies.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::SinkExt;
use futures::future::try_join_all;
use tokio::task::block_in_place;
use tokio_postgres::CopyInSink;

use super::Demo;
use super::node::{Nodes, TURBINES, failed};
use super::psql::{Psql, describe, echo};

const COLUMNS: &str = "turbine text, at timestamptz, pitch float8, power float8, speed float8, vane float8,
    temperature float8, nacelle float8, direction float8";
/// What is sent of a node's rows at once.
const CHUNK_BYTES: usize = 64 << 10;
/// The node that dies.
const VICTIM: &str = TURBINES[3];
const STATE_WAIT_MAX: Duration = Duration::from_secs(60);
const STATE_POLL: Duration = Duration::from_millis(20);

const TOTAL: &str =
    "SELECT count(*) AS samples, round(sum(power) / 6000) AS mwh, max(speed) AS gust FROM measurements;";
const ASKED: &str =
    "SELECT node, rows, round(time_ms) AS ms, remote_sql FROM tidemill.last_query_nodes ORDER BY node;";
const JOIN: &str =
    "SELECT name, model, latitude, longitude, round(100 * avg(power) / rated_kw) AS percent_of_rated_power
  FROM measurements JOIN assets ON name = turbine
  GROUP BY name, model, latitude, longitude, rated_kw ORDER BY name;";
const BY_NODE: &str = "SELECT __spd_url AS node, count(*) AS samples, round(avg(power)) AS kw
  FROM measurements GROUP BY __spd_url ORDER BY node;";
const STATES: &str =
    "SELECT server, state, error FROM tidemill.nodes WHERE wrapper <> 'file_fdw' ORDER BY server;";

pub async fn show(demo: &Demo, address: SocketAddr, nodes: &Nodes, psql: &mut Psql) -> Result<(), String> {
    println!("Second act: the same data in four {}, one a turbine, read as one table\n", nodes.are());
    define(nodes, psql).await?;
    fill(address, &demo.data).await?;
    let children = TURBINES.map(|turbine| format!("{turbine}.measurements")).join(", ");
    psql.run(&[format!("CREATE MULTI TENANT TABLE measurements ({COLUMNS})\n  CHILDREN ({children});")])
        .await?;
    println!("\nAll of it: each node is asked for its part of the aggregates");
    psql.show(TOTAL).await?;
    psql.show(ASKED).await?;
    println!("With the turbines' master data, which are in a file");
    psql.run(&master_data(&demo.assets)?).await?;
    psql.show(JOIN).await?;
    lose_a_node(nodes, psql).await
}

/// Tells Tidemill where the nodes are, and makes the table on each.
async fn define(nodes: &Nodes, psql: &mut Psql) -> Result<(), String> {
    let (first, others) = (TURBINES[0], &TURBINES[1..]);
    for turbine in TURBINES {
        let mut statements = nodes.definitions(turbine, COLUMNS);
        statements.push(format!("CREATE DATASOURCE TABLE measurements_{turbine};"));
        if turbine == first {
            psql.run(&statements).await?;
            continue;
        }
        for sql in statements {
            psql.client().batch_execute(&sql).await.map_err(describe)?;
        }
    }
    println!("… and the same for {}.\n", others.join(", "));
    Ok(())
}

/// The nodes are new at each start, so what tells where they are is as well: nobody shall look for them without the demo.
pub async fn forget(psql: &Psql) -> Result<(), String> {
    let servers = format!("DROP SERVER IF EXISTS assets, {} CASCADE", TURBINES.join(", "));
    for statement in ["SET client_min_messages = warning", &servers, "RESET client_min_messages"] {
        psql.client().batch_execute(statement).await.map_err(describe)?;
    }
    Ok(())
}

/// Copies the rows of each turbine to its node, all nodes at the same time.
async fn fill(address: SocketAddr, data: &Path) -> Result<(), String> {
    let started = Instant::now();
    let mut copies = try_join_all(TURBINES.map(|turbine| Copy::start(address, turbine))).await?;
    let open = |error: std::io::Error| failed(data, &error);
    let file = zstd::Decoder::new(File::open(data).map_err(open)?).map_err(open)?;
    // The first line has the names of the columns.
    for line in BufReader::new(file).lines().skip(1) {
        let line = line.map_err(open)?;
        let turbine = line.split(',').next().unwrap_or_default();
        let copy = copies.iter_mut().find(|copy| copy.turbine.eq_ignore_ascii_case(turbine));
        copy.ok_or_else(|| format!("{}: there is no node for \"{turbine}\"", data.display()))?
            .add(&line)
            .await?;
    }
    let rows: u64 = try_join_all(copies.into_iter().map(Copy::finish)).await?.into_iter().sum();
    let elapsed = started.elapsed().as_secs_f64();
    println!(
        "{rows} rows in {elapsed:.2} s: {:.0} rows/s through Tidemill into four nodes.\n",
        rows as f64 / elapsed
    );
    Ok(())
}

/// Rows on their way to a node.
struct Copy {
    turbine: &'static str,
    _session: Psql,
    sink: Pin<Box<CopyInSink<Bytes>>>,
    waiting: BytesMut,
}

impl Copy {
    async fn start(address: SocketAddr, turbine: &'static str) -> Result<Self, String> {
        let session = Psql::connect(address).await?;
        let sql = format!("COPY measurements_{turbine} FROM STDIN (FORMAT csv, NULL '');");
        echo(&sql);
        let sink = Box::pin(session.client().copy_in(&sql).await.map_err(describe)?);
        Ok(Self { turbine, _session: session, sink, waiting: BytesMut::with_capacity(CHUNK_BYTES) })
    }

    async fn add(&mut self, line: &str) -> Result<(), String> {
        self.waiting.extend_from_slice(line.as_bytes());
        self.waiting.extend_from_slice(b"\n");
        match self.waiting.len() < CHUNK_BYTES {
            true => Ok(()),
            false => self.send().await,
        }
    }

    async fn send(&mut self) -> Result<(), String> {
        self.sink.send(self.waiting.split().freeze()).await.map_err(describe)
    }

    /// How many rows it were.
    async fn finish(mut self) -> Result<u64, String> {
        self.send().await?;
        self.sink.as_mut().finish().await.map_err(describe)
    }
}

fn master_data(file: &Path) -> Result<[String; 2], String> {
    let file = file.canonicalize().map_err(|error| failed(file, &error))?;
    let file = file.display().to_string().replace('\'', "''");
    Ok([
        "CREATE SERVER assets FOREIGN DATA WRAPPER file_fdw;".to_string(),
        format!(
            "CREATE FOREIGN TABLE assets (name text, latitude float8, longitude float8, elevation_m int, rated_kw int,
    hub_height_m int, rotor_diameter_m int, manufacturer text, model text)
  SERVER assets OPTIONS (filename '{file}', format 'csv', header 'true');"
        ),
    ])
}

/// The answer goes on, and says what it lacks.
async fn lose_a_node(nodes: &Nodes, psql: &mut Psql) -> Result<(), String> {
    println!("One of the nodes is killed");
    psql.show(BY_NODE).await?;
    block_in_place(|| nodes.kill(VICTIM))?;
    println!("What is missing is an error, unless a session, or whoever makes the table, says otherwise");
    psql.show_refused(BY_NODE).await?;
    psql.run(&["SET on_dead_node = skip;"]).await?;
    psql.show(BY_NODE).await?;
    until_state(psql, "down").await?;
    psql.show(STATES).await?;
    println!("It is back");
    block_in_place(|| nodes.revive(VICTIM))?;
    until_state(psql, "up").await?;
    psql.show(BY_NODE).await
}

/// Waits until the probe in the background has noticed.
async fn until_state(psql: &Psql, state: &str) -> Result<(), String> {
    let query = format!("SELECT 1 FROM tidemill.nodes WHERE server = '{VICTIM}' AND state = '{state}'");
    let deadline = Instant::now() + STATE_WAIT_MAX;
    loop {
        if psql.finds(&query).await? {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("node {VICTIM} is not {state} after {STATE_WAIT_MAX:?}"));
        }
        tokio::time::sleep(STATE_POLL).await;
    }
}
