//! The background probe: each server is asked again and again whether it is there, so that no query has to find out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::TcpKeepalive;
use tidemill_sql::{SqlError, SqlState};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::server::Server;

/// What the operating system does on a connection that is silent: when it asks for the first time whether the other side is there, how often
/// from then on, and how many questions may stay without an answer. Together that is as long as a server has to answer a probe, by default.
pub const IDLE: Duration = Duration::from_secs(3);
pub const INTERVAL: Duration = Duration::from_secs(1);
pub const COUNT: u32 = 3;

pub fn of_socket() -> TcpKeepalive {
    TcpKeepalive::new().with_time(IDLE).with_interval(INTERVAL).with_retries(COUNT)
}

/// Probes servers for as long as it runs.
#[derive(Debug, Clone)]
pub struct Keepalive {
    /// From one probe of a server to the next.
    pub interval: Duration,
    /// A server that has not answered by then is down.
    pub timeout: Duration,
    /// Asks for probes before they are due.
    pub suspected: Arc<Notify>,
}

impl Keepalive {
    /// `servers` are those that there are at the moment. A probe that hangs keeps no other waiting.
    pub async fn run(self, servers: impl Fn() -> Vec<Arc<Server>>, user: &'static str) {
        let mut probes = JoinSet::new();
        loop {
            for server in servers() {
                if server.health().is_some() && server.begin_probe() {
                    probes.spawn(probe(server, self.timeout, user));
                }
            }
            while probes.try_join_next().is_some() {}
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                () = self.suspected.notified() => {}
            }
        }
    }
}

async fn probe(server: Arc<Server>, timeout: Duration, user: &str) {
    let Some(health) = server.health() else { return };
    let began = Instant::now();
    let found = match server.connector(user) {
        Ok(connector) => match tokio::time::timeout(timeout, connector.probe()).await {
            Ok(found) => found,
            Err(_) => Err(silent(&server.name, connector.address().as_deref(), timeout)),
        },
        Err(error) => Err(error),
    };
    health.note(began, found);
    server.end_probe();
}

fn silent(server: &str, address: Option<&str>, timeout: Duration) -> SqlError {
    let message = format!("could not connect to server \"{server}\"");
    let (address, timeout_ms) = (address.map_or(String::new(), |it| format!(" {it}")), timeout.as_millis());
    let detail =
        format!("connection to server{address} failed: no answer for {timeout_ms} ms: timeout expired");
    SqlError::new(SqlState::UNABLE_TO_ESTABLISH_CONNECTION, message).with_detail(detail)
}
