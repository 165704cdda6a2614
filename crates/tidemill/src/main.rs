//! Tidemill: one binary that speaks the PostgreSQL protocol. This file is the command line only.

mod demo;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use tidemill_server::server::{Config, Server};
use tidemill_server::settings::Settings;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Streams and continuous views behind the PostgreSQL protocol.
///
/// Start a server, connect with psql, CREATE CONTINUOUS VIEW over a stream, INSERT events: the view is always up to
/// date, and only its aggregates are kept.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a server until Ctrl-C or SIGTERM.
    ///
    /// At the first start on an empty directory a password for the user "postgres" is made up and shown once.
    Serve(Serve),
    /// Play the data of four real wind turbines through a stream into continuous views, show what the views say, and
    /// go on serving.
    Demo(demo::Demo),
}

#[derive(clap::Args)]
struct Serve {
    /// Where everything is kept; made if it does not exist.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Address and port to listen on; nothing beyond loopback unless this says so.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7432")]
    listen: SocketAddr,
    /// Settings; `tidemill` has every one with its default and meaning compiled in, see SHOW ALL.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set the superuser's password to the first line of this file.
    #[arg(long, value_name = "FILE")]
    superuser_password_file: Option<PathBuf>,
    /// Ask no password from connections over loopback: for scratch servers and tests.
    #[arg(long)]
    trust_loopback: bool,
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("TIDEMILL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let done = match Arguments::parse().command {
        Command::Serve(serve) => run(serve),
        Command::Demo(demo) => runtime().and_then(|r| r.block_on(demo::run(demo))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("tidemill: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(serve: Serve) -> Result<(), String> {
    let password = match &serve.superuser_password_file {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|e| format!("could not read {}: {e}", path.display()))?;
            let first = text.lines().next().filter(|line| !line.is_empty());
            Some(
                first
                    .ok_or_else(|| format!("{} has no password in its first line", path.display()))?
                    .to_string(),
            )
        }
    };
    let settings = Settings::load(serve.config.as_deref(), &[]).map_err(|e| e.to_string())?;
    let config = Config {
        data_dir: serve.data_dir,
        listen: serve.listen,
        password,
        trust_loopback: serve.trust_loopback,
        settings: Arc::new(settings),
    };
    runtime()?.block_on(serve_until_signal(config))
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| e.to_string())
}

async fn serve_until_signal(config: Config) -> Result<(), String> {
    use tokio::signal::unix::{SignalKind, signal};
    let (server, password) = Server::open(config).await.map_err(|e| e.to_string())?;
    let listener = server.bind().await.map_err(|e| e.to_string())?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    if let Some(password) = password {
        eprintln!(
            "The password of the user \"postgres\" is {password} (shown once; it is kept as a verifier only)."
        );
    }
    tracing::info!(%address, "ready for connections");
    eprintln!("Connect with: psql -h {} -p {} -U postgres tidemill", address.ip(), address.port());
    let mut terminate = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    let stopper = Arc::clone(&server);
    let signals = tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            result = tokio::signal::ctrl_c() => {
                if let Err(error) = result {
                    tracing::warn!(%error, "can't wait for Ctrl-C");
                }
            }
        }
        stopper.stop();
    });
    let served = server.serve(listener).await.map_err(|e| e.to_string());
    signals.abort();
    served
}
