//! The extended protocol: Parse, Bind, Describe, Execute, Close.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::logical_expr::LogicalPlan;
use futures::StreamExt;
use sqlparser::ast;
use tidemill_sql::insert::insert_shape;
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::{Parsed, Statement};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState, parse};

use super::execute::{Step, attempt, describe, scalar, write_rows};
use super::wire::Wire;
use super::{STATEMENTS_MAX, Session, Transaction};
use crate::insert::{InsertPlan, Parameter};
use crate::pg::backend;
use crate::pg::frontend::{Bind, Frontend, Parse, Target};
use crate::query;

/// A prepared statement.
pub struct Prepared {
    body: Body,
    parsed: Option<Parsed>,
    /// Types of the parameters, in order.
    parameters: Vec<Type>,
}

enum Body {
    Empty,
    Insert(Arc<InsertPlan>),
    /// A query, planned when it was parsed: its result's columns are known. It is planned again at each execution,
    /// because relations may have changed.
    Query(LogicalPlan),
    /// Everything else is executed as in the simple protocol.
    Command,
}

/// A prepared statement with its parameters.
pub struct Portal {
    prepared: Arc<Prepared>,
    formats: Vec<i16>,
    parameters: Vec<(i16, Option<Bytes>)>,
    /// A query that has been started and not finished.
    running: Option<query::Running>,
    rest: Option<arrow::array::RecordBatch>,
    rows: usize,
}

impl Session {
    pub(super) async fn extended(&mut self, wire: &mut Wire, message: Frontend) -> Step {
        match message {
            Frontend::Parse(parse) => Ok(self.parse(wire, parse).await),
            Frontend::Bind(bind) => Ok(self.bind(wire, &bind)),
            Frontend::Describe(target) => Ok(self.describe_target(wire, &target)),
            Frontend::Execute { portal, rows_max } => {
                self.execute_portal(wire, portal.as_str(), rows_max).await
            }
            Frontend::Close(target) => {
                match target {
                    Target::Statement(name) => drop(self.statements.remove(name.as_str())),
                    Target::Portal(name) => drop(self.portals.remove(name.as_str())),
                }
                backend::close_complete(&mut wire.out);
                Ok(Ok(()))
            }
            other => {
                Ok(Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, format!("unexpected message {other:?}"))))
            }
        }
    }

    async fn parse(&mut self, wire: &mut Wire, message: Parse) -> Result<()> {
        let name = message.name.as_str();
        if !name.is_empty() && self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        if self.statements.len() >= STATEMENTS_MAX {
            let message = format!("a session can have at most {STATEMENTS_MAX} prepared statements");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let given = message
            .param_oids
            .iter()
            .map(|oid| match oid {
                0 => Ok(None),
                oid => Type::from_oid(*oid).map(Some).ok_or_else(|| {
                    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {oid} does not exist"))
                }),
            })
            .collect::<Result<Vec<_>>>()?;
        let prepared = self.prepare_statement(message.sql.as_str(), &given).await?;
        self.statements.insert(name.to_string(), Arc::new(prepared));
        backend::parse_complete(&mut wire.out);
        Ok(())
    }

    async fn prepare_statement(&mut self, sql: &str, given: &[Option<Type>]) -> Result<Prepared> {
        let Some(parsed) = parse::parse_one(sql)? else {
            return Ok(Prepared { body: Body::Empty, parsed: None, parameters: vec![] });
        };
        let (body, mut parameters) = match &parsed.statement {
            Statement::Sql(statement) => match statement.as_ref() {
                ast::Statement::Insert(insert) => match insert_shape(insert) {
                    Some(shape) => {
                        let plan = InsertPlan::new(&self.server, shape)?;
                        let types = plan.parameters.clone();
                        (Body::Insert(Arc::new(plan)), types)
                    }
                    None => (Body::Command, vec![]),
                },
                statement => {
                    let state = self.planner();
                    let plan = query::plan(&state, statement, &parsed.text).await?;
                    let types = parameter_types(&plan)?;
                    (Body::Query(plan), types)
                }
            },
            _ => (Body::Command, vec![]),
        };
        for (i, ty) in given.iter().enumerate() {
            match (ty, parameters.get_mut(i)) {
                (Some(ty), Some(slot)) => *slot = *ty,
                (ty, None) => parameters.push(ty.unwrap_or(Type::new(Scalar::Text))),
                (None, Some(_)) => {}
            }
        }
        Ok(Prepared { body, parsed: Some(parsed), parameters })
    }

    fn bind(&mut self, wire: &mut Wire, bind: &Bind) -> Result<()> {
        let name = bind.statement();
        let prepared = self.statements.get(name).cloned().ok_or_else(|| no_statement(name))?;
        let parameters: Vec<(i16, Option<Bytes>)> = bind
            .params()
            .enumerate()
            .map(|(i, p)| (bind.param_formats().get(i), p.map(|p| bind.body().slice_ref(p))))
            .collect();
        if parameters.len() != prepared.parameters.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{name}\" requires {}",
                parameters.len(),
                prepared.parameters.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        let formats = bind.result_formats().iter().collect();
        let portal = Portal { prepared, formats, parameters, running: None, rest: None, rows: 0 };
        self.portals.insert(bind.portal().to_string(), portal);
        backend::bind_complete(&mut wire.out);
        Ok(())
    }

    fn describe_target(&self, wire: &mut Wire, target: &Target) -> Result<()> {
        let (prepared, formats) = match target {
            Target::Statement(name) => {
                let prepared =
                    self.statements.get(name.as_str()).ok_or_else(|| no_statement(name.as_str()))?;
                let oids: Vec<u32> = prepared.parameters.iter().map(|t| t.oid()).collect();
                backend::parameter_description(&mut wire.out, &oids)?;
                (prepared, [].as_slice())
            }
            Target::Portal(name) => {
                let portal = self.portals.get(name.as_str()).ok_or_else(|| no_portal(name.as_str()))?;
                (&portal.prepared, portal.formats.as_slice())
            }
        };
        match &prepared.body {
            Body::Query(plan) => {
                let schema: SchemaRef = Arc::new(plan.schema().as_arrow().clone());
                describe(wire, &schema, formats)
            }
            _ => {
                backend::no_data(&mut wire.out);
                Ok(())
            }
        }
    }

    async fn execute_portal(&mut self, wire: &mut Wire, name: &str, rows_max: Option<u32>) -> Step {
        let mut portal = match self.portals.remove(name) {
            Some(portal) => portal,
            None => return Ok(Err(no_portal(name))),
        };
        let prepared = Arc::clone(&portal.prepared);
        if matches!(self.transaction, Transaction::Failed) && !matches!(prepared.body, Body::Command) {
            return Ok(Err(SqlError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            )));
        }
        match (&prepared.body, &prepared.parsed) {
            (Body::Empty, _) | (_, None) => {
                backend::empty_query_response(&mut wire.out);
                Ok(Ok(()))
            }
            (Body::Insert(plan), _) => {
                let parameters: Vec<Parameter<'_>> =
                    portal.parameters.iter().map(|(f, p)| (*f, p.as_deref())).collect();
                // What follows up to Sync belongs to the same transaction.
                let more = matches!(self.transaction, Transaction::None) && !wire.next_is_sync();
                if more {
                    self.transaction = Transaction::Implicit(None);
                }
                let result = self.insert_now(wire, plan, &parameters).await;
                self.portals.insert(name.to_string(), portal);
                Ok(result)
            }
            (Body::Command, Some(parsed)) => {
                let parsed = parsed.clone();
                self.show_busy(&parsed.text);
                let result = self.execute(wire, parsed, None).await?;
                Ok(result)
            }
            (Body::Query(plan), Some(parsed)) => {
                if portal.running.is_none() {
                    self.show_busy(&parsed.text);
                    self.start_statement();
                    let state = self.planner();
                    let mut values = Vec::new();
                    for ((format, bytes), ty) in portal.parameters.iter().zip(&prepared.parameters) {
                        values.push(attempt!(scalar((*format, bytes.as_deref()), *ty, &self.context())));
                    }
                    portal.running =
                        Some(attempt!(query::run(&self.server, state, plan.clone(), values).await));
                }
                let done = self.send_portal(wire, &mut portal, rows_max).await?;
                self.portals.insert(name.to_string(), portal);
                Ok(done)
            }
        }
    }

    /// Sends up to `rows_max` rows of a portal.
    async fn send_portal(&mut self, wire: &mut Wire, portal: &mut Portal, rows_max: Option<u32>) -> Step {
        let mut room = rows_max.map_or(usize::MAX, |n| n as usize);
        let context = self.context();
        loop {
            let batch = match portal.rest.take() {
                Some(batch) => Some(batch),
                None => match portal.running.as_mut() {
                    Some(running) => {
                        let next = attempt!(running.stream.next().await.transpose().map_err(plan_error));
                        attempt!(next.map(|batch| running.with_names(batch, &portal.formats)).transpose())
                    }
                    None => None,
                },
            };
            let Some(batch) = batch else { break };
            let count = batch.num_rows().min(room);
            attempt!(write_rows(wire, &batch.slice(0, count), &context, &portal.formats));
            portal.rows += count;
            room -= count;
            if count < batch.num_rows() {
                portal.rest = Some(batch.slice(count, batch.num_rows() - count));
            }
            if room == 0 {
                backend::portal_suspended(&mut wire.out);
                return Ok(Ok(()));
            }
            wire.flush_if_full().await?;
        }
        if let Some(snapshots) = portal.running.as_ref().and_then(|running| running.snapshots.as_ref()) {
            attempt!(self.take_changes(wire, snapshots));
        }
        backend::command_complete(&mut wire.out, &format!("SELECT {}", portal.rows));
        Ok(Ok(()))
    }
}

/// Types of `$1 …`; a parameter whose type nothing tells is text.
fn parameter_types(plan: &LogicalPlan) -> Result<Vec<Type>> {
    let found = plan.get_parameter_types().map_err(plan_error)?;
    let mut types = Vec::new();
    for (name, data_type) in found {
        let number: usize = name.trim_start_matches('$').parse().unwrap_or(0);
        if number == 0 {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter {name}"),
            ));
        }
        if types.len() < number {
            types.resize(number, Type::new(Scalar::Text));
        }
        if let Some(data_type) = data_type {
            types[number - 1] = Type::from_arrow(&data_type)?;
        }
    }
    Ok(types)
}

fn no_statement(name: &str) -> SqlError {
    let message = match name {
        "" => "unnamed prepared statement does not exist".to_string(),
        name => format!("prepared statement \"{name}\" does not exist"),
    };
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}
