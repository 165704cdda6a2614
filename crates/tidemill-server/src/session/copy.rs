//! COPY between the client and a stream, or out of a query.

use std::time::{Duration, Instant};

use futures::StreamExt;
use sqlparser::ast;
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::{Copy, CopyEndpoint, CopyFormat as Format, CopySource};
use tidemill_sql::types::Type;
use tidemill_sql::{SqlError, SqlState, parse};
use tidemill_stream::stream::StreamDefinition;

use super::execute::{Outcome, Step, attempt};
use super::interrupt::Shield;
use super::wire::Wire;
use super::{Session, Transaction};
use crate::copy::{CopyColumn, CopyDecoder, CopyEncoder, CopyFormat};
use crate::insert::{event_columns, target};
use crate::pg::backend;
use crate::pg::frontend::Frontend;

/// Rows of a COPY that goes on can be seen this much later at most, and as much again.
const SHOW_WITHIN: Duration = Duration::from_millis(30);

impl Session {
    pub(super) async fn copy(&mut self, wire: &mut Wire, copy: Copy) -> Step<Outcome> {
        if copy.endpoint != CopyEndpoint::Client {
            return Ok(Err(SqlError::unsupported(
                "COPY with a file or program of the server is not supported yet",
            )
            .with_position(1)
            .with_hint("Use psql's \\copy, which sends a file of the client.")));
        }
        if copy.to { self.copy_out(wire, copy).await } else { self.copy_in(wire, copy).await }
    }

    async fn copy_in(&mut self, wire: &mut Wire, copy: Copy) -> Step<Outcome> {
        attempt!(self.refuse_read_only("COPY FROM"));
        let CopySource::Relation { name, columns } = &copy.source else {
            return Ok(Err(SqlError::syntax("COPY FROM needs a stream")));
        };
        let stream = attempt!(target(&self.server, name));
        let names: Vec<String> = columns.iter().map(|(n, _)| n.clone()).collect();
        let places = attempt!(event_columns(&stream, &names));
        let shown = |i: usize| match names.get(i) {
            Some(name) => name.clone(),
            None => stream.object.columns[i].0.clone(),
        };
        let columns: Vec<CopyColumn> = places
            .iter()
            .enumerate()
            .map(|(i, place)| CopyColumn {
                name: shown(i),
                ty: place.map_or(Type::new(tidemill_sql::types::Scalar::Text), |p| p.1),
            })
            .collect();
        let format = attempt!(CopyFormat::new(&copy.options, &columns));
        let mut decoder = CopyDecoder::new(&format, &columns, &stream.object.name, &self.context());
        let wire_format = i16::from(copy.options.format == Format::Binary);
        attempt!(backend::copy_in_response(&mut wire.out, wire_format, columns.len()));
        let schema = stream.definition.event_schema();
        let targets = attempt!(self.targets());
        // Outside of a transaction block readers see the rows while they come.
        let in_block = !matches!(self.transaction, Transaction::None);
        let mut set = self.server.engine.begin(!in_block);
        let began_us = self.began_us;
        let mut error: Option<SqlError> = None;
        let add = |set: &mut tidemill_stream::engine::WriteSet, batch: arrow::array::RecordBatch| {
            let mut arrays = vec![None; schema.fields().len()];
            for (place, array) in places.iter().zip(batch.columns()) {
                if let Some((place, _)) = place {
                    arrays[*place] = Some(array.clone());
                }
            }
            let events = StreamDefinition::event_batch(&schema, arrays, batch.num_rows(), began_us)
                .map_err(plan_error)?;
            stream.count(events.num_rows(), events.get_array_memory_size());
            set.add(stream.id(), targets.as_deref(), &events).map_err(|e| e.into_sql(plan_error))
        };
        let mut shown_at = Instant::now();
        loop {
            let received = tokio::time::timeout(SHOW_WITHIN, wire.receive()).await;
            if shown_at.elapsed() >= SHOW_WITHIN && error.is_none() {
                shown_at = Instant::now();
                // A client that sends little has rows waiting for a batch to fill.
                let mut show = || decoder.take_any()?.map_or(Ok(()), |batch| add(&mut set, batch));
                error = show().err();
            }
            // Nothing came: what there was can be seen now.
            let Ok(message) = received else { continue };
            match message? {
                Ok(Frontend::CopyData(_)) if error.is_some() => {}
                Ok(Frontend::CopyData(bytes)) => {
                    let mut take = || {
                        decoder.push(&bytes)?;
                        while let Some(batch) = decoder.take_batch() {
                            add(&mut set, batch)?;
                        }
                        Ok(())
                    };
                    error = take().err();
                }
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
        if let Some(error) = error {
            return Ok(Err(error));
        }
        while let Some(batch) = attempt!(decoder.finish()) {
            attempt!(add(&mut set, batch));
        }
        let rows = decoder.rows();
        let server = std::sync::Arc::clone(&self.server);
        let level = self.level();
        match self.work() {
            Some(work) => attempt!(work.add(set, &server.engine)),
            None => {
                let shield = Shield::lowered(&self.interrupt);
                let committed = set.commit_with(level, || shield.raise()).await;
                attempt!(committed.map_err(|e| e.into_sql(plan_error)));
            }
        }
        Ok(Ok(Outcome::Tag(format!("COPY {rows}"))))
    }

    async fn copy_out(&mut self, wire: &mut Wire, copy: Copy) -> Step<Outcome> {
        let (statement, text) = match &copy.source {
            CopySource::Query(query) => (ast::Statement::Query(query.clone()), query.to_string()),
            CopySource::Relation { name, columns } => {
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
        while let Some(batch) = running.stream.next().await {
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
