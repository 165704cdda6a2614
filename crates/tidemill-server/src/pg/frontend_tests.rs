//! Tests of the decoder: each message, each way to be malformed, and random bytes.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn decoder(bytes: &[u8]) -> Decoder {
    let mut decoder = Decoder::default();
    decoder.buffer_mut().extend_from_slice(bytes);
    decoder
}

fn decode(kind: u8, body: &[u8]) -> Frontend {
    decoder(&message(kind, body)).next().unwrap().unwrap()
}

fn refusal(kind: u8, body: &[u8]) -> (String, String, Recovery) {
    let error = decoder(&message(kind, body)).next().unwrap_err();
    (error.error.state.0.to_owned(), error.error.message.clone(), error.recovery)
}

fn violates(kind: u8, body: &[u8], message: &str, recovery: Recovery) {
    assert_eq!(refusal(kind, body), ("08P01".to_owned(), message.to_owned(), recovery));
}

/// A Bind of portal `p`, statement `s`, one format for all, the values `1`, NULL and the empty string.
const BIND: &[u8] = b"p\0s\0\0\x01\0\x01\0\x03\0\0\0\x011\xff\xff\xff\xff\0\0\0\0\0\x02\0\0\0\x01";

#[test]
fn simple_messages() {
    let Frontend::Query(sql) = decode(b'Q', "select 'ü'\0".as_bytes()) else { panic!() };
    assert_eq!(&*sql, "select 'ü'");
    assert!(matches!(decode(b'S', b""), Frontend::Sync));
    assert!(matches!(decode(b'H', b""), Frontend::Flush));
    assert!(matches!(decode(b'X', b""), Frontend::Terminate));
    assert!(matches!(decode(b'c', b""), Frontend::CopyDone));
    assert!(matches!(decode(b'F', b"anything"), Frontend::FunctionCall));
    let Frontend::CopyData(data) = decode(b'd', b"\xff\0x") else { panic!() };
    assert_eq!(data, b"\xff\0x"[..]);
    let Frontend::CopyFail(reason) = decode(b'f', b"why\0") else { panic!() };
    assert_eq!(&*reason, "why");
}

#[test]
fn extended_messages() {
    let Frontend::Parse(parse) = decode(b'P', b"n\0select $1\0\0\x02\0\0\0\x17\0\0\0\0") else { panic!() };
    assert_eq!((&*parse.name, &*parse.sql, &*parse.param_oids), ("n", "select $1", &[23, 0][..]));
    let Frontend::Describe(Target::Statement(name)) = decode(b'D', b"Sn\0") else { panic!() };
    assert_eq!(&*name, "n");
    assert!(matches!(decode(b'C', b"Pc\0"), Frontend::Close(Target::Portal(_))));
    assert!(matches!(decode(b'E', b"p\0\0\0\0\x05"), Frontend::Execute { rows_max: Some(5), .. }));
    assert!(matches!(decode(b'E', b"p\0\0\0\0\0"), Frontend::Execute { rows_max: None, .. }));
    assert!(matches!(decode(b'E', b"p\0\xff\xff\xff\xff"), Frontend::Execute { rows_max: None, .. }));
}

#[test]
fn bind_is_read_in_place() {
    let Frontend::Bind(bind) = decode(b'B', BIND) else { panic!() };
    assert_eq!((bind.portal(), bind.statement()), ("p", "s"));
    assert_eq!(bind.params().collect::<Vec<_>>(), [Some(&b"1"[..]), None, Some(b"")]);
    assert_eq!((bind.params().len(), bind.param_formats().count()), (3, 1));
    assert_eq!((bind.param_formats().get(0), bind.param_formats().get(2)), (1, 1));
    assert_eq!(bind.result_formats().iter().collect::<Vec<_>>(), [0, 1]);
    assert_eq!((bind.result_formats().get(1), bind.result_formats().get(2)), (1, 0));
    let one = bind.params().next().unwrap().unwrap();
    assert_eq!(bind.body().slice_ref(one), "1");
    let Frontend::Bind(empty) = decode(b'B', b"\0\0\0\0\0\0\0\0") else { panic!() };
    assert_eq!((empty.portal(), empty.statement(), empty.params().len()), ("", "", 0));
}

#[test]
fn nothing_is_taken_before_the_message_is_whole() {
    let bytes = [message(b'B', BIND), message(b'S', b"")].concat();
    for end in 0..bytes.len() {
        let mut decoder = decoder(&bytes[..end]);
        let first = decoder.next().unwrap();
        assert_eq!(first.is_some(), end >= message(b'B', BIND).len());
        decoder.buffer_mut().extend_from_slice(&bytes[end..]);
        if first.is_none() {
            assert!(matches!(decoder.next(), Ok(Some(Frontend::Bind(_)))));
        }
        assert!(matches!(decoder.next(), Ok(Some(Frontend::Sync))));
        assert!(decoder.next().unwrap().is_none());
    }
}

#[test]
fn malformed_bodies_have_postgresql_messages_and_say_how_to_go_on() {
    violates(b'S', b"x", "invalid message format", Recovery::Ready);
    violates(b'H', b"x", "invalid message format", Recovery::SkipToSync);
    violates(b'Q', b"select 1", "invalid string in message", Recovery::Ready);
    violates(b'Q', b"a\0b\0", "invalid message format", Recovery::Ready);
    violates(b'D', b"", "no data left in message", Recovery::SkipToSync);
    violates(b'D', b"Xn\0", "invalid DESCRIBE message subtype 88", Recovery::SkipToSync);
    violates(b'C', b"Xn\0", "invalid CLOSE message subtype 88", Recovery::SkipToSync);
    violates(b'E', b"p\0\0", "insufficient data left in message", Recovery::SkipToSync);
    violates(b'P', b"\0\0\xff\xff", "insufficient data left in message", Recovery::SkipToSync);
    violates(
        b'B',
        b"\0\0\0\0\0\x01\x7f\xff\xff\xff",
        "insufficient data left in message",
        Recovery::SkipToSync,
    );
    violates(
        b'B',
        b"\0\0\0\0\0\x01\xff\xff\xff\xfe",
        "insufficient data left in message",
        Recovery::SkipToSync,
    );
    violates(
        b'B',
        b"\0\0\0\x02\0\0\0\0\0\0\0\0",
        "bind message has 2 parameter formats but 0 parameters",
        Recovery::SkipToSync,
    );
}

#[test]
fn values_that_are_wrong_in_well_formed_messages() {
    let utf8 = refusal(b'Q', b"select '\xff'\0");
    assert_eq!(
        (utf8.0.as_str(), utf8.1.as_str()),
        ("22021", "invalid byte sequence for encoding \"UTF8\": 0xff")
    );
    let format = refusal(b'B', b"\0\0\0\x01\0\x02\0\0\0\0");
    assert_eq!((format.0.as_str(), format.1.as_str()), ("22023", "unsupported format code: 2"));
}

#[test]
fn decoding_goes_on_after_a_faulty_message() {
    let mut decoder = decoder(&[message(b'Q', b"x"), message(b'S', b"")].concat());
    assert!(decoder.next().is_err());
    assert!(matches!(decoder.next(), Ok(Some(Frontend::Sync))));
}

#[test]
fn lost_boundaries_close_the_connection() {
    let unknown = decoder(b"X\0\0\0\x04y").tap_terminate().next().unwrap_err();
    assert_eq!(
        (unknown.error.message.as_str(), unknown.recovery),
        ("invalid frontend message type 121", Recovery::Close)
    );
    for (kind, length) in [(b'Q', 3u32), (b'Q', 0), (b'Q', 0x3fff_ffff), (b'Q', u32::MAX), (b'S', 10_001)] {
        let bytes = [&[kind][..], &length.to_be_bytes()].concat();
        let error = decoder(&bytes).next().unwrap_err();
        assert_eq!(
            (error.error.message.as_str(), error.recovery),
            ("invalid message length", Recovery::Close)
        );
    }
    let mut small = Decoder::with_message_limit(100);
    small.buffer_mut().extend_from_slice(&message(b'd', &[0; 97]));
    assert_eq!(small.next().unwrap_err().error.message, "invalid message length");
}

impl Decoder {
    /// Takes a Terminate off the front, for tests of what follows it.
    fn tap_terminate(mut self) -> Self {
        assert!(matches!(self.next(), Ok(Some(Frontend::Terminate))));
        self
    }
}

#[test]
fn a_length_field_alone_allocates_nothing() {
    let mut decoder = decoder(b"d\x3f\xff\xff\xfe");
    assert!(decoder.next().unwrap().is_none());
    assert!(decoder.buffer_mut().capacity() < 1024);
    assert_eq!(decoder.read_ahead(), READ_AHEAD_BYTES_MAX);
    assert_eq!(Decoder::default().read_ahead(), 8 * 1024);
}

#[test]
fn passwords() {
    let mut decoder = decoder(&message(b'p', b"secret\0"));
    assert_eq!(decoder.next_password().unwrap().unwrap(), "secret\0");
    assert!(decoder.next_password().unwrap().is_none());
    decoder.buffer_mut().extend_from_slice(&message(b'Q', b"select 1\0"));
    let error = decoder.next_password().unwrap_err();
    assert_eq!(error.error.message, "expected password response, got message type 81");
    let late = super::tests::decoder(&message(b'p', b"x")).next().unwrap_err();
    assert_eq!(late.error.message, "invalid frontend message type 112");
    let long = [b"p".as_slice(), &65_536u32.to_be_bytes()].concat();
    assert!(super::tests::decoder(&long).next_password().is_err());
}

#[test]
fn random_bytes_never_panic() {
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let kinds = b"QPBDECHSXdcfFpz";
    for _ in 0..20_000 {
        let mut bytes = Vec::new();
        for _ in 0..random.random_range(1..6) {
            let mut body = BIND.to_vec();
            body.truncate(random.random_range(0..=BIND.len()));
            for _ in 0..random.random_range(0..4) {
                let at = random.random_range(0..=body.len());
                body.insert(at, random.random());
            }
            bytes.extend(message(kinds[random.random_range(0..kinds.len())], &body));
        }
        if random.random_ratio(1, 4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        decode_all(&bytes);
        let mut noise = vec![0; random.random_range(0..64)];
        random.fill(&mut noise[..]);
        decode_all(&noise);
    }
}
