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
        end += length;
    }
    end
}
