//! Tidemill: one binary that speaks the PostgreSQL protocol. This file is the command line only.

mod demo;

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use tidemill_server::server::{Config, Listener, Server};
use tidemill_server::settings::{self, DEFAULT_FILE, Settings};
use tokio::signal::unix::{Signal, SignalKind, signal};

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
    /// Play the data of four real wind turbines through a stream into continuous views, then put it into four databases
    /// and read them as one, and go on serving.
    Demo(demo::Demo),
    /// Measure a database, this one or another: suites, pgbench scripts, rates and limits, comparisons.
    Bench(Box<tidemill_bench::Arguments>),
    /// Print a configuration file with every setting, its meaning and its default.
    Config,
}

#[derive(clap::Args)]
struct Serve {
    /// Where everything is kept; made if it does not exist.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Addresses and ports to listen on, repeated or separated by commas [default: 127.0.0.1:7432].
    ///
    /// Nothing beyond loopback is listened on unless this, or the configuration file, says so. There is always a Unix
    /// socket in the data directory, for the system user that runs the server.
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',')]
    listen: Vec<String>,
    /// Addresses and ports for GET /metrics (Prometheus) and GET /health, which ask no password; nowhere unless this, or the
    /// configuration file, says so.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics_listen: Option<String>,
    /// Settings; `tidemill config` prints a file of all of them with their meanings and defaults.
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
    let arguments = match tidemill_bench::parse::<Arguments>() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let done = match arguments.command {
        Command::Serve(serve) => run(serve),
        Command::Demo(demo) => {
            start_log("info");
            runtime().and_then(|r| r.block_on(demo::run(demo)))
        }
        Command::Bench(bench) => return tidemill_bench::main(*bench),
        Command::Config => print(DEFAULT_FILE),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("tidemill: {message}");
            ExitCode::FAILURE
        }
    }
}

/// `TIDEMILL_LOG` says more precisely what is logged, per module.
fn start_log(level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("TIDEMILL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        .init();
}

fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(|e| e.to_string()),
    }
}

fn run(serve: Serve) -> Result<(), String> {
    let overrides: Vec<_> =
        serve.metrics_listen.iter().map(|text| ("metrics_listen", text.as_str())).collect();
    let settings = Settings::load(serve.config.as_deref(), &overrides).map_err(|e| e.to_string())?;
    start_log(log_level(&settings.log_min_messages()));
    for notice in settings.notices() {
        tracing::warn!("{}", notice.body.message);
    }
    let password = serve.superuser_password_file.as_deref().map(first_line).transpose()?;
    let data_dir = serve
        .data_dir
        .or_else(|| settings.data_directory())
        .ok_or("say where the data is: --data-dir DIR, or data_directory in the configuration file")?;
    let config =
        Config { data_dir, password, trust_loopback: serve.trust_loopback, settings: Arc::new(settings) };
    runtime()?.block_on(serve_until_signal(config, &serve.listen))
}

fn first_line(path: &Path) -> Result<String, String> {
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("could not read {}: {e}", path.display()))?;
    let first = text.lines().next().filter(|line| !line.is_empty());
    first.map(str::to_owned).ok_or_else(|| format!("{} has no password in its first line", path.display()))
}

/// PostgreSQL's message levels in the terms of the log.
fn log_level(min_messages: &str) -> &'static str {
    match min_messages {
        "debug5" | "debug4" | "debug3" => "trace",
        "debug2" | "debug1" | "debug" => "debug",
        "warning" => "warn",
        "error" | "log" | "fatal" | "panic" => "error",
        _ => "info",
    }
}

/// What a process of PostgreSQL has by default: nested queries are planned by recursion. Only what is touched is memory.
const THREAD_STACK_BYTES: usize = 8 << 20;
/// Threads that sessions run on, at least.
const WORKERS_MIN: usize = 2;

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    // One of them may wait for the disk: the session that commits a group.
    let workers =
        std::thread::available_parallelism().map_or(WORKERS_MIN, |cores| cores.get().max(WORKERS_MIN));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .thread_stack_size(THREAD_STACK_BYTES)
        .build()
        .map_err(|e| e.to_string())
}

async fn serve_until_signal(config: Config, listen: &[String]) -> Result<(), String> {
    let addresses = addresses(&config.settings, listen).await?;
    let for_metrics = resolve(&config.settings.metrics_listen(), "127.0.0.1:9187").await?;
    let (server, password) = Server::open(config).await.map_err(|e| one_line(&e))?;
    // Before anybody is told that the server is there.
    let signals = Signals::new().map_err(|e| e.to_string())?;
    let listeners = server.listen(&addresses).await.map_err(|e| one_line(&e))?;
    let metrics = server.serve_metrics(&for_metrics).await.map_err(|e| one_line(&e))?;
    let bound: Vec<SocketAddr> = listeners.iter().filter_map(Listener::address).collect();
    if let Some(password) = password {
        eprintln!(
            "The password of the user \"postgres\" is {password} (shown once; it is kept as a verifier only)."
        );
    }
    for address in &metrics.addresses {
        tracing::info!(%address, "ready for GET /metrics and GET /health");
    }
    for address in &bound {
        tracing::info!(%address, "ready for connections");
    }
    if let Some(address) = bound.first() {
        eprintln!("Connect with: psql -h {} -p {} -U postgres tidemill", address.ip(), address.port());
    }
    let signals = tokio::spawn(signals.stop(Arc::clone(&server)));
    let served = server.serve(listeners).await.map_err(|e| one_line(&e));
    signals.abort();
    served?;
    match server.failure() {
        Some(cause) => Err(cause),
        None => Ok(()),
    }
}

/// The addresses of the command line, or else those of the settings.
async fn addresses(settings: &Settings, listen: &[String]) -> Result<Vec<SocketAddr>, String> {
    let mut wanted: Vec<String> = listen.to_vec();
    if wanted.is_empty() {
        let port = settings.port();
        let place = |host: String| match host.as_str() {
            "localhost" => format!("127.0.0.1:{port}"),
            "*" => format!("0.0.0.0:{port}"),
            host if host.contains(':') => format!("[{host}]:{port}"),
            host => format!("{host}:{port}"),
        };
        wanted = settings.listen_addresses().into_iter().map(place).collect();
    }
    resolve(&wanted, "127.0.0.1:7432").await
}

async fn resolve(wanted: &[String], example: &str) -> Result<Vec<SocketAddr>, String> {
    let mut found = Vec::new();
    for text in wanted {
        let all = tokio::net::lookup_host(text)
            .await
            .map_err(|e| format!("\"{text}\" is not an address to listen on: {e} (for example {example})"))?;
        found.extend(all);
    }
    Ok(found)
}

fn one_line(error: &tidemill_server::SqlError) -> String {
    match &error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message.clone(),
    }
}

/// SIGTERM and Ctrl-C; and SIGHUP, which ends nothing.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reload: Signal,
}

impl Signals {
    /// From here on they no longer end the process by themselves.
    fn new() -> std::io::Result<Self> {
        let [terminate, interrupt, reload] =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
        Ok(Self { terminate: terminate?, interrupt: interrupt?, reload: reload? })
    }

    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.reload.recv() => drop(settings::reload()),
            }
        }
    }

    /// The first one ends the sessions and writes a checkpoint; a second one ends the process at once, which loses
    /// nothing: the next start replays the log.
    async fn stop(mut self, server: Arc<Server>) {
        for is_first in [true, false] {
            self.next().await;
            if is_first {
                tracing::info!("shutting down; a second signal ends it at once");
                server.stop();
            }
        }
        tracing::warn!("ended at once; the next start replays the log");
        std::process::exit(1);
    }
}
