//! The first act: two years of four turbines through a stream into continuous views.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Instant;

use bytesize::ByteSize;
use futures::SinkExt;
use indicatif::{ProgressBar, ProgressStyle};
use tidemill_server::server::Server;
use tokio_postgres::Client;

use super::Demo;
use super::psql::{Psql, describe, echo};

const DEFINITIONS: [&str; 5] = [
    "CREATE STREAM wind (turbine text, at timestamptz, pitch float8, power float8, speed float8, vane float8,
                    temperature float8, nacelle float8, direction float8);",
    "CREATE CONTINUOUS VIEW hourly AS
  SELECT turbine, date_trunc('hour', at) AS hour, count(*) AS samples, avg(power) AS kw, max(speed) AS gust
  FROM wind GROUP BY turbine, date_trunc('hour', at);",
    "CREATE CONTINUOUS VIEW power_curve AS
  SELECT floor(speed) AS metres_a_second, count(*) AS samples, avg(power) AS kw, min(power) AS least, max(power) AS most
  FROM wind WHERE speed IS NOT NULL GROUP BY floor(speed);",
    "CREATE CONTINUOUS VIEW turbines AS
  SELECT turbine, count(*) AS samples, sum(power) / 6 AS kwh, max(power) AS peak_kw, min(at) AS first, max(at) AS last
  FROM wind GROUP BY turbine;",
    "CREATE CONTINUOUS VIEW last_minute WITH (sw = '1 minute') AS
  SELECT turbine, count(*) AS samples, avg(power) AS kw FROM wind GROUP BY turbine;",
];

const COPY: &str = "COPY wind FROM STDIN (FORMAT csv, HEADER, NULL '');";

const RESULTS: [(&str, &str); 6] = [
    ("Per turbine: two years", "SELECT * FROM turbines ORDER BY turbine;"),
    (
        "Power curve: what a wind of so many m/s gives",
        "SELECT metres_a_second, samples, round(kw::numeric, 1) AS kw, least, most FROM power_curve ORDER BY 1;",
    ),
    ("The best hours", "SELECT * FROM hourly ORDER BY kw DESC NULLS LAST LIMIT 5;"),
    ("The worst hours: a turbine that stands still draws power", "SELECT * FROM hourly ORDER BY kw LIMIT 5;"),
    ("The last hours", "SELECT * FROM hourly ORDER BY hour DESC, turbine LIMIT 8;"),
    (
        "What arrived in the last minute: a sliding window, empty again when a minute has passed",
        "SELECT * FROM last_minute ORDER BY turbine;",
    ),
];

pub async fn show(demo: &Demo, server: &Server, psql: &mut Psql) -> Result<(), String> {
    let known = psql.client().simple_query("SELECT samples FROM turbines LIMIT 1").await.is_ok();
    if known {
        println!("{} holds the data of an earlier run; it goes on from there.\n", demo.data_dir.display());
    } else {
        psql.run(&DEFINITIONS).await?;
        echo(COPY);
        play(psql.client(), server, &demo.data).await?;
    }
    for (title, sql) in RESULTS {
        println!("{title}");
        psql.show(sql).await?;
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
    let sink: tokio_postgres::CopyInSink<bytes::Bytes> = client.copy_in(COPY).await.map_err(describe)?;
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
        "{rows} rows ({} of CSV) in {:.2} s: {:.0} rows/s into four views, durable; {} on disk.\n",
        ByteSize(raw),
        elapsed.as_secs_f64(),
        rows as f64 / elapsed.as_secs_f64(),
        ByteSize(server.disk_bytes()),
    );
    Ok(())
}
