//! Rules over servers of which some can follow them and others cannot.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use arrow::util::pretty::pretty_format_batches;
use async_trait::async_trait;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::collect;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use tidemill_federation::connector::{Capabilities, Connector, ImportedTable, RemoteQuery};
use tidemill_federation::multi_tenant::ChildTable;
use tidemill_federation::snapshot::Shared;
use tidemill_federation::{ForeignColumn, ForeignTable, MultiTenantTable, TableDefinition, pushdown};
use tidemill_sql::Result;
use tidemill_sql::planner::{self, session_state_builder};
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::{Scalar, Type};

static ALL: Capabilities =
    Capabilities { comparable: |_| true, byte_order: "", limit: true, order: true, aggregates: true };
static NONE: Capabilities =
    Capabilities { comparable: |_| false, byte_order: "", limit: false, order: false, aggregates: false };

/// Answers queries that it knows, and remembers what it was asked.
struct Recorded {
    capabilities: &'static Capabilities,
    answers: HashMap<&'static str, Vec<ArrayRef>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorded")
    }
}

#[async_trait]
impl Connector for Recorded {
    fn capabilities(&self) -> &'static Capabilities {
        self.capabilities
    }

    fn rows(
        self: Arc<Self>,
        query: Arc<RemoteQuery>,
        schema: SchemaRef,
        _: usize,
        _: Option<Arc<Shared>>,
        _: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream {
        self.asked.lock().unwrap().push(query.sql.clone());
        let answer = self.answers.get(query.sql.as_str()).unwrap_or_else(|| panic!("{}", query.sql));
        let batch = RecordBatch::try_new(Arc::clone(&schema), answer.clone()).unwrap();
        Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter([Ok(batch)])))
    }

    async fn tables(&self, _: &str, _: &ImportSelection) -> Result<Option<Vec<ImportedTable>>> {
        Ok(None)
    }
}

/// The rows of a query over `m`, whose child on `able` can do all and that on `plain` nothing; and what they were asked.
async fn run(
    sql: &str,
    able: impl IntoIterator<Item = (&'static str, Vec<ArrayRef>)>,
    plain: impl IntoIterator<Item = (&'static str, Vec<ArrayRef>)>,
) -> (String, Vec<String>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let column =
        |name: &str, scalar| ForeignColumn { name: name.into(), ty: Type::new(scalar), remote: name.into() };
    let child = |server: &str, capabilities, answers| {
        let definition = TableDefinition {
            name: format!("m__{server}__0"),
            columns: vec![column("g", Scalar::Text), column("x", Scalar::Float8)],
            remote_schema: String::new(),
            remote_table: "m".into(),
        };
        let connector = Recorded { capabilities, answers, asked: Arc::clone(&asked) };
        ChildTable {
            name: definition.name.clone(),
            server: server.into(),
            table: Arc::new(ForeignTable::new(
                Arc::new(definition),
                Arc::new(connector),
                pushdown::Pushdown::default(),
            )),
        }
    };
    let table = MultiTenantTable {
        name: "m".into(),
        columns: vec![("g".into(), Type::new(Scalar::Text)), ("x".into(), Type::new(Scalar::Float8))],
        children: vec![
            child("able", &ALL, able.into_iter().collect()),
            child("plain", &NONE, plain.into_iter().collect()),
        ],
    };
    let mut builder = session_state_builder();
    for rule in pushdown::rules() {
        builder = builder.with_physical_optimizer_rule(rule);
    }
    let context = SessionContext::new_with_state(builder.build());
    context.register_table("m", table.provider().unwrap()).unwrap();
    let state = context.state();
    let mut statement = sqlparser_statement(sql);
    planner::prepare(&mut statement, &state).unwrap();
    let statement = datafusion::sql::parser::Statement::Statement(Box::new(statement));
    let plan = state.statement_to_plan(statement).await.unwrap();
    let plan = state.create_physical_plan(&plan).await.unwrap();
    let batches = collect(plan, context.task_ctx()).await.unwrap();
    let mut asked = asked.lock().unwrap().clone();
    asked.sort();
    (pretty_format_batches(&batches).unwrap().to_string(), asked)
}

fn sqlparser_statement(sql: &str) -> datafusion::sql::sqlparser::ast::Statement {
    datafusion::sql::sqlparser::ast::Statement::Query(tidemill_sql::parse::parse_query(sql).unwrap())
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn floats(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

/// States of one side are merged with those that are made here of the rows of the other.
#[tokio::test]
async fn a_side_that_cannot_aggregate_is_folded_here() {
    let states = r#"SELECT "g", coalesce(sum("x"), 0), count("x"), coalesce(sum("x") IN ('Infinity', '-Infinity'), false) FROM "m" GROUP BY 1"#;
    let rows = r#"SELECT "g", "x" FROM "m""#;
    let (answer, asked) = run(
        "SELECT g, avg(x) AS mean FROM m GROUP BY g ORDER BY g",
        [(
            states,
            vec![
                texts(&["a", "b"]),
                floats(&[10.0, 1.0]),
                Arc::new(Int64Array::from(vec![4, 1])),
                Arc::new(BooleanArray::from(vec![false, false])),
            ],
        )],
        [(rows, vec![texts(&["a", "c"]), floats(&[5.0, 7.0])])],
    )
    .await;
    assert_eq!(asked, [rows, states]);
    let wanted = "\
+---+------+
| g | mean |
+---+------+
| a | 3.0  |
| b | 1.0  |
| c | 7.0  |
+---+------+";
    assert_eq!(answer, wanted);
}

/// A side that cannot sort sends all it has.
#[tokio::test]
async fn a_side_that_cannot_sort_is_sorted_here() {
    let first = r#"SELECT "x" FROM "m" ORDER BY "x" DESC NULLS FIRST LIMIT 2"#;
    let all = r#"SELECT "x" FROM "m""#;
    let (answer, asked) = run(
        "SELECT x FROM m ORDER BY x DESC LIMIT 2",
        [(first, vec![floats(&[3.0, 1.0])])],
        [(all, vec![floats(&[0.0, 9.0, 2.0])])],
    )
    .await;
    assert_eq!(asked, [all, first]);
    assert_eq!(answer, "+-----+\n| x   |\n+-----+\n| 9.0 |\n| 3.0 |\n+-----+");
}
