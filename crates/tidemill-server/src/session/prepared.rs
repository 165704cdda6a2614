//! Prepared statements, of the protocol and of SQL: one namespace, one way to execute them.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use futures::StreamExt;
use sqlparser::ast;
use tidemill_sql::insert::{Value, insert_parts, value};
use tidemill_sql::planner::{coerce, plan_error, vars};
use tidemill_sql::statement::{Parsed, Statement};
use tidemill_sql::text::Context;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState, parse};

use super::execute::{Outcome, Step, attempt};
use super::explain::COLUMN;
use super::parameter_type::parameter_types;
use super::returned::Returned;
use super::rows::{Rows, Tag, text_schema};
use super::wire::Wire;
use super::{STATEMENTS_MAX, Session};
use crate::activity::without_secrets;
use crate::insert::{InsertPlan, Parameter, Target};
use crate::query::{self, PreparedQuery, Running};
use tidemill_sql::value::{ColumnBuilder, ValueEncoder};

/// A parsed and, where it has a plan, planned statement.
pub struct Prepared {
    pub(super) body: Body,
    /// `None` for an empty text.
    pub(super) parsed: Option<Parsed>,
    /// Types of the parameters, in order.
    pub(super) parameters: Vec<Type>,
    /// Of the catalog, when it was planned.
    pub(super) version: u64,
    pub(crate) from_sql: bool,
    /// Microseconds since 1970.
    pub(crate) prepared_us: i64,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({})", self.text())
    }
}

pub(super) enum Body {
    Empty,
    Insert(Arc<InsertPlan>),
    Query(Box<PreparedQuery>),
    /// Everything else is executed from the tree; with the columns of its rows, if it returns any.
    Command(Option<SchemaRef>),
}

/// Values as Bind carries them: format and bytes.
pub(super) type Arguments = Vec<(i16, Option<Bytes>)>;

impl Prepared {
    /// The columns of its rows, `None` if it returns none.
    pub(super) fn schema(&self) -> Option<SchemaRef> {
        match &self.body {
            Body::Query(query) => Some(Arc::new(query.plan.schema().as_arrow().clone())),
            Body::Command(schema) => schema.clone(),
            Body::Empty | Body::Insert(_) => None,
        }
    }

    /// How often its query was carried out by a plan of its own, and how often by a generic plan.
    pub(crate) fn executions(&self) -> Option<(u64, u64)> {
        match &self.body {
            Body::Query(query) => Some(query.executions()),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> &str {
        self.parsed.as_ref().map_or("", |parsed| &parsed.text)
    }
}

impl Session {
    pub(super) async fn prepare(&mut self, sql: &str, given: &[Option<Type>]) -> Result<Prepared> {
        match parse::parse_one(sql).map_err(|error| without_secrets(error, sql))? {
            Some(parsed) => self.prepare_parsed(parsed, given, false).await,
            None => Ok(Prepared {
                body: Body::Empty,
                parsed: None,
                parameters: vec![],
                version: 0,
                from_sql: false,
                prepared_us: vars::now_us(),
            }),
        }
    }

    async fn prepare_parsed(
        &mut self,
        parsed: Parsed,
        given: &[Option<Type>],
        from_sql: bool,
    ) -> Result<Prepared> {
        let version = self.server.catalog.version();
        let planned = Box::pin(self.plan_body(&parsed, given)).await;
        let (body, mut parameters) = planned.map_err(|e| e.moved_by(parsed.offset))?;
        for (i, ty) in given.iter().enumerate() {
            match (ty, parameters.get_mut(i)) {
                (Some(ty), Some(slot)) => *slot = *ty,
                (ty, None) => parameters.push(ty.unwrap_or(Type::new(Scalar::Text))),
                (None, Some(_)) => {}
            }
        }
        let parsed = Some(parsed);
        Ok(Prepared { body, parsed, parameters, version, from_sql, prepared_us: vars::now_us() })
    }

    async fn plan_body(&mut self, parsed: &Parsed, given: &[Option<Type>]) -> Result<(Body, Vec<Type>)> {
        match &parsed.statement {
            Statement::Sql(statement) => match statement.as_ref() {
                ast::Statement::Insert(insert) => match self.insert_plan(insert)? {
                    Some(plan) => {
                        let types = plan.parameters.clone();
                        assignable(given, &types)?;
                        Ok((Body::Insert(Arc::new(plan)), types))
                    }
                    None => {
                        let parts = insert_parts(insert)?;
                        let target = Target::find(&self.server.catalog, &parts.name)?;
                        let returned = match &target {
                            Target::Foreign(foreign) => Returned::of_insert(&parts, foreign),
                            _ => parts.refuse_clauses().map(|()| None)?,
                        };
                        let schema = self.returned_schema(returned.as_ref(), &parsed.text).await?;
                        let source = target.source(parts.source, &target.columns(&parts.columns)?)?;
                        Ok((Body::Command(schema), self.query_types(&source, &parsed.text).await?))
                    }
                },
                statement @ (ast::Statement::Update(_) | ast::Statement::Delete(_)) => {
                    let (query, schema) = self.modifying_query(statement, &parsed.text).await?;
                    Ok((Body::Command(schema), self.query_types(&query, &parsed.text).await?))
                }
                statement => {
                    let plan = query::plan_with(&self.planner(), statement, &parsed.text, given).await?;
                    let types = parameter_types(&plan)?;
                    Ok((Body::Query(Box::new(PreparedQuery::new(plan))), types))
                }
            },
            Statement::Explain { statement, .. } => {
                let query = self.planned_query(statement, &parsed.text).await?;
                let types = self.query_types(&query, &parsed.text).await?;
                Ok((Body::Command(Some(text_schema(&[COLUMN]))), types))
            }
            Statement::DeclareCursor(declare) => {
                let types = self.query_types(&declare.query, &parsed.text).await?;
                Ok((Body::Command(None), types))
            }
            statement => Ok((Body::Command(self.command_schema(statement)?), vec![])),
        }
    }

    async fn query_types(&mut self, query: &ast::Query, text: &str) -> Result<Vec<Type>> {
        let statement = ast::Statement::Query(Box::new(query.clone()));
        parameter_types(&query::plan(&self.planner(), &statement, text).await?)
    }

    /// The columns of a command that returns rows.
    fn command_schema(&self, statement: &Statement) -> Result<Option<SchemaRef>> {
        Ok(match statement {
            Statement::Show(Some(name)) => Some(text_schema(&[&self.settings.show(name)?.0])),
            Statement::Show(None) => Some(text_schema(&["name", "setting", "description"])),
            Statement::ExplainContinuousView { .. } | Statement::ExplainExecute { .. } => {
                Some(text_schema(&[COLUMN]))
            }
            Statement::Fetch { cursor, is_move: false, .. } => {
                self.portals.get(cursor).and_then(|portal| portal.schema())
            }
            Statement::Execute { name, .. } => self.find_prepared(name)?.schema(),
            _ => None,
        })
    }

    pub(super) fn find_prepared(&self, name: &str) -> Result<&Arc<Prepared>> {
        self.statements.get(name).ok_or_else(|| no_statement(name))
    }

    pub(super) fn keep_prepared(&mut self, name: &str, prepared: Arc<Prepared>) -> Result<()> {
        if self.statements.len() >= STATEMENTS_MAX && !self.statements.contains_key(name) {
            let message = format!("a session can have at most {STATEMENTS_MAX} prepared statements");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        self.statements.insert(name.to_string(), prepared);
        Ok(())
    }

    pub(super) fn check_new_statement(&self, name: &str) -> Result<()> {
        if name.is_empty() || !self.statements.contains_key(name) {
            return Ok(());
        }
        let message = format!("prepared statement \"{name}\" already exists");
        Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message))
    }

    /// `PREPARE name (types) AS statement`.
    pub(super) async fn prepare_sql(
        &mut self,
        name: &str,
        types: &[Type],
        parsed: Parsed,
    ) -> Result<Outcome> {
        self.check_new_statement(name)?;
        let given: Vec<_> = types.iter().copied().map(Some).collect();
        let prepared = self.prepare_parsed(parsed, &given, true).await?;
        self.keep_prepared(name, Arc::new(prepared))?;
        Ok(Outcome::Tag("PREPARE".into()))
    }

    /// `EXECUTE name (expressions)`.
    pub(super) async fn execute_sql(
        &mut self,
        wire: &mut Wire,
        name: &str,
        expressions: &[ast::Expr],
    ) -> Step<Outcome> {
        let (prepared, arguments) = attempt!(self.called(name, expressions).await);
        self.execute_prepared(wire, &prepared, &arguments).await
    }

    /// The statement of an EXECUTE, and its arguments.
    pub(super) async fn called(
        &mut self,
        name: &str,
        expressions: &[ast::Expr],
    ) -> Result<(Arc<Prepared>, Arguments)> {
        let prepared = Arc::clone(self.find_prepared(name)?);
        if expressions.len() != prepared.parameters.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail =
                format!("Expected {} parameters but got {}.", prepared.parameters.len(), expressions.len());
            return Err(SqlError::syntax(message).with_detail(detail));
        }
        let arguments = self.arguments(expressions, &prepared.parameters).await?;
        Ok((prepared, arguments))
    }

    /// Evaluates the arguments of EXECUTE. Literals need no planner.
    async fn arguments(&mut self, expressions: &[ast::Expr], types: &[Type]) -> Result<Arguments> {
        let literal = |expr: &ast::Expr| match value(expr)? {
            Value::Null => Some((0, None)),
            Value::String(text) => Some((0, Some(Bytes::from(text)))),
            Value::Number(text) if !text.contains(['.', 'e', 'E']) => Some((0, Some(Bytes::from(text)))),
            _ => None,
        };
        if let Some(all) = expressions.iter().map(literal).collect::<Option<Arguments>>() {
            return Ok(all);
        }
        let casts = expressions.iter().zip(types).map(|(expr, ty)| parse::cast_of(expr.clone(), *ty));
        let query = parse::select_of(casts.collect::<Result<Vec<_>>>()?)?;
        let text = query.to_string();
        let statement = ast::Statement::Query(Box::new(query));
        let mut running = self.run_query(&statement, &text, vec![]).await?;
        let batch = running.stream.next().await.transpose().map_err(plan_error)?;
        let batch = batch.ok_or_else(|| SqlError::internal("arguments without a row"))?;
        let context = self.context();
        let encode = |(array, ty): (&arrow::array::ArrayRef, &Type)| {
            let encoder = ValueEncoder::new(array, *ty, &context)?;
            if encoder.is_null(0) {
                return Ok((0, None));
            }
            let mut text = Vec::new();
            encoder.write_text(0, &mut text)?;
            Ok((0, Some(Bytes::from(text))))
        };
        batch.columns().iter().zip(types).map(encode).collect()
    }

    /// Executes a prepared statement, which is planned anew if the catalog has changed.
    pub(super) async fn execute_prepared(
        &mut self,
        wire: &mut Wire,
        prepared: &Arc<Prepared>,
        arguments: &Arguments,
    ) -> Step<Outcome> {
        let Some(parsed) = &prepared.parsed else { return Ok(Ok(Outcome::Empty)) };
        attempt!(self.check_failed(&parsed.statement));
        let prepared = &attempt!(self.current(prepared).await);
        match &prepared.body {
            Body::Insert(plan) => {
                let assigned = attempt!(self.assigned(arguments, &prepared.parameters, plan));
                let parameters: Vec<Parameter<'_>> = match &assigned {
                    Some(texts) => texts.iter().map(|text| (0, text.as_deref())).collect(),
                    None => arguments.iter().map(|(format, bytes)| (*format, bytes.as_deref())).collect(),
                };
                Ok(self.insert_now(plan, &parameters).await)
            }
            Body::Query(query) => {
                let values = attempt!(self.scalars(arguments, &prepared.parameters));
                let running = attempt!(Box::pin(self.run_prepared(query, values)).await);
                Ok(Ok(Outcome::Rows(Rows::of_query(running, Tag::Counted("SELECT")), vec![])))
            }
            Body::Empty | Body::Command(_) => {
                let values = attempt!(self.scalars(arguments, &prepared.parameters));
                Box::pin(self.execute(wire, parsed.clone(), None, values)).await
            }
        }
    }

    async fn run_prepared(&mut self, query: &PreparedQuery, values: Vec<ScalarValue>) -> Result<Running> {
        self.start_query()?;
        let basis = self.basis();
        if let Some(running) = self.run_kept(query.kept(), &basis).await? {
            query.note_kept();
            return Ok(running);
        }
        if query.wants_plan() {
            let state = self.planner();
            query.make_plan(&state).await;
        }
        let reads = self.work().map(|work| work.reads()).unwrap_or_default();
        match query.run(&self.server, &values, reads)? {
            Some(running) => Ok(running),
            None if values.is_empty() => {
                let (running, kept) = self.run_keeping(self.planner(), query.plan.clone(), basis).await?;
                query.keep(kept);
                Ok(running)
            }
            None => self.run_plan(self.planner(), query.plan.clone(), values).await,
        }
    }

    /// The statement as it is planned now.
    pub(super) async fn current(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Prepared>> {
        let is_planned = matches!(prepared.body, Body::Insert(_) | Body::Query(_));
        match is_planned && prepared.version != self.server.catalog.version() {
            true => Box::pin(self.renew(prepared)).await,
            false => Ok(Arc::clone(prepared)),
        }
    }

    async fn renew(&mut self, old: &Arc<Prepared>) -> Result<Arc<Prepared>> {
        let Some(parsed) = old.parsed.clone() else { return Ok(Arc::clone(old)) };
        let given: Vec<_> = old.parameters.iter().copied().map(Some).collect();
        let mut new = self.prepare_parsed(parsed, &given, old.from_sql).await?;
        let shape = |p: &Prepared| {
            p.schema().map(|s| s.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>())
        };
        if shape(&new) != shape(old) {
            return Err(SqlError::unsupported("cached plan must not change result type"));
        }
        new.prepared_us = old.prepared_us;
        let new = Arc::new(new);
        for slot in self.statements.values_mut().filter(|slot| Arc::ptr_eq(slot, old)) {
            *slot = Arc::clone(&new);
        }
        Ok(new)
    }

    /// The parameters of an insert as texts of its columns' types, if the client declared other types.
    fn assigned(
        &self,
        arguments: &Arguments,
        declared: &[Type],
        plan: &InsertPlan,
    ) -> Result<Option<Vec<Option<Vec<u8>>>>> {
        if declared.iter().zip(&plan.parameters).all(|(from, to)| from.oid() == to.oid()) {
            return Ok(None);
        }
        let (context, vars) = (self.context(), self.vars());
        let text = |((format, bytes), (from, to)): (&(i16, Option<Bytes>), (&Type, &Type))| {
            let Some(bytes) = bytes else { return Ok(None) };
            let value = scalar((*format, Some(bytes)), *from, &context)?;
            let array = value.to_array().map_err(plan_error)?;
            let array = tidemill_sql::function::cast::cast(&array, *from, *to, false, &vars)?;
            let mut text = Vec::new();
            ValueEncoder::new(&array, *to, &context)?.write_text(0, &mut text)?;
            Ok(Some(text))
        };
        let types = declared.iter().zip(&plan.parameters);
        arguments.iter().zip(types).map(text).collect::<Result<_>>().map(Some)
    }

    pub(super) fn scalars(&self, arguments: &Arguments, types: &[Type]) -> Result<Vec<ScalarValue>> {
        let context = self.context();
        let pairs = arguments.iter().zip(types);
        pairs.map(|((format, bytes), ty)| scalar((*format, bytes.as_deref()), *ty, &context)).collect()
    }

    /// `DEALLOCATE name`, or `DEALLOCATE ALL`.
    pub(super) fn deallocate(&mut self, name: Option<&str>) -> Result<Outcome> {
        match name {
            None => {
                self.statements.clear();
                Ok(Outcome::Tag("DEALLOCATE ALL".into()))
            }
            Some(name) => {
                self.statements.remove(name).ok_or_else(|| no_statement(name))?;
                Ok(Outcome::Tag("DEALLOCATE".into()))
            }
        }
    }
}

/// A parameter of a query as a scalar.
fn scalar(parameter: Parameter<'_>, ty: Type, context: &Context) -> Result<ScalarValue> {
    let mut builder = ColumnBuilder::new(ty, context, 1);
    match parameter {
        (_, None) => builder.append_null(),
        (0, Some(bytes)) => builder.append_text(bytes)?,
        (_, Some(bytes)) => builder.append_binary(bytes)?,
    }
    ScalarValue::try_from_array(&builder.finish(), 0).map_err(|e| SqlError::internal(e.to_string()))
}

/// Whether parameters of declared types can be put into columns of these types.
fn assignable(declared: &[Option<Type>], columns: &[Type]) -> Result<()> {
    for (declared, column) in declared.iter().zip(columns) {
        let Some(declared) = declared else { continue };
        if !coerce::castable(*declared, *column, coerce::Context::Assignment) {
            let (column, declared) = (column.with_typmod(-1).display(), declared.with_typmod(-1).display());
            let message = format!("a column is of type {column} but its parameter is of type {declared}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .with_hint("You will need to rewrite or cast the expression."));
        }
    }
    Ok(())
}

fn no_statement(name: &str) -> SqlError {
    let message = match name {
        "" => "unnamed prepared statement does not exist".to_string(),
        name => format!("prepared statement \"{name}\" does not exist"),
    };
    SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
}
