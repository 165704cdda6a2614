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
    let mut from_parts = messages(&mut parts);
    parts.buffer_mut().extend_from_slice(tail);
    from_parts.extend(messages(&mut parts));
    assert_eq!(messages(&mut whole), from_parts);
    if let Ok(text) = str::from_utf8(bytes) {
        drop(parse_options(text));
    }
});

/// Everything up to the first error.
fn messages(decoder: &mut Decoder) -> Vec<String> {
    let mut messages = Vec::new();
    while let Ok(Some(message)) = decoder.next() {
        messages.push(format!("{message:?}"));
    }
    messages
}
