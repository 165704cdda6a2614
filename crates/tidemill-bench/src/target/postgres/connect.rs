//! The start of a session: parameters, password, until the server is ready.

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};

use super::Postgres;
use super::cancel::Key;
use super::wire::{Fields, broken, put_text, receive, send, server_error};
use crate::error::{Error, Result};
use crate::target::channel::{Channel, lost};
use crate::target::tls::Mode;

const PROTOCOL: u32 = 3 << 16;
/// Asks for TLS, in the place of a protocol's version.
const TLS_REQUEST: u32 = 80_877_103;

/// The key by which the session can be asked to give up what it does, where the server has that.
pub(super) fn start(target: &Postgres, channel: &mut Channel) -> Result<Option<Key>> {
    if target.tls.mode != Mode::Disable && !target.is_local() {
        encrypt(target, channel)?;
    }
    put_startup(target, &mut channel.out);
    channel.flush()?;
    let mut scram: Option<ScramSha256> = None;
    let mut key = None;
    loop {
        let message = receive(channel)?;
        match message.tag {
            b'R' => {
                let body = channel.bytes(message.body).to_vec();
                authenticate(target, channel, &mut scram, &body)?;
            }
            b'E' => return Err(server_error(channel.bytes(message.body))),
            b'Z' => return Ok(key),
            b'K' => key = Some(channel.bytes(message.body).to_vec()),
            b'S' | b'N' | b'v' => {}
            tag => {
                return Err(broken(&format!(
                    "message \"{}\" at the start",
                    char::from(tag).escape_default()
                )));
            }
        }
    }
}

/// The server answers with one byte, before anything else.
fn encrypt(target: &Postgres, channel: &mut Channel) -> Result<()> {
    channel.out.extend_from_slice(&8u32.to_be_bytes());
    channel.out.extend_from_slice(&TLS_REQUEST.to_be_bytes());
    channel.flush()?;
    match (channel.peek(1)?[0], target.tls.mode) {
        (b'S', _) => {
            channel.take(1)?;
            channel.encrypt(target.tls.client(&target.host)?)
        }
        (b'N', Mode::Require) => {
            Err(Error::Lost("the server does not offer TLS, and the URL requires it (sslmode)".to_owned()))
        }
        (b'N', _) => channel.take(1).map(drop),
        (tag, _) => Err(broken(&format!(
            "\"{}\" as an answer to a request for TLS",
            char::from(tag).escape_default()
        ))),
    }
}

fn put_startup(target: &Postgres, out: &mut Vec<u8>) {
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    let application = target.url.option("application_name").unwrap_or("tidemill bench");
    let mut parameters = vec![
        ("user", target.user.as_str()),
        ("database", &target.database),
        ("application_name", application),
        ("client_encoding", "UTF8"),
    ];
    parameters.extend(target.url.option("options").map(|options| ("options", options)));
    for (name, value) in parameters {
        put_text(&mut body, name);
        put_text(&mut body, value);
    }
    body.push(0);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(&body);
}

fn authenticate(
    target: &Postgres,
    channel: &mut Channel,
    scram: &mut Option<ScramSha256>,
    body: &[u8],
) -> Result<()> {
    let mut fields = Fields(body);
    let kind = fields.u32()?;
    if kind == 0 {
        return Ok(());
    }
    if kind == 12 {
        let exchange =
            scram.as_mut().ok_or_else(|| broken("the end of a SASL exchange that had no start"))?;
        return exchange.finish(fields.0).map_err(lost);
    }
    let password = target.password.as_deref().ok_or_else(|| {
        Error::Lost(format!(
            "the server asks for the password of \"{}\"; put it into the URL or into PGPASSWORD",
            target.user
        ))
    })?;
    match kind {
        3 => send(&mut channel.out, b'p', |out| put_text(out, password)),
        5 => {
            let salt = fields.bytes(4)?;
            let salt = [salt[0], salt[1], salt[2], salt[3]];
            let answer = md5_hash(target.user.as_bytes(), password.as_bytes(), salt);
            send(&mut channel.out, b'p', |out| put_text(out, &answer));
        }
        10 => {
            let mut offered = fields.0.split(|b| *b == 0);
            if !offered.any(|name| name == SCRAM_SHA_256.as_bytes()) {
                return Err(Error::Unsupported("the server offers no SCRAM-SHA-256".to_owned()));
            }
            let exchange = scram.insert(ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported()));
            send(&mut channel.out, b'p', |out| {
                put_text(out, SCRAM_SHA_256);
                out.extend_from_slice(&(exchange.message().len() as u32).to_be_bytes());
                out.extend_from_slice(exchange.message());
            });
        }
        11 => {
            let exchange = scram.as_mut().ok_or_else(|| broken("a SASL exchange that had no start"))?;
            exchange.update(fields.0).map_err(lost)?;
            send(&mut channel.out, b'p', |out| out.extend_from_slice(exchange.message()));
        }
        other => {
            return Err(Error::Unsupported(format!("the server asks for authentication of kind {other}")));
        }
    }
    channel.flush()
}
