//! `tidemill demo`: two years of four real wind turbines, first as a stream, then in four databases.

mod federation;
mod node;
mod postgres;
mod psql;
mod stream;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidemill_server::server::{Config, Listener, Server};
use tidemill_server::settings::Settings;
use tokio::task::block_in_place;

use crate::Signals;
use node::{Database, Nodes, TURBINES};
use psql::Psql;

#[derive(clap::Args)]
pub struct Demo {
    /// The turbines' data, compressed with zstd.
    #[arg(long, value_name = "FILE", default_value = "demo/la-haute-borne-scada-2014-2015.csv.zst")]
    data: PathBuf,
    /// The turbines' master data.
    #[arg(long, value_name = "FILE", default_value = "demo/la-haute-borne_asset_table.csv")]
    assets: PathBuf,
    #[arg(long, value_name = "DIR", default_value = "demo-data")]
    data_dir: PathBuf,
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7432")]
    listen: SocketAddr,
    /// What the four databases are: servers of PostgreSQL, which the demo starts and ends, or files.
    ///
    /// PostgreSQL if it is installed.
    #[arg(long, value_name = "DATABASE")]
    nodes: Option<Database>,
    /// End when the results are shown.
    #[arg(long)]
    once: bool,
}

/// In the data directory: the databases of the second act.
const NODES: &str = "nodes";
const FORGET_MAX: Duration = Duration::from_secs(5);

pub async fn run(demo: Demo) -> Result<(), String> {
    let settings = Settings::load(None, &[]).map_err(|e| e.to_string())?;
    let config = Config {
        data_dir: demo.data_dir.clone(),
        password: None,
        trust_loopback: true,
        settings: Arc::new(settings),
    };
    let (server, _) = Server::open(config).await.map_err(|e| e.to_string())?;
    let mut signals = Signals::new().map_err(|e| e.to_string())?;
    let listeners = server.listen(&[demo.listen]).await.map_err(|e| e.to_string())?;
    let address = listeners.iter().find_map(Listener::address).unwrap_or(demo.listen);
    let serving = {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.serve(listeners).await })
    };
    let mut nodes = None;
    let shown = tokio::select! {
        shown = show(&demo, &server, address, &mut nodes) => shown,
        () = signals.next() => Ok(()),
    };
    if nodes.is_some() {
        forget_nodes(address).await;
    }
    server.stop();
    let served = serving.await;
    // So that nobody asks the nodes any more whether they are there.
    drop(server);
    if let Some(nodes) = nodes {
        block_in_place(|| nodes.stop());
    }
    shown?;
    served.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

/// What cannot be forgotten in time the next demo forgets.
async fn forget_nodes(address: SocketAddr) {
    let forget = async { federation::forget(&Psql::connect(address).await?).await };
    match tokio::time::timeout(FORGET_MAX, forget).await {
        Ok(Ok(())) => {}
        Ok(Err(cause)) => tracing::warn!(cause, "the nodes could not be forgotten"),
        Err(_) => tracing::warn!("the nodes could not be forgotten in time"),
    }
}

/// Both acts; then, unless that is all, it goes on until it is dropped.
async fn show(
    demo: &Demo,
    server: &Server,
    address: SocketAddr,
    nodes: &mut Option<Nodes>,
) -> Result<(), String> {
    let mut psql = Psql::connect(address).await?;
    // Of a demo that was killed.
    federation::forget(&psql).await?;
    stream::show(demo, server, &mut psql).await?;
    let nodes = nodes.insert(block_in_place(|| Nodes::start(&demo.data_dir.join(NODES), demo.nodes))?);
    federation::show(demo, address, nodes, &mut psql).await?;
    if demo.once {
        return Ok(());
    }
    println!("The server and its nodes are running. Connect with:\n");
    println!("  psql -h {} -p {} -U postgres tidemill", address.ip(), address.port());
    println!("  {}      (a node)\n", nodes.command(TURBINES[0]));
    println!(
        "Ctrl-C ends them. The data stays in {}, only the nodes are made anew; remove that folder to start afresh.",
        demo.data_dir.display()
    );
    std::future::pending().await
}
