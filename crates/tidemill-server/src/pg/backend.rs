//! Writers of every message that a server sends, straight into the send buffer.

use bytes::{BufMut, BytesMut};
use tidemill_sql::{SqlError, SqlState};

use super::MESSAGE_BYTES_MAX;
use super::wire_error::{Notice, ProtocolError, Severity};

/// PostgreSQL's `MaxTupleAttributeNumber`.
pub const COLUMNS_MAX: usize = 1664;

/// Where the session stands, as ReadyForQuery tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    Idle,
    InTransaction,
    Failed,
}

/// One column of a RowDescription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDesc<'a> {
    pub name: &'a str,
    /// The table the column is from, 0 if it is computed.
    pub table_oid: u32,
    /// Its number in that table, from 1; 0 if it is computed.
    pub column: i16,
    pub type_oid: u32,
    pub type_len: i16,
    pub typmod: i32,
    /// 0 text, 1 binary.
    pub format: i16,
}

pub fn authentication_ok(buffer: &mut BytesMut) {
    authentication(buffer, 0, b"");
}

pub fn authentication_cleartext_password(buffer: &mut BytesMut) {
    authentication(buffer, 3, b"");
}

/// Offers SASL mechanisms, the preferred one first.
pub fn authentication_sasl(buffer: &mut BytesMut, mechanisms: &[&str]) {
    message(buffer, b'R', |buffer| {
        buffer.put_i32(10);
        for mechanism in mechanisms {
            put_text(buffer, mechanism);
        }
        buffer.put_u8(0);
    });
}

pub fn authentication_sasl_continue(buffer: &mut BytesMut, data: &[u8]) {
    authentication(buffer, 11, data);
}

pub fn authentication_sasl_final(buffer: &mut BytesMut, data: &[u8]) {
    authentication(buffer, 12, data);
}

fn authentication(buffer: &mut BytesMut, code: i32, data: &[u8]) {
    message(buffer, b'R', |buffer| {
        buffer.put_i32(code);
        buffer.put_slice(data);
    });
}

/// Tells the newest minor version of protocol 3 that the server speaks and the options it does not know.
pub fn negotiate_protocol_version(buffer: &mut BytesMut, minor: u16, unknown_options: &[String]) {
    message(buffer, b'v', |buffer| {
        // The documentation says "minor version", the servers send the whole version word, and libpq reads
        // that.
        buffer.put_u32((3 << 16) | u32::from(minor));
        buffer.put_u32(count_u32(unknown_options.len()));
        for option in unknown_options {
            put_text(buffer, option);
        }
    });
}

pub fn parameter_status(buffer: &mut BytesMut, name: &str, value: &str) {
    message(buffer, b'S', |buffer| {
        put_text(buffer, name);
        put_text(buffer, value);
    });
}

/// The key is 4 bytes in protocol 3.0, and up to 256 from 3.2 on.
pub fn backend_key_data(buffer: &mut BytesMut, process_id: u32, secret_key: &[u8]) {
    message(buffer, b'K', |buffer| {
        buffer.put_u32(process_id);
        buffer.put_slice(secret_key);
    });
}

pub fn ready_for_query(buffer: &mut BytesMut, status: TransactionStatus) {
    let status = match status {
        TransactionStatus::Idle => b'I',
        TransactionStatus::InTransaction => b'T',
        TransactionStatus::Failed => b'E',
    };
    message(buffer, b'Z', |buffer| buffer.put_u8(status));
}

/// Describes the rows to come. More than [`COLUMNS_MAX`] columns are an error, and nothing is written.
pub fn row_description<'a, I>(buffer: &mut BytesMut, columns: I) -> Result<(), SqlError>
where
    I: IntoIterator<Item = ColumnDesc<'a>, IntoIter: ExactSizeIterator>,
{
    let columns = columns.into_iter();
    let count = column_count(columns.len())?;
    message(buffer, b'T', |buffer| {
        buffer.put_i16(count);
        for column in columns {
            put_text(buffer, column.name);
            buffer.put_u32(column.table_oid);
            buffer.put_i16(column.column);
            buffer.put_u32(column.type_oid);
            buffer.put_i16(column.type_len);
            buffer.put_i32(column.typmod);
            buffer.put_i16(column.format);
        }
    });
    Ok(())
}

fn column_count(count: usize) -> Result<i16, SqlError> {
    match i16::try_from(count) {
        Ok(small) if count <= COLUMNS_MAX => Ok(small),
        _ => {
            let message = format!("target lists can have at most {COLUMNS_MAX} entries");
            Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
        }
    }
}

/// The types of a statement's parameters. There are at most 65535, since Bind can carry no more.
pub fn parameter_description(buffer: &mut BytesMut, type_oids: &[u32]) -> Result<(), SqlError> {
    let Ok(count) = u16::try_from(type_oids.len()) else {
        let message = "number of parameters must be between 0 and 65535";
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    };
    message(buffer, b't', |buffer| {
        buffer.put_u16(count);
        for oid in type_oids {
            buffer.put_u32(*oid);
        }
    });
    Ok(())
}

/// `tag` is for example `INSERT 0 5`.
pub fn command_complete(buffer: &mut BytesMut, tag: &str) {
    message(buffer, b'C', |buffer| put_text(buffer, tag));
}

pub fn empty_query_response(buffer: &mut BytesMut) {
    message(buffer, b'I', |_| ());
}

pub fn parse_complete(buffer: &mut BytesMut) {
    message(buffer, b'1', |_| ());
}

pub fn bind_complete(buffer: &mut BytesMut) {
    message(buffer, b'2', |_| ());
}

pub fn close_complete(buffer: &mut BytesMut) {
    message(buffer, b'3', |_| ());
}

pub fn no_data(buffer: &mut BytesMut) {
    message(buffer, b'n', |_| ());
}

pub fn portal_suspended(buffer: &mut BytesMut) {
    message(buffer, b's', |_| ());
}

/// Asks for CopyData; all columns have the same format, 0 text or 1 binary.
pub fn copy_in_response(buffer: &mut BytesMut, format: i16, columns: usize) -> Result<(), SqlError> {
    copy_response(buffer, b'G', format, columns)
}

/// Announces CopyData; all columns have the same format, 0 text or 1 binary.
pub fn copy_out_response(buffer: &mut BytesMut, format: i16, columns: usize) -> Result<(), SqlError> {
    copy_response(buffer, b'H', format, columns)
}

fn copy_response(buffer: &mut BytesMut, kind: u8, format: i16, columns: usize) -> Result<(), SqlError> {
    let count = column_count(columns)?;
    message(buffer, kind, |buffer| {
        buffer.put_u8(u8::from(format != 0));
        buffer.put_i16(count);
        for _ in 0..columns {
            buffer.put_i16(format);
        }
    });
    Ok(())
}

/// One CopyData whose content `write` appends. If it grows too long nothing is written.
pub fn copy_data(buffer: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) -> Result<(), SqlError> {
    let start = open(buffer, b'd');
    write(buffer);
    close_checked(buffer, start)
}

pub fn copy_done(buffer: &mut BytesMut) {
    message(buffer, b'c', |_| ());
}

/// An error of severity ERROR, or FATAL if the connection is closed after it.
pub fn error_response(buffer: &mut BytesMut, severity: Severity, error: &SqlError) {
    report(buffer, b'E', severity, error);
}

pub fn protocol_error(buffer: &mut BytesMut, error: &ProtocolError) {
    error_response(buffer, error.severity(), &error.error);
}

pub fn notice_response(buffer: &mut BytesMut, notice: &Notice) {
    report(buffer, b'N', notice.severity, &notice.body);
}

fn report(buffer: &mut BytesMut, kind: u8, severity: Severity, body: &SqlError) {
    message(buffer, kind, |buffer| {
        let mut field = |code: u8, text: &str| {
            buffer.put_u8(code);
            put_text(buffer, text);
        };
        field(b'S', severity.as_str());
        field(b'V', severity.as_str());
        field(b'C', body.state.0);
        field(b'M', &body.message);
        if let Some(detail) = &body.detail {
            field(b'D', detail);
        }
        if let Some(hint) = &body.hint {
            field(b'H', hint);
        }
        if let Some(position) = body.position {
            field(b'P', &position.to_string());
        }
        if let Some(context) = &body.context {
            field(b'W', context);
        }
        buffer.put_u8(0);
    });
}

/// Writes one DataRow: a value or NULL for each column, then [`RowWriter::finish`].
#[must_use = "a row is only well-formed after finish()"]
pub struct RowWriter<'a> {
    buffer: &'a mut BytesMut,
    start: usize,
    columns: u16,
}

impl<'a> RowWriter<'a> {
    pub fn start(buffer: &'a mut BytesMut) -> Self {
        let start = open(buffer, b'D');
        buffer.put_u16(0);
        Self { buffer, start, columns: 0 }
    }

    pub fn null(&mut self) {
        self.columns = self.columns.saturating_add(1);
        self.buffer.put_i32(-1);
    }

    pub fn bytes(&mut self, value: &[u8]) {
        self.value(|buffer| buffer.put_slice(value));
    }

    pub fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// A value that `write` appends to the buffer; its length is filled in afterwards.
    pub fn value(&mut self, write: impl FnOnce(&mut BytesMut)) {
        self.columns = self.columns.saturating_add(1);
        let at = self.buffer.len();
        self.buffer.put_u32(0);
        write(self.buffer);
        // A length that does not fit makes the row too long as well, which finish() reports.
        let length = u32::try_from(self.buffer.len() - at - 4).unwrap_or(u32::MAX);
        self.buffer[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Fills in the column count and the length. A row that is too long for a message, or has too many
    /// columns, is taken back whole.
    pub fn finish(self) -> Result<(), SqlError> {
        let Self { buffer, start, columns } = self;
        if let Err(error) = column_count(usize::from(columns)) {
            buffer.truncate(start);
            return Err(error);
        }
        buffer[start + 5..start + 7].copy_from_slice(&columns.to_be_bytes());
        close_checked(buffer, start)
    }
}

/// One message whose content `write` appends. For messages that are short by nature; others use
/// [`close_checked`].
fn message(buffer: &mut BytesMut, kind: u8, write: impl FnOnce(&mut BytesMut)) {
    let start = open(buffer, kind);
    write(buffer);
    close(buffer, start);
}

/// Starts a message and returns where.
fn open(buffer: &mut BytesMut, kind: u8) -> usize {
    let start = buffer.len();
    buffer.put_slice(&[kind, 0, 0, 0, 0]);
    start
}

fn close(buffer: &mut BytesMut, start: usize) {
    let length = count_u32(buffer.len() - start - 1);
    buffer[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

fn close_checked(buffer: &mut BytesMut, start: usize) -> Result<(), SqlError> {
    let length = buffer.len() - start - 1;
    if length > MESSAGE_BYTES_MAX {
        buffer.truncate(start);
        let message = format!("a row of {length} bytes is too long for a message");
        let detail = format!("A message has at most {MESSAGE_BYTES_MAX} bytes.");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_detail(detail));
    }
    close(buffer, start);
    Ok(())
}

fn count_u32(count: usize) -> u32 {
    u32::try_from(count).expect("messages other than rows are made of names and error texts, far below 4 GiB")
}

/// A zero-terminated string. Zeros inside the text, which the protocol can't carry, are left out.
fn put_text(buffer: &mut BytesMut, text: &str) {
    for part in text.as_bytes().split(|byte| *byte == 0) {
        buffer.put_slice(part);
    }
    buffer.put_u8(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
        let mut buffer = BytesMut::from(&b"before"[..]);
        write(&mut buffer);
        buffer[6..].to_vec()
    }

    #[test]
    fn messages_without_content() {
        assert_eq!(written(parse_complete), b"1\0\0\0\x04");
        assert_eq!(written(bind_complete), b"2\0\0\0\x04");
        assert_eq!(written(close_complete), b"3\0\0\0\x04");
        assert_eq!(written(no_data), b"n\0\0\0\x04");
        assert_eq!(written(portal_suspended), b"s\0\0\0\x04");
        assert_eq!(written(empty_query_response), b"I\0\0\0\x04");
        assert_eq!(written(copy_done), b"c\0\0\0\x04");
    }

    #[test]
    fn authentication_messages() {
        assert_eq!(written(authentication_ok), b"R\0\0\0\x08\0\0\0\0");
        assert_eq!(written(authentication_cleartext_password), b"R\0\0\0\x08\0\0\0\x03");
        let sasl = written(|buffer| authentication_sasl(buffer, &["SCRAM-SHA-256"]));
        assert_eq!(sasl, b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0");
        assert_eq!(written(|b| authentication_sasl_continue(b, b"xy")), b"R\0\0\0\x0a\0\0\0\x0bxy");
        assert_eq!(written(|b| authentication_sasl_final(b, b"v")), b"R\0\0\0\x09\0\0\0\x0cv");
    }

    #[test]
    fn session_messages() {
        assert_eq!(written(|b| ready_for_query(b, TransactionStatus::Failed)), b"Z\0\0\0\x05E");
        assert_eq!(written(|b| parameter_status(b, "a", "b")), b"S\0\0\0\x08a\0b\0");
        assert_eq!(written(|b| backend_key_data(b, 1, b"wxyz")), b"K\0\0\0\x0c\0\0\0\x01wxyz");
        let options = ["_pq_.x".to_owned()];
        let negotiate = written(|b| negotiate_protocol_version(b, 2, &options));
        assert_eq!(negotiate, b"v\0\0\0\x13\0\x03\0\x02\0\0\0\x01_pq_.x\0");
        assert_eq!(written(|b| command_complete(b, "SELECT 1")), b"C\0\0\0\x0dSELECT 1\0");
    }

    #[test]
    fn descriptions() {
        let column = ColumnDesc {
            name: "x\0y",
            table_oid: 1,
            column: 2,
            type_oid: 23,
            type_len: 4,
            typmod: -1,
            format: 1,
        };
        let row = written(|b| row_description(b, [column.clone()]).unwrap());
        assert_eq!(row, b"T\0\0\0\x1b\0\x01xy\0\0\0\0\x01\0\x02\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01");
        assert_eq!(written(|b| parameter_description(b, &[23]).unwrap()), b"t\0\0\0\x0a\0\x01\0\0\0\x17");
        let mut buffer = BytesMut::new();
        let many = vec![column; COLUMNS_MAX + 1];
        assert_eq!(row_description(&mut buffer, many).unwrap_err().state.0, "54011");
        assert!(buffer.is_empty());
        assert!(parameter_description(&mut buffer, &vec![0; 65_536]).is_err());
    }

    #[test]
    fn rows_have_their_lengths_patched() {
        let row = written(|buffer| {
            let mut row = RowWriter::start(buffer);
            row.text("ab");
            row.null();
            row.value(|buffer| buffer.put_i32(7));
            row.finish().unwrap();
        });
        assert_eq!(row, b"D\0\0\0\x18\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\x04\0\0\0\x07");
    }

    #[test]
    fn rows_of_too_many_columns_are_taken_back() {
        let mut buffer = BytesMut::from(&b"before"[..]);
        let mut row = RowWriter::start(&mut buffer);
        (0..=COLUMNS_MAX).for_each(|_| row.null());
        assert_eq!(row.finish().unwrap_err().state.0, "54011");
        assert_eq!(buffer, b"before"[..]);
    }

    #[test]
    fn copy_messages() {
        assert_eq!(written(|b| copy_in_response(b, 0, 1).unwrap()), b"G\0\0\0\x09\0\0\x01\0\0");
        assert_eq!(written(|b| copy_out_response(b, 1, 1).unwrap()), b"H\0\0\0\x09\x01\0\x01\0\x01");
        assert_eq!(written(|b| copy_data(b, |b| b.put_slice(b"1\n")).unwrap()), b"d\0\0\0\x061\n");
    }

    #[test]
    fn reports_carry_every_field() {
        let error = SqlError::syntax("m").with_detail("d").with_hint("h").with_position(3).with_context("w");
        let bytes = written(|buffer| error_response(buffer, Severity::Fatal, &error));
        assert_eq!(&bytes[5..], b"SFATAL\0VFATAL\0C42601\0Mm\0Dd\0Hh\0P3\0Ww\0\0");
        let bytes = written(|buffer| notice_response(buffer, &Notice::new("n")));
        assert_eq!(bytes[0], b'N');
        assert_eq!(&bytes[5..], b"SNOTICE\0VNOTICE\0C00000\0Mn\0\0");
    }
}
