//! COPY into a stream or table, or out of a query: from and to the client, or a file of the server.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use sqlparser::ast;
use tidemill_federation::write::Writing;
use tidemill_sql::name::split_nodes;
use tidemill_sql::planner::{SessionVars, plan_error};
use tidemill_sql::statement::{Copy, CopyEndpoint, CopyFormat as Format, CopyHeader, CopySource, Name};
use tidemill_sql::text::Context;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState, parse};
use tidemill_stream::engine::WriteSet;
use tidemill_stream::join::JoinedRows;
use tidemill_stream::view::ViewId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::execute::{Outcome, Step, attempt};
use super::interrupt::Shield;
use super::wire::Wire;
use super::{Session, Transaction};
use crate::catalog::{Relation, Table};
use crate::define::public;
use crate::insert::{Fill, Target, rows_of};
use crate::join::Joining;
use crate::pg::backend;
use crate::pg::frontend::Frontend;
use tidemill_sql::copy::{CopyColumn, CopyDecoder, CopyEncoder, CopyFormat};
use tidemill_sql::insert::ColumnName;

/// Rows of a COPY that goes on can be seen this much later at most, and as much again.
const SHOW_WITHIN: Duration = Duration::from_millis(30);
/// Read from a file at once.
const FILE_CHUNK_BYTES: usize = 256 << 10;

impl Session {
    pub(super) async fn copy(&mut self, wire: &mut Wire, copy: Copy) -> Step<Outcome> {
        if let CopyEndpoint::Program(_) = copy.endpoint {
            return Ok(Err(SqlError::unsupported("COPY with a program of the server is not supported")
                .with_position(1)
                .with_hint("Use psql's \\copy, which can run a program of the client.")));
        }
        if copy.to { self.copy_out(wire, copy).await } else { self.copy_in(wire, copy).await }
    }

    async fn copy_in(&mut self, wire: &mut Wire, copy: Copy) -> Step<Outcome> {
        attempt!(self.refuse_read_only("COPY FROM"));
        let mut loading = attempt!(self.loading(&copy).await);
        attempt!(self.check_backlog(&loading.target));
        if let Some(joining) = self.joining(&loading.target, loading.targets.clone(), true) {
            loading.joining = Some(attempt!(self.join(joining).await));
        }
        match &copy.endpoint {
            // As in PostgreSQL, whose processes live in the data directory.
            CopyEndpoint::File(path) => attempt!(loading.read(&self.server.config.data_dir.join(path)).await),
            _ => {
                let wire_format = i16::from(copy.options.format == Format::Binary);
                attempt!(backend::copy_in_response(&mut wire.out, wire_format, loading.places.len()));
                attempt!(loading.receive(wire).await?);
            }
        }
        let target = loading.target.clone();
        if loading.writing.is_some() {
            let (writing, rows) = attempt!(loading.finish_foreign().await);
            attempt!(self.end_writing(writing.as_ref()).await);
            return Ok(Ok(Outcome::Tag(format!("COPY {rows}"))));
        }
        self.missing
            .extend(loading.joining.iter_mut().flat_map(|joining| std::mem::take(&mut joining.warnings)));
        let (set, rows) = attempt!(loading.finish());
        let server = Arc::clone(&self.server);
        let tables = match target.table() {
            Some(table) => vec![Arc::clone(table)],
            None => server.catalog.tables_of(set.outputs()),
        };
        let level = self.level_of(&tables);
        match self.work() {
            Some(work) => {
                work.note(&target);
                attempt!(work.add(set, &server.engine));
            }
            None => {
                let _shared = Table::share_all(&tables).await;
                let shield = Shield::lowered(&self.interrupt);
                let committed = set.commit_with(level, || shield.raise()).await;
                attempt!(committed.map_err(|e| e.into_sql(plan_error)));
            }
        }
        Ok(Ok(Outcome::Tag(format!("COPY {rows}"))))
    }

    async fn loading(&mut self, copy: &Copy) -> Result<Loading> {
        let CopySource::Relation { name, columns } = &copy.source else {
            return Err(SqlError::syntax("COPY FROM needs a stream or a table"));
        };
        if let Some(Relation::PlainView(view)) = self.server.catalog.get(public(name)?) {
            let message = format!("cannot copy to view \"{}\"", view.object.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_hint("Copy into the stream or the table that it reads."));
        }
        let target = Target::find(&self.server.catalog, name)?;
        let writing = self.begin_writing("COPY FROM", &target)?;
        if copy.options.freeze {
            let kind = match target {
                Target::Stream(_) => "stream",
                Target::Table(_) => "table",
                Target::Foreign(_) => "foreign table",
            };
            return Err(SqlError::unsupported(format!("cannot perform COPY FREEZE on a {kind}")));
        }
        // As PostgreSQL: errors of COPY do not tell the place.
        let named = |name: &String| ColumnName { name: name.clone(), position: None };
        let mut names: Vec<ColumnName> = columns.iter().map(|(name, _)| named(name)).collect();
        if let (Target::Foreign(foreign), true) = (&target, names.is_empty()) {
            names = foreign.copied(&self.server.catalog)?.iter().map(named).collect();
        }
        let places = target.columns(&names)?;
        let known = &target.stream().object;
        let shown = |i: usize| match names.get(i) {
            Some(column) => column.name.clone(),
            None => known.columns[i].0.clone(),
        };
        let columns: Vec<CopyColumn> = places
            .iter()
            .enumerate()
            .map(|(i, place)| CopyColumn {
                name: shown(i),
                ty: place.map_or(Type::new(tidemill_sql::types::Scalar::Text), |p| p.1),
            })
            .collect();
        let format = CopyFormat::new(&copy.options, &columns)?;
        let decoder = CopyDecoder::new(&format, &columns, &known.name, &self.context());
        let places: Vec<_> = places.into_iter().map(|place| place.map(|(at, _)| at)).collect();
        // Outside of a transaction block readers of views see the events while they come; a table's rows all come at once,
        // also those that a transform puts into it.
        let in_block = !matches!(self.transaction, Transaction::None);
        let is_stream = target.table().is_none();
        let has_tables = self.server.catalog.tables_behind(target.stream().id()).is_some();
        let visible = !in_block && is_stream && !has_tables;
        Ok(Loading {
            decoder,
            fill: self.fill(&target, |place| places.contains(&Some(place))).await?,
            places,
            targets: self.targets_of(&target)?,
            target,
            context: self.context(),
            vars: self.vars(),
            first_line: match (copy.options.format, copy.options.header) {
                (Format::Csv, _) => None,
                (_, CopyHeader::Off) => Some(1),
                _ => Some(2),
            },
            set: self.server.engine.begin(visible),
            joining: None,
            writing,
            waiting: Vec::new(),
        })
    }

    /// As PostgreSQL: a view is copied by a query. A continuous view has rows of its own.
    fn check_copied(&self, name: &Name) -> Result<()> {
        match self.server.catalog.get(split_nodes(public(name)?).0) {
            Some(Relation::PlainView(view)) => {
                let message = format!("cannot copy from view \"{}\"", view.object.name);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("Try the COPY (SELECT ...) TO variant."))
            }
            Some(Relation::Foreign(table)) => {
                let message = format!("cannot copy from foreign table \"{}\"", table.object.name);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint("Try the COPY (SELECT ...) TO variant."))
            }
            _ => Ok(()),
        }
    }

    async fn copy_out(&mut self, wire: &mut Wire, copy: Copy) -> Step<Outcome> {
        let (statement, text) = match &copy.source {
            CopySource::Query(query) => (ast::Statement::Query(query.clone()), query.to_string()),
            CopySource::Relation { name, columns } => {
                attempt!(self.check_copied(name));
                let quoted = |n: &str| tidemill_sql::name::quote_ident(n);
                let list: Vec<_> = columns.iter().map(|(n, _)| quoted(n)).collect();
                let list = if list.is_empty() { "*".to_string() } else { list.join(", ") };
                let text = format!("SELECT {list} FROM {}", quoted(&name.name));
                (ast::Statement::Query(attempt!(parse::parse_query(&text))), text)
            }
        };
        let mut running = attempt!(self.run_query(&statement, &text, vec![]).await);
        let mut columns = Vec::new();
        for field in running.schema.fields() {
            let name = tidemill_sql::planner::display_name(field.name()).to_string();
            columns.push(CopyColumn { name, ty: attempt!(Type::of_field(field)) });
        }
        let format = attempt!(CopyFormat::new(&copy.options, &columns));
        if let CopyEndpoint::File(path) = &copy.endpoint {
            let encoder = CopyEncoder::new(format, columns, &self.context());
            let rows = attempt!(write_file(Path::new(path), running.stream, encoder).await);
            return Ok(Ok(Outcome::Tag(format!("COPY {rows}"))));
        }
        let wire_format = i16::from(copy.options.format == Format::Binary);
        attempt!(backend::copy_out_response(&mut wire.out, wire_format, columns.len()));
        let mut encoder = CopyEncoder::new(format, columns, &self.context());
        let (mut data, mut rows) = (Vec::new(), 0);
        encoder.start(&mut data);
        // As in PostgreSQL, clients read one row from each message; the start of the binary format is in the first row's.
        if wire_format == 0 && !data.is_empty() {
            attempt!(backend::copy_data(&mut wire.out, |out| out.extend_from_slice(&data)));
            data.clear();
        }
        while let Some(batch) = wire.flush_while(running.stream.next()).await? {
            let batch = attempt!(batch.map_err(plan_error));
            rows += batch.num_rows();
            let mut start = 0;
            for end in attempt!(encoder.rows(&batch, &mut data)) {
                attempt!(backend::copy_data(&mut wire.out, |out| out.extend_from_slice(&data[start..end])));
                start = end;
            }
            data.drain(..start);
            wire.flush_if_full().await?;
        }
        encoder.finish(&mut data);
        if !data.is_empty() {
            attempt!(backend::copy_data(&mut wire.out, |out| out.extend_from_slice(&data)));
        }
        backend::copy_done(&mut wire.out);
        Ok(Ok(Outcome::Tag(format!("COPY {rows}"))))
    }
}

/// Rows on their way into a stream or a table.
struct Loading {
    decoder: CopyDecoder,
    /// The event's column of each column that comes; `None`: one that nobody reads.
    places: Vec<Option<usize>>,
    fill: Fill,
    target: Target,
    targets: Option<Arc<[ViewId]>>,
    context: Context,
    vars: SessionVars,
    /// The line of the first row; `None` in CSV, where a row may have several.
    first_line: Option<u64>,
    set: WriteSet,
    /// If the events are joined with something.
    joining: Option<Joining>,
    /// For a foreign table, instead of the set; and the rows that it is to take next.
    writing: Option<Writing>,
    waiting: Vec<RecordBatch>,
}

impl Loading {
    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.decoder.push(bytes)?;
        while let Some(batch) = self.decoder.take_batch() {
            self.add(&batch)?;
        }
        Ok(())
    }

    /// What waits for a batch to fill is added as it is: a source that gives little is to be seen too.
    fn show(&mut self) -> Result<()> {
        match self.decoder.take_any()? {
            Some(batch) => self.add(&batch),
            None => Ok(()),
        }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let stream = self.target.stream();
        let mut arrays = vec![None; stream.width()];
        for (place, array) in self.places.iter().zip(batch.columns()) {
            if let Some(place) = place {
                arrays[*place] = Some(array.clone());
            }
        }
        self.fill.apply(&mut arrays, batch.num_rows(), &self.context, || self.vars.clone())?;
        let events = stream.events(arrays, batch.num_rows(), self.context.now.us())?;
        self.target.check(&events, &self.context).map_err(|(row, error)| self.at_row(error, row))?;
        if self.writing.is_some() {
            self.waiting.push(rows_of(&events)?);
            return Ok(());
        }
        stream.count(events.num_rows(), events.get_array_memory_size());
        let none = JoinedRows::default();
        let joined = self.joining.as_ref().map_or(&none, Joining::rows);
        self.set
            .add_joining(stream.id(), self.targets.as_deref(), &events, joined)
            .map_err(|e| e.into_sql(plan_error))
    }

    /// Passes what waits on to the servers.
    async fn pass_on(&mut self) -> Result<()> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        for rows in self.waiting.drain(..) {
            writing.insert(&rows).await?;
        }
        Ok(())
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<()> {
        // A long COPY joins what the tables hold while it runs.
        if let Some(joining) = &mut self.joining {
            joining.refresh().await?;
        }
        self.push(bytes)?;
        self.pass_on().await
    }

    /// As [`Loading::finish`], for a foreign table.
    async fn finish_foreign(mut self) -> Result<(Option<Writing>, u64)> {
        while let Some(batch) = self.decoder.finish()? {
            self.add(&batch)?;
        }
        self.pass_on().await?;
        Ok((self.writing, self.decoder.rows()))
    }

    /// Tells the line of a row of the batch at hand, where lines are rows.
    fn at_row(&self, error: SqlError, row: usize) -> SqlError {
        let relation = &self.target.stream().object.name;
        error.with_context(match self.first_line {
            Some(first) => format!("COPY {relation}, line {}", first + self.set.rows() + row as u64),
            None => format!("COPY {relation}"),
        })
    }

    /// Everything is there: the write and the number of its rows.
    fn finish(mut self) -> Result<(WriteSet, u64)> {
        while let Some(batch) = self.decoder.finish()? {
            self.add(&batch)?;
        }
        Ok((self.set, self.decoder.rows()))
    }

    /// Takes what the client sends, to its end also after an error.
    async fn receive(&mut self, wire: &mut Wire) -> Step {
        let mut error: Option<SqlError> = None;
        let mut shown_at = Instant::now();
        loop {
            let received = tokio::time::timeout(SHOW_WITHIN, wire.receive()).await;
            if shown_at.elapsed() >= SHOW_WITHIN && error.is_none() {
                shown_at = Instant::now();
                error = self.show().err();
            }
            // Nothing came: what there was can be seen now.
            let Ok(message) = received else { continue };
            match message? {
                Ok(Frontend::CopyData(_)) if error.is_some() => {}
                Ok(Frontend::CopyData(bytes)) => error = self.take(&bytes).await.err(),
                Ok(Frontend::CopyDone) => break,
                Ok(Frontend::CopyFail(reason)) => {
                    let message = format!("COPY from stdin failed: {}", reason.as_str());
                    error.get_or_insert(SqlError::new(SqlState::QUERY_CANCELED, message));
                    break;
                }
                // As PostgreSQL, for the sake of pipelining clients.
                Ok(Frontend::Flush | Frontend::Sync) => {}
                Ok(_) => {
                    let message = "unexpected message type during COPY from stdin";
                    error.get_or_insert(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
                    break;
                }
                Err(violation) => {
                    error.get_or_insert(violation.error);
                    break;
                }
            }
        }
        Ok(error.map_or(Ok(()), Err))
    }

    /// Takes a file of the server.
    async fn read(&mut self, path: &Path) -> Result<()> {
        let opened = tokio::fs::File::open(path).await;
        let mut file = opened.map_err(|e| {
            file_error("open", path, " for reading", &e).with_hint(
                "COPY FROM instructs the server process to read a file. \
                 You may want a client-side facility such as psql's \\copy.",
            )
        })?;
        if file.metadata().await.is_ok_and(|m| m.is_dir()) {
            let message = format!("\"{}\" is a directory", path.display());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let mut buffer = vec![0; FILE_CHUNK_BYTES];
        let mut shown_at = Instant::now();
        loop {
            let read = file.read(&mut buffer).await.map_err(|e| file_error("read", path, "", &e))?;
            if read == 0 {
                return Ok(());
            }
            self.take(&buffer[..read]).await?;
            if shown_at.elapsed() >= SHOW_WITHIN {
                shown_at = Instant::now();
                self.show()?;
            }
        }
    }
}

/// Writes rows to a file of the server, which is made anew; returns how many.
async fn write_file(
    path: &Path,
    mut rows: SendableRecordBatchStream,
    mut encoder: CopyEncoder,
) -> Result<usize> {
    if !path.is_absolute() {
        return Err(SqlError::new(SqlState::INVALID_NAME, "relative path not allowed for COPY to file"));
    }
    let created = tokio::fs::File::create(path).await;
    let mut file = created.map_err(|e| {
        file_error("open", path, " for writing", &e).with_hint(
            "COPY TO instructs the server process to write a file. \
             You may want a client-side facility such as psql's \\copy.",
        )
    })?;
    let failed = |e: std::io::Error| file_error("write", path, "", &e);
    let (mut data, mut count) = (Vec::new(), 0);
    encoder.start(&mut data);
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(plan_error)?;
        count += batch.num_rows();
        encoder.rows(&batch, &mut data)?;
        file.write_all(&data).await.map_err(failed)?;
        data.clear();
    }
    encoder.finish(&mut data);
    file.write_all(&data).await.map_err(failed)?;
    file.flush().await.map_err(failed)?;
    Ok(count)
}

fn file_error(what: &str, path: &Path, how: &str, error: &std::io::Error) -> SqlError {
    let (state, reason) = match error.kind() {
        ErrorKind::NotFound => (SqlState::UNDEFINED_FILE, "No such file or directory".to_string()),
        ErrorKind::PermissionDenied => (SqlState::INSUFFICIENT_PRIVILEGE, "Permission denied".into()),
        ErrorKind::IsADirectory => (SqlState::WRONG_OBJECT_TYPE, "Is a directory".into()),
        ErrorKind::StorageFull => (SqlState::DISK_FULL, "No space left on device".into()),
        _ => (SqlState::IO_ERROR, error.to_string()),
    };
    SqlError::new(state, format!("could not {what} file \"{}\"{how}: {reason}", path.display()))
}
