//! Messages of the protocol, as a server sends the rows of COPY.

/// Kind and length, before what a message holds. The length counts itself, but not the kind.
pub const HEAD_BYTES: usize = 5;
/// The kind of a message of rows.
pub const COPY_DATA: u8 = b'd';

/// The kind of the message at the start of `data`, and its length with its head. The shortest there can be is that head:
/// what says that it is shorter is for others to complain of.
#[inline]
pub fn head(data: &[u8]) -> Option<(u8, usize)> {
    let ([kind, length @ ..], _) = data.split_first_chunk::<HEAD_BYTES>()?;
    let length = u32::from_be_bytes(*length) as usize + 1;
    Some((*kind, length.max(HEAD_BYTES)))
}

/// How many bytes at the start of `data` are whole messages of rows.
pub fn rows_bytes(data: &[u8]) -> usize {
    let mut end = 0;
    while let Some((COPY_DATA, length)) = head(&data[end..])
        && length <= data.len() - end
    {
        let (message, rest) = data[end..].split_at(length);
        // Those of numbers are all of one length. Where the next one is does not have to be read then.
        let is_alike = |next: &&[u8]| next.first_chunk::<HEAD_BYTES>() == message.first_chunk();
        end += length * (1 + rest.chunks_exact(length).take_while(is_alike).count());
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, data: &[u8]) -> Vec<u8> {
        [&[kind][..], &(data.len() as u32 + 4).to_be_bytes(), data].concat()
    }

    #[test]
    fn whole_messages_of_rows_are_counted_up_to_what_is_none() {
        let rows = [&b"one"[..], b"two", b"", b"", b"three", b"seven", b"", b"x"];
        let all: Vec<u8> = rows.iter().flat_map(|row| message(COPY_DATA, row)).collect();
        let ends = rows.iter().scan(0, |end, row| {
            *end += HEAD_BYTES + row.len();
            Some(*end)
        });
        let ends: Vec<usize> = ends.collect();
        for length in 0..=all.len() {
            let wanted = ends.iter().copied().filter(|end| *end <= length).max().unwrap_or(0);
            assert_eq!(rows_bytes(&all[..length]), wanted, "of {length} bytes");
        }
        let ended = [all.clone(), message(b'c', b""), message(COPY_DATA, b"x")].concat();
        assert_eq!(rows_bytes(&ended), all.len());
        // Lengths that can't be: shorter than themselves, longer than all there is.
        assert_eq!(rows_bytes(&[COPY_DATA, 0, 0, 0, 0]), HEAD_BYTES);
        assert_eq!(rows_bytes(&[COPY_DATA, 0xff, 0xff, 0xff, 0xff, 1, 2, 3]), 0);
    }
}
