//! The start of a session: greeting, password, until the server says OK.

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use super::MySql;
use super::rsa::{PublicKey, xor};
use super::wire::{Fields, broken, receive, send, server_error};
use crate::error::{Error, Result};
use crate::target::channel::Channel;
use crate::target::tls::Mode;

mod flag {
    pub const LONG_PASSWORD: u32 = 1;
    /// UPDATE counts the rows that it found, as other databases do, not those that it changed.
    pub const FOUND_ROWS: u32 = 2;
    pub const LONG_FLAG: u32 = 4;
    pub const CONNECT_WITH_DB: u32 = 8;
    pub const PROTOCOL_41: u32 = 0x200;
    pub const TLS: u32 = 0x800;
    pub const TRANSACTIONS: u32 = 0x2000;
    pub const SECURE_CONNECTION: u32 = 0x8000;
    pub const MULTI_STATEMENTS: u32 = 0x1_0000;
    pub const MULTI_RESULTS: u32 = 0x2_0000;
    pub const PS_MULTI_RESULTS: u32 = 0x4_0000;
    pub const PLUGIN_AUTH: u32 = 0x8_0000;
}

/// utf8mb4_general_ci.
const CHARACTER_SET: u8 = 45;
const NONCE_BYTES: usize = 20;

/// caching_sha2_password: the server has known the password.
const MORE_OK: u8 = 3;
/// It wants the password itself.
const MORE_PASSWORD: u8 = 4;
/// What it is asked for its public key by.
const WANT_KEY: u8 = 2;

struct Greeting {
    nonce: Vec<u8>,
    plugin: String,
    offers_tls: bool,
    /// Of the session.
    number: u64,
}

/// The number by which the server knows the session.
pub(super) fn start(target: &MySql, channel: &mut Channel) -> Result<u64> {
    let mut packet = Vec::new();
    let mut sequence = receive(channel, &mut packet)?;
    let mut greeting = greeting(&packet)?;
    let is_encrypted = wants_tls(target, &greeting)?;
    let mut login = login_head(target, is_encrypted);
    if is_encrypted {
        sequence = sequence.wrapping_add(1);
        send(&mut channel.out, sequence, &login);
        channel.flush()?;
        channel.encrypt(target.tls.client(target.host())?)?;
    }
    // What nobody else can read.
    let is_private = is_encrypted || target.url.option("socket").is_some();
    let answer = answer(&greeting, target, is_private)?;
    put_account(&mut login, target, &greeting.plugin, &answer);
    send(&mut channel.out, sequence.wrapping_add(1), &login);
    channel.flush()?;
    loop {
        sequence = receive(channel, &mut packet)?;
        match packet.first() {
            Some(0x00) => return Ok(greeting.number),
            Some(0xff) => return Err(server_error(&packet)),
            Some(0xfe) => {
                let mut fields = Fields(&packet[1..]);
                greeting.plugin = String::from_utf8_lossy(fields.until_zero()).into_owned();
                greeting.nonce = fields.0.iter().copied().take(NONCE_BYTES).collect();
                let answer = self::answer(&greeting, target, is_private)?;
                send(&mut channel.out, sequence.wrapping_add(1), &answer);
                channel.flush()?;
            }
            Some(0x01) if packet[1..] == [MORE_OK] => {}
            Some(0x01) if packet[1..] == [MORE_PASSWORD] => {
                send_password(target, channel, sequence, &greeting.nonce, is_private)?;
            }
            _ => return Err(broken("an answer to the password")),
        }
    }
}

fn greeting(packet: &[u8]) -> Result<Greeting> {
    if packet.first() == Some(&0xff) {
        return Err(server_error(packet));
    }
    let mut fields = Fields(packet);
    if fields.uint(1)? != 10 {
        return Err(broken("a greeting of another version"));
    }
    fields.until_zero();
    let number = fields.uint(4)?;
    let mut nonce = fields.bytes(8)?.to_vec();
    fields.bytes(1)?;
    let capabilities = fields.uint(2)? as u32;
    // Character set, status, more capabilities, the nonce's length, and ten reserved.
    fields.bytes(1 + 2 + 2 + 1 + 10)?;
    nonce.extend(fields.bytes(NONCE_BYTES - 8)?);
    fields.bytes(1)?;
    let plugin = String::from_utf8_lossy(fields.until_zero()).into_owned();
    Ok(Greeting {
        nonce,
        plugin: if plugin.is_empty() { "mysql_native_password".to_owned() } else { plugin },
        offers_tls: capabilities & flag::TLS != 0,
        number,
    })
}

fn wants_tls(target: &MySql, greeting: &Greeting) -> Result<bool> {
    match target.tls.mode {
        Mode::Require if !greeting.offers_tls => {
            Err(Error::Lost("the server does not offer TLS, and the URL requires it (sslmode)".to_owned()))
        }
        Mode::Require => Ok(true),
        Mode::Prefer => Ok(greeting.offers_tls && target.url.option("socket").is_none()),
        Mode::Disable => Ok(false),
    }
}

/// The head of the packet that logs in. Alone it asks for TLS, under which it comes again with the rest.
fn login_head(target: &MySql, is_encrypted: bool) -> Vec<u8> {
    let mut flags = flag::LONG_PASSWORD
        | flag::FOUND_ROWS
        | flag::LONG_FLAG
        | flag::PROTOCOL_41
        | flag::TRANSACTIONS
        | flag::SECURE_CONNECTION
        | flag::MULTI_STATEMENTS
        | flag::MULTI_RESULTS
        | flag::PS_MULTI_RESULTS
        | flag::PLUGIN_AUTH;
    flags |= if is_encrypted { flag::TLS } else { 0 };
    flags |= if target.database.is_empty() { 0 } else { flag::CONNECT_WITH_DB };
    let mut body = flags.to_le_bytes().to_vec();
    body.extend_from_slice(&(1u32 << 30).to_le_bytes());
    body.push(CHARACTER_SET);
    body.extend_from_slice(&[0; 23]);
    body
}

fn put_account(body: &mut Vec<u8>, target: &MySql, plugin: &str, answer: &[u8]) {
    body.extend_from_slice(target.user.as_bytes());
    body.push(0);
    body.push(answer.len() as u8);
    body.extend_from_slice(answer);
    if !target.database.is_empty() {
        body.extend_from_slice(target.database.as_bytes());
        body.push(0);
    }
    body.extend_from_slice(plugin.as_bytes());
    body.push(0);
}

/// What proves the password to a plugin.
fn answer(greeting: &Greeting, target: &MySql, is_private: bool) -> Result<Vec<u8>> {
    let (password, nonce) = (target.password.as_bytes(), &greeting.nonce[..]);
    Ok(match greeting.plugin.as_str() {
        // By the user of the other end of the socket.
        "unix_socket" | "auth_socket" => Vec::new(),
        "mysql_native_password" | "caching_sha2_password" if password.is_empty() => Vec::new(),
        "mysql_native_password" => {
            let once = Sha1::digest(password);
            let mask = [nonce, &Sha1::digest(once)].concat();
            xor(&once, &Sha1::digest(mask))
        }
        "caching_sha2_password" => {
            let once = Sha256::digest(password);
            let mask = [&Sha256::digest(Sha256::digest(once))[..], nonce].concat();
            xor(&once, &Sha256::digest(mask))
        }
        "mysql_clear_password" if is_private => [password, &[0]].concat(),
        other => {
            return Err(Error::Unsupported(format!(
                "the account \"{}\" uses the authentication \"{other}\" (mysql_native_password, caching_sha2_password \
                 and unix_socket are there)",
                target.user
            )));
        }
    })
}

/// Where nobody else can read it as it is, otherwise under the server's public key.
fn send_password(
    target: &MySql,
    channel: &mut Channel,
    mut sequence: u8,
    nonce: &[u8],
    is_private: bool,
) -> Result<()> {
    let mut password = [target.password.as_bytes(), &[0]].concat();
    if !is_private {
        send(&mut channel.out, sequence.wrapping_add(1), &[WANT_KEY]);
        channel.flush()?;
        let mut packet = Vec::new();
        sequence = receive(channel, &mut packet)?;
        match packet.first() {
            Some(0xff) => return Err(server_error(&packet)),
            Some(0x01) => password = PublicKey::read(&packet[1..])?.encrypt(&xor(&password, nonce))?,
            _ => return Err(broken("an answer to the question for its public key")),
        }
    }
    send(&mut channel.out, sequence.wrapping_add(1), &password);
    channel.flush()
}
