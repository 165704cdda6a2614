//! The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), with verifiers and messages as PostgreSQL has them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, Mac};
use rand::CryptoRng;
use sha2::{Digest, Sha256};
use tidemill_sql::{SqlError, SqlState};

use super::body::{Body, Text};

/// The only mechanism that is offered: channel binding needs TLS.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// As PostgreSQL's `SCRAM_DEFAULT_ITERATIONS`; RFC 7677 asks for at least this many.
const ITERATIONS: u32 = 4096;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;

type Key = [u8; 32];

/// What is kept of a password: enough to check a client that knows it, not enough to be one.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

/// One authentication, from the client's first message to the verdict.
pub struct Exchange {
    verifier: Verifier,
    /// The user does not exist or has no verifier: go through all steps, then refuse.
    doomed: bool,
    server_nonce: String,
    first: Option<FirstRound>,
}

/// What of the first two messages the last one is checked against.
struct FirstRound {
    /// `biws` for the flag `n`, `eSws` for `y`: the header again, in base64.
    channel_binding: &'static str,
    client_first_bare: String,
    server_first: String,
    nonce: String,
}

/// SASLInitialResponse: the mechanism the client chose and its first data.
#[derive(Debug, Clone)]
pub struct InitialResponse {
    pub mechanism: Text,
    pub data: Option<Bytes>,
}

/// How an exchange that was well-formed ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The client knows the password; this goes into AuthenticationSASLFinal.
    Accepted(Vec<u8>),
    /// To be reported as `password authentication failed for user "…"` (28P01).
    Refused,
}

impl Verifier {
    /// A verifier with a fresh salt.
    pub fn new(password: &str, random: &mut impl CryptoRng) -> Self {
        let mut salt = [0; SALT_BYTES];
        random.fill_bytes(&mut salt);
        Self::with_salt(password, &salt, ITERATIONS)
    }

    fn with_salt(password: &str, salt: &[u8], iterations: u32) -> Self {
        let salted = salt_password(password, salt, iterations);
        let client_key = hmac(&salted, &[b"Client Key"]);
        let server_key = hmac(&salted, &[b"Server Key"]);
        Self { iterations, salt: salt.to_vec(), stored_key: Sha256::digest(client_key).into(), server_key }
    }

    /// A verifier for a user that there is none for: the same user always gets the same salt, as a real one
    /// would, and only `secret`, which the server keeps for ever, would tell that it is made up.
    fn mock(user: &str, secret: &[u8]) -> Self {
        let salt = Sha256::new().chain_update(user).chain_update(secret).finalize();
        Self {
            iterations: ITERATIONS,
            salt: salt[..SALT_BYTES].to_vec(),
            stored_key: [0; 32],
            server_key: [0; 32],
        }
    }

    /// Whether this is the password, for a client that sends it in clear over a local connection.
    pub fn accepts(&self, password: &str) -> bool {
        let salted = salt_password(password, &self.salt, self.iterations);
        same(&hmac(&salted, &[b"Server Key"]), &self.server_key)
    }
}

/// PostgreSQL's form, `SCRAM-SHA-256$4096:salt$stored:server`.
impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        write!(f, "{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
}

impl FromStr for Verifier {
    type Err = SqlError;

    fn from_str(text: &str) -> Result<Self, SqlError> {
        parse_verifier(text).ok_or_else(|| {
            SqlError::new(SqlState::DATA_CORRUPTED, "invalid SCRAM verifier")
                .with_hint("A verifier looks like \"SCRAM-SHA-256$4096:salt$stored:server\".")
        })
    }
}

fn parse_verifier(text: &str) -> Option<Verifier> {
    let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
    let (head, keys) = rest.split_once('$')?;
    let (iterations, salt) = head.split_once(':')?;
    let (stored, server) = keys.split_once(':')?;
    let key = |text: &str| Key::try_from(BASE64.decode(text).ok()?).ok();
    Some(Verifier {
        iterations: iterations.parse().ok().filter(|count| *count > 0)?,
        salt: BASE64.decode(salt).ok().filter(|salt| !salt.is_empty())?,
        stored_key: key(stored)?,
        server_key: key(server)?,
    })
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(redacted)")
    }
}

impl InitialResponse {
    pub fn decode(body: Bytes) -> Result<Self, SqlError> {
        let mut body = Body(body);
        let mechanism = body.text()?;
        let length = body.u32()?;
        let data = if length == u32::MAX { None } else { Some(body.take(length as usize)?) };
        body.end()?;
        Ok(Self { mechanism, data })
    }
}

impl Exchange {
    /// Starts for `user`. Without a verifier the exchange looks the same and ends in [`Verdict::Refused`];
    /// `mock_secret` is random, the same at every start of the server and known to nobody else.
    pub fn new(
        user: &str,
        verifier: Option<&Verifier>,
        mock_secret: &[u8],
        random: &mut impl CryptoRng,
    ) -> Self {
        let mut nonce = [0; NONCE_BYTES];
        random.fill_bytes(&mut nonce);
        // Made up for users who exist as well, so that it takes as long for them.
        let mock = Verifier::mock(user, mock_secret);
        Self {
            doomed: verifier.is_none(),
            verifier: verifier.cloned().unwrap_or(mock),
            server_nonce: BASE64.encode(nonce),
            first: None,
        }
    }

    /// Takes client-first-message and gives server-first-message, for AuthenticationSASLContinue.
    pub fn first(&mut self, response: &InitialResponse) -> Result<Vec<u8>, SqlError> {
        if response.mechanism.as_str() != MECHANISM {
            return Err(violation("client selected an invalid SASL authentication mechanism"));
        }
        let text = message_text(response.data.as_deref().unwrap_or_default())?;
        let (channel_binding, bare) = read_header(text)?;
        let mut attributes = Attributes { rest: bare };
        if bare.starts_with('m') {
            return Err(SqlError::unsupported("client requires an unsupported SCRAM extension"));
        }
        // The name is the one of the start-up packet; what the client repeats here is ignored, as in
        // PostgreSQL.
        attributes.value('n')?;
        let client_nonce = attributes.value('r')?;
        if !client_nonce.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) || client_nonce.is_empty() {
            return Err(violation("non-printable characters in SCRAM nonce"));
        }
        while !attributes.rest.is_empty() {
            attributes.any()?;
        }
        let nonce = format!("{client_nonce}{}", self.server_nonce);
        let salt = BASE64.encode(&self.verifier.salt);
        let server_first = format!("r={nonce},s={salt},i={}", self.verifier.iterations);
        let reply = server_first.clone().into_bytes();
        self.first =
            Some(FirstRound { channel_binding, client_first_bare: bare.to_owned(), server_first, nonce });
        Ok(reply)
    }

    /// Takes client-final-message, the body of a SASLResponse, and decides.
    pub fn last(self, data: &[u8]) -> Result<Verdict, SqlError> {
        let Some(first) = &self.first else {
            return Err(violation("SASL response without an initial response"));
        };
        let text = message_text(data)?;
        let mut attributes = Attributes { rest: text };
        if attributes.value('c')? != first.channel_binding {
            return Err(violation("unexpected SCRAM channel-binding attribute in client-final-message"));
        }
        let nonce = attributes.value('r')?;
        let (without_proof, proof) = read_proof(text, attributes)?;
        if nonce != first.nonce {
            return Err(violation("invalid SCRAM response").with_detail("Nonce does not match."));
        }
        let auth_message: [&[u8]; 5] = [
            first.client_first_bare.as_bytes(),
            b",",
            first.server_first.as_bytes(),
            b",",
            without_proof.as_bytes(),
        ];
        let signature = hmac(&self.verifier.stored_key, &auth_message);
        let client_key: Key = std::array::from_fn(|index| proof[index] ^ signature[index]);
        let known = same(&Sha256::digest(client_key).into(), &self.verifier.stored_key);
        let answer = BASE64.encode(hmac(&self.verifier.server_key, &auth_message));
        // `&` rather than `&&`: both sides are always looked at.
        Ok(if known & !self.doomed {
            Verdict::Accepted(format!("v={answer}").into_bytes())
        } else {
            Verdict::Refused
        })
    }
}

/// The GS2 header `n,,` or `y,,`; returns what `c=` must repeat, and client-first-message-bare.
fn read_header(text: &str) -> Result<(&'static str, &str), SqlError> {
    let (flag, rest) = split_first(text);
    let channel_binding = match flag {
        'n' => "biws",
        // The client could, but believes that the server can't, which is so.
        'y' => "eSws",
        'p' => {
            return Err(malformed(
                "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel \
                 binding data.",
            ));
        }
        other => {
            return Err(malformed(format!("Unexpected channel-binding flag \"{}\".", shown(other))));
        }
    };
    let Some(rest) = rest.strip_prefix(',') else {
        let found = shown(split_first(rest).0);
        return Err(malformed(format!("Comma expected, but found character \"{found}\".")));
    };
    if rest.starts_with('a') {
        return Err(SqlError::unsupported("client uses authorization identity, but it is not supported"));
    }
    let Some(bare) = rest.strip_prefix(',') else {
        let found = shown(split_first(rest).0);
        return Err(malformed(format!("Unexpected attribute \"{found}\" in client-first-message.")));
    };
    Ok((channel_binding, bare))
}

/// Reads on to the proof, which is last; returns the message up to it, and the proof.
fn read_proof<'a>(text: &'a str, mut attributes: Attributes<'a>) -> Result<(&'a str, Key), SqlError> {
    loop {
        let at = text.len() - attributes.rest.len();
        let (name, value) = attributes.any()?;
        if name != 'p' {
            continue;
        }
        if !attributes.rest.is_empty() {
            return Err(malformed("Garbage found at the end of client-final-message."));
        }
        let proof = BASE64.decode(value).ok().and_then(|proof| Key::try_from(proof).ok());
        let proof = proof.ok_or_else(|| malformed("Malformed proof in client-final-message."))?;
        return Ok((text[..at].trim_end_matches(','), proof));
    }
}

/// Attributes of the form `x=value`, separated by commas.
struct Attributes<'a> {
    rest: &'a str,
}

impl<'a> Attributes<'a> {
    fn any(&mut self) -> Result<(char, &'a str), SqlError> {
        let (name, rest) = split_first(self.rest);
        if !name.is_ascii_alphabetic() {
            return Err(malformed(format!(
                "Attribute expected, but found invalid character \"{}\".",
                shown(name)
            )));
        }
        let Some(rest) = rest.strip_prefix('=') else {
            return Err(malformed(format!("Expected character \"=\" for attribute \"{name}\".")));
        };
        let (value, rest) = rest.split_once(',').unwrap_or((rest, ""));
        self.rest = rest;
        Ok((name, value))
    }

    fn value(&mut self, expected: char) -> Result<&'a str, SqlError> {
        let (found, _) = split_first(self.rest);
        if found != expected {
            let found = shown(found);
            return Err(malformed(format!("Expected attribute \"{expected}\" but found \"{found}\".")));
        }
        Ok(self.any()?.1)
    }
}

fn message_text(data: &[u8]) -> Result<&str, SqlError> {
    if data.is_empty() {
        return Err(malformed("The message is empty."));
    }
    if data.contains(&0) {
        return Err(malformed("Message length does not match input length."));
    }
    std::str::from_utf8(data).map_err(|_| malformed("The message is not valid UTF-8."))
}

/// The first character, a zero at the end, and what follows.
fn split_first(text: &str) -> (char, &str) {
    let mut characters = text.chars();
    let first = characters.next().unwrap_or('\0');
    (first, characters.as_str())
}

fn shown(character: char) -> String {
    if character.is_ascii_graphic() {
        character.to_string()
    } else {
        format!("0x{:02x}", u32::from(character))
    }
}

fn malformed(detail: impl Into<String>) -> SqlError {
    violation("malformed SCRAM message").with_detail(detail)
}

fn violation(message: &str) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

fn salt_password(password: &str, salt: &[u8], iterations: u32) -> Key {
    let prepared = saslprep(password);
    pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(prepared.as_bytes(), salt, iterations)
}

/// As in PostgreSQL, a password with characters that SASLprep (RFC 4013) does not allow is taken as it is.
fn saslprep(password: &str) -> Cow<'_, str> {
    match stringprep::saslprep(password) {
        Ok(prepared) if !prepared.is_empty() => prepared,
        _ => Cow::Borrowed(password),
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Compares without telling by its time where the difference is.
fn same(left: &Key, right: &Key) -> bool {
    left.iter().zip(right).fold(0, |difference, (left, right)| difference | (left ^ right)) == 0
}

#[cfg(test)]
#[path = "scram_tests.rs"]
mod tests;
