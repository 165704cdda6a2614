//! A client that shows what was said on the wire: types and modifiers of columns, every field of an error, tags.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// No answer takes this long; a test that would hang fails instead.
const ANSWER_MAX: Duration = Duration::from_secs(60);

pub struct Client {
    stream: TcpStream,
}

/// One message of the server: its type and its body.
pub type Message = (u8, Vec<u8>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub type_oid: u32,
    pub typmod: i32,
}

/// What a string of statements was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Of the last statement that has a result.
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Option<String>>>,
    pub tags: Vec<String>,
    pub notices: Vec<ErrorFields>,
    pub error: Option<ErrorFields>,
}

/// The fields of an ErrorResponse or NoticeResponse by their letters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorFields(pub BTreeMap<char, String>);

impl ErrorFields {
    pub fn get(&self, letter: char) -> &str {
        self.0.get(&letter).map_or("", String::as_str)
    }
}

impl Client {
    /// Connects where nobody asks for a password.
    pub fn connect(port: u16, database: &str) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Client { stream };
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        for text in ["user", "postgres", "database", database, ""] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        let length = (body.len() as i32 + 4).to_be_bytes();
        client.stream.write_all(&[&length, body.as_slice()].concat()).unwrap();
        let answer = answer_of(client.until_ready());
        assert_eq!(answer.error, None, "the server refused the connection");
        client
    }

    /// The simple protocol.
    pub fn query(&mut self, sql: &str) -> Answer {
        self.send(&[(b'Q', [sql.as_bytes(), b"\0"].concat())]);
        answer_of(self.until_ready())
    }

    /// The extended protocol without parameters, in text.
    pub fn extended(&mut self, sql: &str) -> Answer {
        self.send(&[
            (b'P', [b"\0", sql.as_bytes(), b"\0\0\0"].concat()),
            (b'B', vec![0; 8]),
            (b'D', b"P\0".to_vec()),
            (b'E', vec![0; 5]),
            (b'S', vec![]),
        ]);
        answer_of(self.until_ready())
    }

    pub fn send(&mut self, messages: &[Message]) {
        let mut bytes = Vec::new();
        for (kind, body) in messages {
            bytes.push(*kind);
            bytes.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
            bytes.extend_from_slice(body);
        }
        self.stream.write_all(&bytes).unwrap();
    }

    /// All messages up to ReadyForQuery.
    pub fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let message = self.receive();
            let fatal = message.0 == b'E' && fields(&message.1).get('S') == "FATAL";
            let last = fatal || message.0 == b'Z';
            messages.push(message);
            if last {
                return messages;
            }
        }
    }

    pub fn receive(&mut self) -> Message {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).expect("an answer of the server");
        let length = i32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).unwrap();
        (head[0], body)
    }
}

pub fn answer_of(messages: Vec<Message>) -> Answer {
    let mut answer = Answer::default();
    for (kind, body) in messages {
        match kind {
            b'T' => (answer.columns, answer.rows) = (columns(&body), vec![]),
            b'D' => answer.rows.push(values(&body)),
            b'C' => answer.tags.push(text(&mut body.as_slice())),
            b'E' => answer.error = Some(fields(&body)),
            b'N' => answer.notices.push(fields(&body)),
            _ => {}
        }
    }
    answer
}

fn fields(mut body: &[u8]) -> ErrorFields {
    let mut fields = BTreeMap::new();
    while let [letter, rest @ ..] = body
        && *letter != 0
    {
        body = rest;
        fields.insert(char::from(*letter), text(&mut body));
    }
    ErrorFields(fields)
}

fn columns(mut body: &[u8]) -> Vec<Column> {
    (0..number(&mut body, 2))
        .map(|_| {
            let name = text(&mut body);
            number(&mut body, 6);
            let type_oid = number(&mut body, 4) as u32;
            number(&mut body, 2);
            let typmod = number(&mut body, 4) as i32;
            number(&mut body, 2);
            Column { name, type_oid, typmod }
        })
        .collect()
}

fn values(mut body: &[u8]) -> Vec<Option<String>> {
    (0..number(&mut body, 2))
        .map(|_| {
            let length = usize::try_from(number(&mut body, 4) as i32).ok()?;
            let (value, rest) = body.split_at(length);
            body = rest;
            Some(String::from_utf8_lossy(value).into_owned())
        })
        .collect()
}

fn number(body: &mut &[u8], bytes: usize) -> u64 {
    let (head, rest) = body.split_at(bytes);
    *body = rest;
    head.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn text(body: &mut &[u8]) -> String {
    let end = body.iter().position(|byte| *byte == 0).unwrap();
    let (head, rest) = body.split_at(end);
    *body = &rest[1..];
    String::from_utf8_lossy(head).into_owned()
}
