//! One-row queries through the whole planner, against what PostgreSQL 15 answers (`*.slt` of the product's tests).

use arrow::array::{Array, AsArray, RecordBatch};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use sqlparser::ast::Statement;

use super::*;
use crate::error::{Result, SqlError};
use crate::function::textual;
use crate::types::Type;

/// Plans of one partition need no runtime: what they wait for is ready.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}

fn context() -> SessionContext {
    SessionContext::new_with_state(session_state_builder().build())
}

async fn plan(context: &SessionContext, sql: &str) -> Result<LogicalPlan> {
    let mut statement = Statement::Query(crate::parse::parse_query(sql)?);
    let state = context.state();
    prepare(&mut statement, &state)?;
    let statement = datafusion::sql::parser::Statement::Statement(Box::new(statement));
    state.statement_to_plan(statement).await.map_err(|e| plan_error_in(e, sql))
}

async fn run(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
    let plan = plan(context, sql).await?;
    let frame = context.execute_logical_plan(plan).await.map_err(plan_error)?;
    frame.collect().await.map_err(plan_error)
}

/// Rows as sqllogictest prints them.
fn rows(batches: &[RecordBatch]) -> Result<Vec<String>> {
    let vars = SessionVars::default();
    let mut out = vec![];
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(batch.schema_ref().fields()).map(|(array, field)| {
                let ty = Type::of_field(field)?;
                let array = crate::function::cast::plain_form(array)
                    .map_err(|e| SqlError::internal(e.to_string()))?;
                let text = match array.as_string_opt::<i32>() {
                    Some(text) => (!text.is_null(row)).then(|| text.value(row).to_string()),
                    None => textual::shown(&array, ty, row, &vars)?,
                };
                Ok(match text.as_deref() {
                    None => "NULL".to_string(),
                    Some("") => "(empty)".to_string(),
                    Some(text) => text.to_string(),
                })
            });
            out.push(cells.collect::<Result<Vec<_>>>()?.join(" "));
        }
    }
    Ok(out)
}

async fn check_file(text: &str) -> Vec<String> {
    let context = context();
    let mut failures = vec![];
    for record in text.split("\n\n").map(str::trim).filter(|r| r.starts_with("query")) {
        let (head, rest) = record.split_once('\n').unwrap_or((record, ""));
        let (sql, expected) = rest.split_once("\n----").unwrap_or((rest, ""));
        if head == "query error" {
            // The files' own test, through the wire, looks at detail, hint and position too.
            let wanted = expected.trim_start().lines().next().unwrap_or_default();
            let shown = match run(&context, sql).await {
                Ok(batches) => format!("{:?}", rows(&batches)),
                Err(error) => format!("{:?}: {}", error.state, error.message),
            };
            failures.extend((shown != wanted).then(|| format!("{sql}\n  {shown}\n  want: {wanted}")));
            continue;
        }
        let answer = match run(&context, sql).await {
            Ok(batches) => rows(&batches),
            Err(error) => Err(error),
        };
        let complaint = match (head.strip_prefix("query error "), answer) {
            (Some(pattern), Err(error)) => {
                let wanted = pattern.replace('\\', "");
                (!error.message.contains(&wanted))
                    .then(|| format!("error: {} ({:?})\n  want: {wanted}", error, error.state))
            }
            (Some(pattern), Ok(rows)) => Some(format!("answer: {rows:?}\n  want error: {pattern}")),
            (None, Err(error)) => {
                Some(format!("error: {} ({:?}) {:?}\n  want: {expected}", error, error.state, error.detail))
            }
            (None, Ok(rows)) => {
                let expected = expected.trim_start_matches('\n').trim_end();
                let rows = rows.join("\n");
                (rows.trim_end() != expected).then(|| format!("answer: {rows}\n  want: {expected}"))
            }
        };
        failures.extend(complaint.map(|c| format!("{sql}\n  {c}")));
    }
    failures
}

macro_rules! golden {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let text = include_str!(concat!("../../../tidemill/tests/slt/", stringify!($name), ".slt"));
            let failures = block_on(check_file(text));
            assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
        }
    )*};
}

golden!(query literal operator cast math string datetime json array function);

#[test]
fn output_columns_have_the_names_that_postgresql_gives() {
    let context = context();
    let cases = [
        ("SELECT 1, 1, 'a'", "?column? ?column? ?column?"),
        ("SELECT 1::int8, 'x'::text, true, '1'::numeric(4,2)", "int8 text ?column? numeric"),
        ("SELECT abs(1), count(*), coalesce(1, 2), CASE WHEN true THEN 1 END", "abs count coalesce case"),
        ("SELECT date '2020-01-01', interval '1 day', ARRAY[1], now()", "date interval array now"),
        ("SELECT a, t.a + 1, a::text FROM (SELECT 1 AS a) AS t", "a ?column? a"),
        ("SELECT A AS \"B\", a AS C FROM (SELECT 1 AS a) AS t", "B c"),
        ("SELECT EXISTS (SELECT 1), (SELECT max(1))", "exists max"),
        ("SELECT * FROM generate_series(1, 2) AS g", "g"),
        ("SELECT * FROM generate_series(1, 2)", "generate_series"),
    ];
    for (sql, names) in cases {
        let plan = block_on(plan(&context, sql)).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let fields = plan.schema().fields();
        let shown: Vec<&str> = fields.iter().map(|f| display_name(f.name())).collect();
        assert_eq!(shown.join(" "), names, "{sql}");
    }
}
