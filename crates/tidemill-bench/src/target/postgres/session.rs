//! A session: text, prepared and unprepared statements, pipelines, COPY.

use std::ops::Range;
use std::sync::Arc;

use super::answer::{affected, columns, keep_row, parameter_types};
use super::cancel::Key;
use super::wire::{Fields, Format, Message, bind, broken, put_text, receive, received, send, server_error};
use crate::error::{Error, Result};
use crate::target::channel::Channel;
use crate::target::{Connection, Done, Load, Rows, Statement, Stretch, Value, copy_text};

/// A CopyData message is sent when it has this many bytes.
const COPY_BYTES: usize = 64 << 10;

pub(super) struct Session {
    channel: Channel,
    prepared: Vec<Prepared>,
    /// Columns of the rows that come: binary where the type is known to be a number or bytes.
    columns: Vec<Format>,
    /// Where only the last row is wanted: the body of the one that came last, which nobody has read yet.
    held: Held,
    /// The last RowDescription, and the names in it: the same text is often sent again.
    described: (Vec<u8>, Arc<[String]>),
    /// Statements since the start of a pipeline.
    pipeline: Option<u64>,
    /// Of the last ReadyForQuery.
    is_in_transaction: bool,
    /// What was sent last was one text, without a Sync.
    is_simple: bool,
    /// It can be cancelled for as long as this is there.
    _key: Option<Arc<Key>>,
}

/// The state in ReadyForQuery outside of transactions.
const IDLE: &[u8] = b"I";

/// A row that may turn out to be the last.
#[derive(Default)]
struct Held {
    place: Option<Place>,
    copy: Vec<u8>,
}

enum Place {
    /// In the channel, until that waits for more.
    Channel(Range<usize>),
    Copy,
}

impl Held {
    /// Before the channel waits.
    fn save(&mut self, channel: &Channel) {
        if let Some(Place::Channel(body)) = &self.place {
            self.copy.clear();
            self.copy.extend_from_slice(channel.bytes(body.clone()));
            self.place = Some(Place::Copy);
        }
    }

    fn take<'a>(&'a mut self, channel: &'a Channel) -> Option<&'a [u8]> {
        Some(match self.place.take()? {
            Place::Channel(body) => channel.bytes(body),
            Place::Copy => &self.copy,
        })
    }
}

struct Prepared {
    name: String,
    parameters: Vec<Format>,
    columns: Vec<Format>,
    names: Arc<[String]>,
}

impl Session {
    pub fn new(channel: Channel, key: Option<Arc<Key>>) -> Self {
        Self {
            channel,
            prepared: Vec::new(),
            columns: Vec::new(),
            held: Held::default(),
            described: Default::default(),
            pipeline: None,
            is_in_transaction: false,
            is_simple: true,
            _key: key,
        }
    }

    /// Reads until the server is ready for more; the first error is what is told.
    fn finish(&mut self, rows: Option<&mut Rows>) -> Result<Done> {
        self.finish_stretch(rows, None)
    }

    /// The same where one of several results is asked for; their commands are counted from 0.
    fn finish_stretch(&mut self, mut rows: Option<&mut Rows>, asked: Option<usize>) -> Result<Done> {
        self.channel.flush()?;
        self.held.place = None;
        let mut done = Done::default();
        let mut failed = None;
        let mut commands = 0;
        loop {
            let message = match self.next_message() {
                Ok(message) => message,
                // A server that ends says why before it closes the connection.
                Err(lost) => return Err(failed.unwrap_or(lost)),
            };
            match message.tag {
                b'D' if asked.is_none_or(|asked| asked == commands) => {
                    done.rows += 1;
                    match rows.as_deref_mut() {
                        Some(rows) if rows.is_last_only() => self.hold_row(rows, message),
                        Some(rows) => keep_row(rows, &self.columns, self.channel.bytes(message.body))?,
                        None => {}
                    }
                }
                b'T' => {
                    done.rows = 0;
                    self.describe_text(message, rows.as_deref_mut())?;
                }
                b'C' => {
                    if asked.is_none_or(|asked| asked == commands) {
                        done.affected = affected(self.channel.bytes(message.body));
                        self.keep_held(rows.as_deref_mut())?;
                    }
                    if asked.is_none() {
                        let is_without = self.columns.is_empty();
                        rows.iter_mut().filter(|_| is_without).for_each(|rows| rows.end_without_columns());
                        // Those of the next statement of the same text are its own.
                        self.columns.clear();
                    }
                    commands += 1;
                }
                b'E' => {
                    failed.get_or_insert(server_error(self.channel.bytes(message.body)));
                }
                b'Z' => {
                    self.is_in_transaction = self.channel.bytes(message.body) != IDLE;
                    return failed.map_or(Ok(done), Err);
                }
                b'G' => self.refuse_copy(),
                b'H' => {
                    let refused = "COPY TO STDOUT has nobody here who would read its rows".to_owned();
                    failed.get_or_insert(Error::Unsupported(refused));
                }
                b'D' | b'1' | b'2' | b'3' | b'n' | b't' | b'I' | b's' | b'N' | b'S' | b'A' | b'd' | b'c' => {}
                tag => return Err(broken(&format!("message \"{}\"", char::from(tag).escape_default()))),
            }
        }
    }

    #[inline]
    fn next_message(&mut self) -> Result<Message> {
        if let Some(message) = received(&mut self.channel) {
            return Ok(message);
        }
        self.held.save(&self.channel);
        receive(&mut self.channel)
    }

    fn hold_row(&mut self, rows: &mut Rows, message: Message) {
        if self.held.place.replace(Place::Channel(message.body)).is_some() {
            rows.drop_row();
        }
    }

    fn keep_held(&mut self, rows: Option<&mut Rows>) -> Result<()> {
        match (self.held.take(&self.channel), rows) {
            (Some(body), Some(rows)) => keep_row(rows, &self.columns, body),
            _ => Ok(()),
        }
    }

    /// Rows of a text, and of a statement whose types nobody asked for, come as text.
    fn describe_text(&mut self, message: Message, rows: Option<&mut Rows>) -> Result<()> {
        let body = self.channel.bytes(message.body);
        let count = usize::from(Fields(body).u16()?);
        self.columns.clear();
        self.columns.resize(count, Format::Text);
        if let Some(rows) = rows {
            rows.start(count);
            if self.described.0 != body {
                let names = columns(body)?.into_iter().map(|(name, _)| name).collect();
                self.described = (body.to_vec(), names);
            }
            rows.set_names(Arc::clone(&self.described.1));
        }
        Ok(())
    }

    /// COPY FROM STDIN in a script has nothing to read from; the server answers with the error. A Sync that it got before that
    /// it has passed over, and it waits for the next one.
    fn refuse_copy(&mut self) {
        send(&mut self.channel.out, b'f', |out| put_text(out, "a script has no data for COPY FROM STDIN"));
        if !self.is_simple {
            send(&mut self.channel.out, b'S', |_| {});
        }
        // A failure to send shows at the next read.
        let _ = self.channel.flush();
    }

    /// Puts Bind and Execute of a statement into the buffer; the rows to come are its.
    fn put_run(&mut self, statement: Statement, values: &[Value<'_>], rows: Option<&mut Rows>) {
        let prepared = &self.prepared[statement.0 as usize];
        self.columns.clone_from(&prepared.columns);
        if let Some(rows) = rows {
            rows.start(prepared.columns.len());
            rows.set_names(Arc::clone(&prepared.names));
        }
        bind(&mut self.channel.out, &prepared.name, &prepared.parameters, values, &prepared.columns);
        send(&mut self.channel.out, b'E', |out| out.extend_from_slice(&[0; 5]));
    }

    fn put_simple(&mut self, sql: &str) {
        self.is_simple = true;
        send(&mut self.channel.out, b'Q', |out| put_text(out, sql));
    }

    fn put_sync(&mut self) {
        self.is_simple = false;
        send(&mut self.channel.out, b'S', |_| {});
    }

    /// Sync and wait, or in a pipeline neither.
    fn sent(&mut self, rows: Option<&mut Rows>) -> Result<Done> {
        if let Some(statements) = &mut self.pipeline {
            *statements += 1;
            return Ok(Done::default());
        }
        self.put_sync();
        self.finish(rows)
    }

    fn not_in_pipeline(&self) -> Result<()> {
        match self.pipeline {
            None => Ok(()),
            Some(_) => Err(Error::usage("only extended and prepared statements may be in a pipeline")),
        }
    }
}

impl Connection for Session {
    fn execute(&mut self, sql: &str) -> Result<Done> {
        self.not_in_pipeline()?;
        self.put_simple(sql);
        self.finish(None)
    }

    fn query(&mut self, sql: &str, rows: &mut Rows) -> Result<Done> {
        self.not_in_pipeline()?;
        rows.start(0);
        self.columns.clear();
        self.put_simple(sql);
        self.finish(Some(rows))
    }

    fn prepare(&mut self, sql: &str) -> Result<Statement> {
        self.not_in_pipeline()?;
        let name = format!("s{}", self.prepared.len());
        let out = &mut self.channel.out;
        send(out, b'P', |out| {
            put_text(out, &name);
            put_text(out, sql);
            out.extend_from_slice(&[0; 2]);
        });
        send(out, b'D', |out| {
            out.push(b'S');
            put_text(out, &name);
        });
        send(out, b'S', |_| {});
        self.channel.flush()?;
        let mut prepared =
            Prepared { name, parameters: Vec::new(), columns: Vec::new(), names: Arc::default() };
        let mut failed = None;
        loop {
            let message = receive(&mut self.channel)?;
            let body = self.channel.bytes(message.body);
            match message.tag {
                b't' => prepared.parameters = parameter_types(body)?,
                b'T' => {
                    let (names, formats): (Vec<_>, _) = columns(body)?.into_iter().unzip();
                    (prepared.names, prepared.columns) = (names.into(), formats);
                }
                b'E' => {
                    failed.get_or_insert(server_error(body));
                }
                b'Z' => {
                    self.is_in_transaction = body != IDLE;
                    break;
                }
                _ => {}
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.prepared.push(prepared);
        Ok(Statement(self.prepared.len() as u32 - 1))
    }

    fn run(
        &mut self,
        statement: Statement,
        values: &[Value<'_>],
        mut rows: Option<&mut Rows>,
    ) -> Result<Done> {
        self.put_run(statement, values, rows.as_deref_mut());
        self.sent(rows)
    }

    /// All of it travels together. Behind an error the server skips the rest, COMMIT too.
    fn run_stretch(&mut self, stretch: Stretch<'_>, rows: &mut Rows) -> Result<Done> {
        self.not_in_pipeline()?;
        if stretch.begins {
            put_once(&mut self.channel.out, "BEGIN");
        }
        for (statement, values) in stretch.steps {
            self.put_run(*statement, values, Some(&mut *rows));
        }
        if stretch.commits {
            put_once(&mut self.channel.out, "COMMIT");
        }
        self.put_sync();
        let last = (stretch.steps.len() + usize::from(stretch.begins)).saturating_sub(1);
        self.finish_stretch(Some(rows), Some(last))
    }

    fn run_once(&mut self, sql: &str, values: &[Value<'_>], mut rows: Option<&mut Rows>) -> Result<Done> {
        rows.iter_mut().for_each(|rows| rows.start(0));
        let out = &mut self.channel.out;
        send(out, b'P', |out| {
            out.push(0);
            put_text(out, sql);
            out.extend_from_slice(&[0; 2]);
        });
        bind(out, "", &[], values, &[]);
        send(out, b'D', |out| out.extend_from_slice(b"P\0"));
        send(out, b'E', |out| out.extend_from_slice(&[0; 5]));
        self.sent(rows)
    }

    fn load<'a>(&'a mut self, table: &str, columns: &[&str]) -> Result<Box<dyn Load + 'a>> {
        self.not_in_pipeline()?;
        let sql = format!("copy {table} ({}) from stdin", columns.join(", "));
        self.put_simple(&sql);
        self.channel.flush()?;
        loop {
            let message = receive(&mut self.channel)?;
            match message.tag {
                b'G' => break,
                b'E' => {
                    let error = server_error(self.channel.bytes(message.body));
                    return Err(self
                        .finish(None)
                        .err()
                        .filter(|e| matches!(e, Error::Lost(_)))
                        .unwrap_or(error));
                }
                b'N' | b'S' => {}
                _ => return Err(broken("no answer to COPY")),
            }
        }
        Ok(Box::new(Copy { session: self, line: Vec::with_capacity(COPY_BYTES + 4096), is_finished: false }))
    }

    fn pipeline_start(&mut self) -> Result<()> {
        self.not_in_pipeline()?;
        self.pipeline = Some(0);
        Ok(())
    }

    fn pipeline_end(&mut self) -> Result<Done> {
        if self.pipeline.take().is_none() {
            return Err(Error::usage("there is no pipeline to end"));
        }
        self.put_sync();
        self.finish(None)
    }

    fn is_in_transaction(&self) -> bool {
        self.is_in_transaction
    }

    fn is_encrypted(&self) -> bool {
        self.channel.is_encrypted()
    }

    fn version(&mut self) -> Result<String> {
        let connection: &mut dyn Connection = self;
        Ok(connection.query_value("select version()")?.unwrap_or_default())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.channel.out.clear();
        send(&mut self.channel.out, b'X', |_| {});
        // A server that is gone needs no good-bye.
        let _ = self.channel.flush();
    }
}

/// Parse, Bind and Execute of a statement without parameters and rows.
fn put_once(out: &mut Vec<u8>, sql: &str) {
    send(out, b'P', |out| {
        out.push(0);
        put_text(out, sql);
        out.extend_from_slice(&[0; 2]);
    });
    bind(out, "", &[], &[], &[]);
    send(out, b'E', |out| out.extend_from_slice(&[0; 5]));
}

struct Copy<'a> {
    session: &'a mut Session,
    line: Vec<u8>,
    is_finished: bool,
}

impl Copy<'_> {
    fn send(&mut self) -> Result<()> {
        let channel = &mut self.session.channel;
        send(&mut channel.out, b'd', |out| out.extend_from_slice(&self.line));
        self.line.clear();
        channel.flush()
    }
}

impl Load for Copy<'_> {
    fn row(&mut self, values: &[Value<'_>]) -> Result<()> {
        copy_text(values, &mut self.line);
        if self.line.len() < COPY_BYTES {
            return Ok(());
        }
        self.send().map_err(|lost| match self.session.finish(None) {
            // Why the server went away, if it said so.
            Err(said @ Error::Server(_)) => said,
            _ => lost,
        })
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.is_finished = true;
        self.send()?;
        send(&mut self.session.channel.out, b'c', |_| {});
        self.session.finish(None).map(|done| done.affected)
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            send(&mut self.session.channel.out, b'f', |out| put_text(out, "the load was given up"));
            // The answer is the error that was asked for.
            let _ = self.session.finish(None);
        }
    }
}
