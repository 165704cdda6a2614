//! The packets that open a connection: encryption requests, cancel requests and the start-up parameters.

use bytes::{Buf, Bytes, BytesMut};
use tidemill_sql::{SqlError, SqlState};

use super::body::{Body, Text};
use super::wire_error::ProtocolError;

/// PostgreSQL's `MAX_STARTUP_PACKET_LENGTH`.
const STARTUP_BYTES_MAX: usize = 10_000;
/// The newest minor version of protocol 3 that is spoken here; 3.2 has longer cancel keys than 3.0.
pub const PROTOCOL_MINOR_MAX: u16 = 2;
/// PostgreSQL's `NAMEDATALEN - 1`: longer user and database names are cut.
const NAME_BYTES_MAX: usize = 63;

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;

/// The first packet of a connection, or the one after a refused encryption request.
#[derive(Debug, Clone)]
pub enum Startup {
    /// To be answered by one byte, `N` for no; then the client sends another packet.
    SslRequest,
    /// As [`Startup::SslRequest`].
    GssEncRequest,
    /// To be carried out, or not, without an answer.
    Cancel {
        process_id: u32,
        secret_key: Bytes,
    },
    Session(SessionRequest),
}

/// What a client wants of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// The minor version to speak: what the client asked for, or the newest known one.
    pub minor: u16,
    /// The client must be sent NegotiateProtocolVersion: it asked for a newer minor version, or for these
    /// `_pq_.` options.
    pub negotiation: Option<Vec<String>>,
    pub user: String,
    pub database: String,
    /// Settings, in the order in which they apply: those of `options`, then those given as parameters.
    pub settings: Vec<(String, String)>,
}

/// Takes the next packet off the buffer; `None` until it is complete.
pub(super) fn decode(buffer: &mut BytesMut) -> Result<Option<Startup>, ProtocolError> {
    let Some(length) = buffer.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if !(8..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(ProtocolError::violation("invalid length of startup packet"));
    }
    if buffer.len() < length {
        return Ok(None);
    }
    let mut packet = Body(buffer.split_to(length).freeze());
    packet.0.advance(4);
    decode_packet(packet).map(Some).map_err(ProtocolError::fatal)
}

fn decode_packet(mut packet: Body) -> Result<Startup, SqlError> {
    match packet.u32()? {
        SSL_REQUEST => Ok(Startup::SslRequest),
        GSSENC_REQUEST => Ok(Startup::GssEncRequest),
        CANCEL_REQUEST => {
            let process_id = packet.u32()?;
            Ok(Startup::Cancel { process_id, secret_key: packet.0 })
        }
        version => decode_session(version, packet).map(Startup::Session),
    }
}

fn decode_session(version: u32, mut packet: Body) -> Result<SessionRequest, SqlError> {
    let (major, minor) = ((version >> 16) as u16, version as u16);
    if major != 3 {
        let message = format!(
            "unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.{PROTOCOL_MINOR_MAX}"
        );
        return Err(SqlError::unsupported(message));
    }
    let mut request = SessionRequest {
        minor: minor.min(PROTOCOL_MINOR_MAX),
        negotiation: None,
        user: String::new(),
        database: String::new(),
        settings: Vec::new(),
    };
    let mut options = Vec::new();
    let mut unknown = Vec::new();
    loop {
        let name = terminated(&mut packet)?;
        if name.is_empty() {
            break;
        }
        let value = terminated(&mut packet)?;
        match name.as_str() {
            "user" => request.user = cut_name(&value),
            "database" => request.database = cut_name(&value),
            "options" => options = parse_options(&value)?,
            "replication" => refuse_replication(&value)?,
            _ if name.starts_with("_pq_.") => unknown.push(name.to_string()),
            _ => request.settings.push((name.to_string(), value.to_string())),
        }
    }
    if !packet.0.is_empty() {
        return Err(not_terminated());
    }
    if request.user.is_empty() {
        let message = "no PostgreSQL user name specified in startup packet";
        return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, message));
    }
    if request.database.is_empty() {
        request.database.clone_from(&request.user);
    }
    if minor > PROTOCOL_MINOR_MAX || !unknown.is_empty() {
        request.negotiation = Some(unknown);
    }
    request.settings.splice(0..0, options);
    Ok(request)
}

fn terminated(packet: &mut Body) -> Result<Text, SqlError> {
    if packet.0.contains(&0) { packet.text() } else { Err(not_terminated()) }
}

fn not_terminated() -> SqlError {
    let message = "invalid startup packet layout: expected terminator as last byte";
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

fn cut_name(name: &str) -> String {
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

fn refuse_replication(value: &str) -> Result<(), SqlError> {
    match value.to_ascii_lowercase().as_str() {
        "false" | "off" | "no" | "0" => Ok(()),
        "true" | "on" | "yes" | "1" | "database" => {
            Err(SqlError::unsupported("replication is not supported"))
        }
        _ => {
            let message = format!("invalid value for parameter \"replication\": \"{value}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .with_hint("Valid values are: \"false\", 0, \"true\", 1, \"database\"."))
        }
    }
}

/// Reads command-line options as in libpq's `options`: `-c name=value` and `--name=value`, of which dashes in
/// the name are underscores. A backslash takes the next character, a space too, into the word.
pub fn parse_options(text: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut settings = Vec::new();
    let mut words = split_options(text).into_iter();
    while let Some(word) = words.next() {
        let (switch, assignment) = if let Some(long) = word.strip_prefix("--") {
            ("--", long.to_owned())
        } else if word == "-c" {
            ("-c ", words.next().unwrap_or_default())
        } else if let Some(rest) = word.strip_prefix("-c") {
            ("-c ", rest.to_owned())
        } else {
            let message = format!("invalid command-line argument for server process: {word}");
            let hint = "Give settings as \"-c name=value\" or \"--name=value\".";
            return Err(SqlError::syntax(message).with_hint(hint));
        };
        let Some((name, value)) = assignment.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(SqlError::syntax(format!("{switch}{assignment} requires a value")));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn split_options(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character.is_ascii_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match character {
            '\\' => word.extend(characters.next()),
            other => word.push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(version: u32, body: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(&(body.len() as u32 + 8).to_be_bytes());
        bytes.extend_from_slice(&version.to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn session(version: u32, body: &[u8]) -> Result<SessionRequest, ProtocolError> {
        match decode(&mut packet(version, body))?.unwrap() {
            Startup::Session(request) => Ok(request),
            other => panic!("{other:?}"),
        }
    }

    fn refusal(version: u32, body: &[u8]) -> (String, String) {
        let error = session(version, body).unwrap_err().error;
        (error.state.0.to_owned(), error.into_report().message)
    }

    const V3: u32 = 3 << 16;

    #[test]
    fn encryption_and_cancel_requests() {
        assert!(matches!(decode(&mut packet(SSL_REQUEST, b"")), Ok(Some(Startup::SslRequest))));
        assert!(matches!(decode(&mut packet(GSSENC_REQUEST, b"")), Ok(Some(Startup::GssEncRequest))));
        let cancel = decode(&mut packet(CANCEL_REQUEST, b"\0\0\0\x07abcd")).unwrap().unwrap();
        let Startup::Cancel { process_id: 7, secret_key } = cancel else { panic!("{cancel:?}") };
        assert_eq!(secret_key, "abcd");
    }

    #[test]
    fn nothing_is_taken_before_the_packet_is_whole() {
        let whole = packet(V3, b"user\0u\0\0");
        for end in 0..whole.len() {
            let mut part = BytesMut::from(&whole[..end]);
            assert!(decode(&mut part).unwrap().is_none());
            assert_eq!(part.len(), end);
        }
    }

    #[test]
    fn parameters_and_options_in_the_order_in_which_they_apply() {
        let body = b"user\0jo\0application_name\0psql\0options\0-c a=b\\ c  --work-mem=1MB -cx.y=\0client_encoding\0UTF8\0\0";
        let request = session(V3, body).unwrap();
        assert_eq!((request.user.as_str(), request.database.as_str(), request.minor), ("jo", "jo", 0));
        assert_eq!(request.negotiation, None);
        let settings: Vec<_> = request.settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let expected = [
            ("a", "b c"),
            ("work_mem", "1MB"),
            ("x.y", ""),
            ("application_name", "psql"),
            ("client_encoding", "UTF8"),
        ];
        assert_eq!(settings, expected);
    }

    #[test]
    fn versions_are_negotiated() {
        assert_eq!(session(V3 | 2, b"user\0u\0\0").unwrap().minor, 2);
        let newer = session(V3 | 9999, b"user\0u\0_pq_.x\x001\0\0").unwrap();
        assert_eq!((newer.minor, newer.negotiation), (2, Some(vec!["_pq_.x".to_owned()])));
        let (state, message) = refusal(2 << 16, b"");
        assert_eq!(state, "0A000");
        assert_eq!(message, "unsupported frontend protocol 2.0: server supports 3.0 to 3.2");
    }

    #[test]
    fn malformed_packets() {
        assert_eq!(refusal(V3, b"user\0u").0, "08P01");
        assert_eq!(refusal(V3, b"user\0u\0\0x").0, "08P01");
        assert_eq!(refusal(V3, b"\0").0, "28000");
        assert_eq!(refusal(V3, b"user\0\xff\0\0").0, "22021");
        assert_eq!(refusal(V3, b"user\0u\0replication\0true\0\0").1, "replication is not supported");
        assert_eq!(refusal(V3, b"user\0u\0replication\0maybe\0\0").0, "22023");
        assert_eq!(refusal(V3, b"user\0u\0options\0-c work_mem\0\0").1, "-c work_mem requires a value");
        assert_eq!(
            refusal(V3, b"user\0u\0options\0-B 7\0\0").1,
            "invalid command-line argument for server process: -B"
        );
        for length in [0u32, 7, 10_001, u32::MAX] {
            let error = decode(&mut BytesMut::from(&length.to_be_bytes()[..])).unwrap_err();
            assert_eq!(error.error.message, "invalid length of startup packet");
        }
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        let body = [b"user\0".as_slice(), "ü".repeat(40).as_bytes(), b"\0\0"].concat();
        assert_eq!(session(V3, &body).unwrap().user, "ü".repeat(31));
    }
}
