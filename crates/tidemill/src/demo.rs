//! `tidemill demo`: two years of four real wind turbines through a stream into continuous views.

use std::fs::File;
use std::io::{BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytesize::ByteSize;
use comfy_table::Table;
use futures::SinkExt;
use indicatif::{ProgressBar, ProgressStyle};
use tidemill_server::server::{Config, Listener, Server};
use tidemill_server::settings::Settings;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

#[derive(clap::Args)]
pub struct Demo {
    /// The turbines' data, compressed with zstd.
    #[arg(long, value_name = "FILE", default_value = "demo/la-haute-borne-scada-2014-2015.csv.zst")]
    data: PathBuf,
    #[arg(long, value_name = "DIR", default_value = "demo-data")]
    data_dir: PathBuf,
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7432")]
    listen: SocketAddr,
    /// End when the results are shown.
    #[arg(long)]
    once: bool,
}

const DEFINITIONS: &str = "
CREATE STREAM wind (turbine text, at timestamptz, pitch float8, power float8, speed float8, vane float8,
                    temperature float8, nacelle float8, direction float8);
CREATE CONTINUOUS VIEW hourly AS
  SELECT turbine, date_trunc('hour', at) AS hour, count(*) AS samples, avg(power) AS kw, max(speed) AS gust
  FROM wind GROUP BY turbine, date_trunc('hour', at);
CREATE CONTINUOUS VIEW power_curve AS
  SELECT floor(speed) AS metres_a_second, count(*) AS samples, avg(power) AS kw, min(power) AS least, max(power) AS most
  FROM wind WHERE speed IS NOT NULL GROUP BY floor(speed);
CREATE CONTINUOUS VIEW turbines AS
  SELECT turbine, count(*) AS samples, sum(power) / 6 AS kwh, max(power) AS peak_kw, min(at) AS first, max(at) AS last
  FROM wind GROUP BY turbine;
CREATE CONTINUOUS VIEW last_minute WITH (sw = '1 minute') AS
  SELECT turbine, count(*) AS samples, avg(power) AS kw FROM wind GROUP BY turbine;";

const RESULTS: [(&str, &str); 6] = [
    ("Per turbine: two years", "SELECT * FROM turbines ORDER BY turbine"),
    (
        "Power curve: what a wind of so many m/s gives",
        "SELECT metres_a_second, samples, round(kw::numeric, 1) AS kw, least, most FROM power_curve ORDER BY 1",
    ),
    ("The best hours", "SELECT * FROM hourly ORDER BY kw DESC NULLS LAST LIMIT 5"),
    ("The worst hours: a turbine that stands still draws power", "SELECT * FROM hourly ORDER BY kw LIMIT 5"),
    ("The last hours", "SELECT * FROM hourly ORDER BY hour DESC, turbine LIMIT 8"),
    (
        "What arrived in the last minute: a sliding window, empty again when a minute has passed",
        "SELECT * FROM last_minute ORDER BY turbine",
    ),
];

pub async fn run(demo: Demo) -> Result<(), String> {
    let settings = Settings::load(None, &[]).map_err(|e| e.to_string())?;
    let config = Config {
        data_dir: demo.data_dir.clone(),
        password: None,
        trust_loopback: true,
        settings: Arc::new(settings),
    };
    let (server, _) = Server::open(config).await.map_err(|e| e.to_string())?;
    let listeners = server.listen(&[demo.listen]).await.map_err(|e| e.to_string())?;
    let address = listeners.iter().find_map(Listener::address).unwrap_or(demo.listen);
    let serving = {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.serve(listeners).await })
    };
    let shown = show(&demo, &server, address).await;
    if shown.is_ok() && !demo.once {
        println!(
            "\nThe server is running. Connect with:\n\n  psql -h {} -p {} -U postgres tidemill\n",
            address.ip(),
            address.port()
        );
        println!(
            "Ctrl-C ends it. The data stays in {}; remove that folder to start afresh.",
            demo.data_dir.display()
        );
        tokio::signal::ctrl_c().await.map_err(|e| e.to_string())?;
    }
    server.stop();
    serving.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
    shown
}

async fn show(demo: &Demo, server: &Server, address: SocketAddr) -> Result<(), String> {
    let options = format!("host={} port={} user=postgres dbname=tidemill", address.ip(), address.port());
    let (client, connection) = tokio_postgres::connect(&options, NoTls).await.map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    let known = client.simple_query("SELECT samples FROM turbines LIMIT 1").await.is_ok();
    if known {
        println!("{} holds the data of an earlier run; it goes on from there.", demo.data_dir.display());
    } else {
        client.batch_execute(DEFINITIONS).await.map_err(describe)?;
        play(&client, server, &demo.data).await?;
    }
    for (title, sql) in RESULTS {
        println!("\n{title}\n  {sql}");
        println!("{}", table(&client, sql).await?);
    }
    Ok(())
}

/// Sends the file by COPY, as it comes out of the decompressor.
async fn play(client: &Client, server: &Server, path: &Path) -> Result<(), String> {
    let open = |e: std::io::Error| format!("could not read {}: {e}", path.display());
    let file = File::open(path).map_err(open)?;
    let bar = ProgressBar::new(file.metadata().map_err(open)?.len());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed} elapsed") {
        bar.set_style(style);
    }
    let mut reader = zstd::Decoder::new(bar.wrap_read(BufReader::new(file))).map_err(open)?;
    let started = Instant::now();
    let sink: tokio_postgres::CopyInSink<bytes::Bytes> =
        client.copy_in("COPY wind FROM STDIN (FORMAT csv, HEADER, NULL '')").await.map_err(describe)?;
    futures::pin_mut!(sink);
    let mut raw = 0_u64;
    loop {
        let mut chunk = vec![0; 64 << 10];
        let read = reader.read(&mut chunk).map_err(open)?;
        if read == 0 {
            break;
        }
        raw += read as u64;
        chunk.truncate(read);
        sink.send(chunk.into()).await.map_err(describe)?;
    }
    let rows: u64 = sink.finish().await.map_err(describe)?;
    let elapsed = started.elapsed();
    bar.finish();
    println!(
        "{rows} rows ({} of CSV) in {:.2} s: {:.0} rows/s into four views, durable; {} on disk.",
        ByteSize(raw),
        elapsed.as_secs_f64(),
        rows as f64 / elapsed.as_secs_f64(),
        ByteSize(server.disk_bytes()),
    );
    Ok(())
}

async fn table(client: &Client, sql: &str) -> Result<Table, String> {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    for message in client.simple_query(sql).await.map_err(describe)? {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                table.set_header(columns.iter().map(|c| c.name().to_string()));
            }
            SimpleQueryMessage::Row(row) => {
                table.add_row((0..row.len()).map(|i| row.get(i).unwrap_or("").to_string()));
            }
            _ => {}
        }
    }
    Ok(table)
}

fn describe(error: tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => {
            format!("{}{}", error.message(), error.where_().map(|w| format!(" ({w})")).unwrap_or_default())
        }
        None => error.to_string(),
    }
}
