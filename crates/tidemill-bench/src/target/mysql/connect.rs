//! The start of a session: greeting, password, until the server says OK.

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use super::MySql;
use super::wire::{Fields, broken, receive, send, server_error};
use crate::error::{Error, Result};
use crate::target::channel::Channel;

mod flag {
    pub const LONG_PASSWORD: u32 = 1;
    /// UPDATE counts the rows that it found, as other databases do, not those that it changed.
    pub const FOUND_ROWS: u32 = 2;
    pub const LONG_FLAG: u32 = 4;
    pub const CONNECT_WITH_DB: u32 = 8;
    pub const PROTOCOL_41: u32 = 0x200;
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

struct Greeting {
    nonce: Vec<u8>,
    plugin: String,
}

pub(super) fn start(target: &MySql, channel: &mut Channel) -> Result<()> {
    let mut packet = Vec::new();
    let mut sequence = receive(channel, &mut packet)?;
    let mut greeting = greeting(&packet)?;
    let answer = answer(&greeting.plugin, &target.password, &greeting.nonce, target)?;
    send(&mut channel.out, sequence.wrapping_add(1), &login(target, &greeting.plugin, &answer));
    channel.flush()?;
    loop {
        sequence = receive(channel, &mut packet)?;
        match packet.first() {
            Some(0x00) => return Ok(()),
            Some(0xff) => return Err(server_error(&packet)),
            Some(0xfe) => {
                let mut fields = Fields(&packet[1..]);
                greeting.plugin = String::from_utf8_lossy(fields.until_zero()).into_owned();
                greeting.nonce = fields.0.iter().copied().take(NONCE_BYTES).collect();
                let answer = self::answer(&greeting.plugin, &target.password, &greeting.nonce, target)?;
                send(&mut channel.out, sequence.wrapping_add(1), &answer);
                channel.flush()?;
            }
            Some(0x01) => more(target, channel, sequence, &packet[1..])?,
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
    fields.bytes(4)?;
    let mut nonce = fields.bytes(8)?.to_vec();
    // A filler, capabilities, character set, status, more capabilities, the nonce's length, and ten reserved.
    fields.bytes(1 + 2 + 1 + 2 + 2 + 1 + 10)?;
    nonce.extend(fields.bytes(NONCE_BYTES - 8)?);
    fields.bytes(1)?;
    let plugin = String::from_utf8_lossy(fields.until_zero()).into_owned();
    Ok(Greeting {
        nonce,
        plugin: if plugin.is_empty() { "mysql_native_password".to_owned() } else { plugin },
    })
}

fn login(target: &MySql, plugin: &str, answer: &[u8]) -> Vec<u8> {
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
    if !target.database.is_empty() {
        flags |= flag::CONNECT_WITH_DB;
    }
    let mut body = flags.to_le_bytes().to_vec();
    body.extend_from_slice(&(1u32 << 30).to_le_bytes());
    body.push(CHARACTER_SET);
    body.extend_from_slice(&[0; 23]);
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
    body
}

/// What proves the password to a plugin.
fn answer(plugin: &str, password: &str, nonce: &[u8], target: &MySql) -> Result<Vec<u8>> {
    let password = password.as_bytes();
    Ok(match plugin {
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
        "mysql_clear_password" if target.url.option("socket").is_some() => [password, &[0]].concat(),
        other => {
            return Err(Error::Unsupported(format!(
                "the account \"{}\" uses the authentication \"{other}\" (mysql_native_password, caching_sha2_password \
                 and unix_socket are there)",
                target.user
            )));
        }
    })
}

/// caching_sha2_password: 3 is success, 4 asks for the password itself, which only a socket of this machine may carry.
fn more(target: &MySql, channel: &mut Channel, sequence: u8, body: &[u8]) -> Result<()> {
    match body {
        [3] => Ok(()),
        [4] if target.url.option("socket").is_some() => {
            send(&mut channel.out, sequence.wrapping_add(1), &[target.password.as_bytes(), &[0]].concat());
            channel.flush()
        }
        _ => Err(Error::Unsupported(format!(
            "the server wants the password of \"{}\" over TLS, which is not spoken here; log in once with another \
             client, so that the server remembers it, or use ?socket=PATH",
            target.user
        ))),
    }
}

fn xor(left: &[u8], right: &[u8]) -> Vec<u8> {
    left.iter().zip(right).map(|(a, b)| a ^ b).collect()
}
