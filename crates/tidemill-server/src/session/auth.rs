//! Start-up of a connection: encryption requests, authentication, the first ReadyForQuery.

use std::time::Duration;

use tidemill_sql::{SqlError, SqlState};

use crate::pg::backend;
use crate::pg::scram::{Exchange, InitialResponse, MECHANISM, Verdict};
use crate::pg::startup::{SessionRequest, Startup};
use crate::pg::wire_error::ProtocolError;
use crate::server::{Peer, Server};
use crate::session::wire::{Closed, Wire};

/// The one database and its other names.
pub const DATABASES: [&str; 3] = ["tidemill", "postgres", "pipeline"];
pub const SUPERUSER: &str = "postgres";

/// What a connection turned out to be.
pub enum Opened {
    Session(SessionRequest),
    /// A cancel request, already carried out.
    Cancel,
}

/// Reads start-up packets until there is a session request that may come in.
pub async fn open(server: &Server, wire: &mut Wire, peer: Peer) -> Result<Opened, Closed> {
    let request = loop {
        match wire.receive_startup().await? {
            Err(error) => return Err(refuse(wire, error).await),
            Ok(Startup::SslRequest | Startup::GssEncRequest) => {
                if wire.has_unread() {
                    let error = SqlError::new(
                        SqlState::PROTOCOL_VIOLATION,
                        "received unencrypted data after an encryption request",
                    );
                    return Err(refuse(wire, ProtocolError::fatal(error)).await);
                }
                wire.send_byte(b'N').await?;
            }
            Ok(Startup::Cancel { process_id, secret_key }) => {
                server.sessions.cancel_request(process_id, &secret_key);
                return Ok(Opened::Cancel);
            }
            Ok(Startup::Session(request)) => break request,
        }
    };
    if let Some(unknown) = &request.negotiation {
        backend::negotiate_protocol_version(&mut wire.out, request.minor, unknown);
    }
    if let Err(error) = authenticate(server, wire, peer, &request).await? {
        return Err(refuse(wire, ProtocolError::fatal(error)).await);
    }
    if !DATABASES.contains(&request.database.as_str()) {
        let error = SqlError::new(
            SqlState::INVALID_CATALOG_NAME,
            format!("database \"{}\" does not exist", request.database),
        )
        .with_hint(
            "There is one database, \"tidemill\"; \"postgres\" and \"pipeline\" are other names of it.",
        );
        return Err(refuse(wire, ProtocolError::fatal(error)).await);
    }
    backend::authentication_ok(&mut wire.out);
    Ok(Opened::Session(request))
}

/// How long a client that reads nothing may keep its session from ending.
const REASON_MAX: Duration = Duration::from_secs(1);

/// Sends the reason and ends the connection.
pub async fn refuse(wire: &mut Wire, error: ProtocolError) -> Closed {
    backend::protocol_error(&mut wire.out, &error);
    match tokio::time::timeout(REASON_MAX, wire.flush()).await {
        Ok(Err(closed)) => closed,
        Ok(Ok(())) | Err(_) => Closed::Refused(error.error.into_report().message),
    }
}

async fn authenticate(
    server: &Server,
    wire: &mut Wire,
    peer: Peer,
    request: &SessionRequest,
) -> Result<Result<(), SqlError>, Closed> {
    let user = request.user.as_str();
    let trusted = match peer {
        // The kernel vouches for the other end of a Unix socket.
        Peer::Unix { uid } => uid == server.uid(),
        Peer::Loopback => server.trusts_loopback(),
        Peer::Network => false,
    };
    if trusted {
        if user == SUPERUSER || matches!(peer, Peer::Unix { .. }) {
            return Ok(Ok(()));
        }
        return Ok(Err(SqlError::new(
            SqlState::INVALID_AUTHORIZATION,
            format!("role \"{user}\" does not exist"),
        )
        .with_hint("There is one user, \"postgres\".")));
    }
    scram(server, wire, user).await
}

async fn scram(server: &Server, wire: &mut Wire, user: &str) -> Result<Result<(), SqlError>, Closed> {
    let refused = || {
        SqlError::new(
            SqlState::INVALID_PASSWORD,
            format!("password authentication failed for user \"{user}\""),
        )
    };
    backend::authentication_sasl(&mut wire.out, &[MECHANISM]);
    let body = match wire.receive_password().await? {
        Ok(body) => body,
        Err(error) => return Ok(Err(error.error)),
    };
    let verifier = server.verifier();
    let verifier = (user == SUPERUSER).then_some(verifier.as_ref());
    let mut exchange = Exchange::new(user, verifier, server.mock_secret(), &mut rand::rng());
    let reply = match InitialResponse::decode(body).and_then(|first| exchange.first(&first)) {
        Ok(reply) => reply,
        Err(error) => return Ok(Err(error)),
    };
    backend::authentication_sasl_continue(&mut wire.out, &reply);
    let body = match wire.receive_password().await? {
        Ok(body) => body,
        Err(error) => return Ok(Err(error.error)),
    };
    match exchange.last(&body) {
        Ok(Verdict::Accepted(last)) => {
            backend::authentication_sasl_final(&mut wire.out, &last);
            Ok(Ok(()))
        }
        Ok(Verdict::Refused) => Ok(Err(refused())),
        Err(error) => Ok(Err(error)),
    }
}
