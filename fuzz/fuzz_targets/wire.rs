//! Bytes of a client: start-up packets, passwords, messages. Whole, and cut in two anywhere.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidemill_server::pg::frontend::{Decoder, decode_all};
use tidemill_server::pg::startup::parse_options;

fuzz_target!(|data: &[u8]| {
    decode_all(data);
    let Some((cut, bytes)) = data.split_first() else { return };
    // A message is the same message however it arrives.
    let (head, tail) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let (mut whole, mut parts) = (Decoder::default(), Decoder::default());
    whole.buffer_mut().extend_from_slice(bytes);
    parts.buffer_mut().extend_from_slice(head);
    let (mut from_parts, ended) = messages(&mut parts);
    if !ended {
        parts.buffer_mut().extend_from_slice(tail);
        from_parts.extend(messages(&mut parts).0);
    }
    assert_eq!(messages(&mut whole).0, from_parts);
    if let Ok(text) = str::from_utf8(bytes) {
        drop(parse_options(text));
    }
});

/// Everything up to the first error, and whether there was one.
fn messages(decoder: &mut Decoder) -> (Vec<String>, bool) {
    let mut messages = Vec::new();
    loop {
        match decoder.next() {
            Ok(Some(message)) => messages.push(format!("{message:?}")),
            Ok(None) => return (messages, false),
            Err(_) => return (messages, true),
        }
    }
}
