//! A server of the test's own: it carries out what it is asked, which is SQL as it is here, and remembers it.

use std::fmt;
use std::sync::{Arc, Mutex};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use async_trait::async_trait;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::physical_plan::collect;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use tidemill_federation::bound::Bounds;
use tidemill_federation::connector::{
    Aggregate, Capabilities, Connector, Function, ImportedTable, Logic, RemoteQuery,
};
use tidemill_federation::dialect::{Comparison, Dialect, Operand};
use tidemill_federation::multi_tenant::ChildTable;
use tidemill_federation::postgres::dialect::PostgresDialect;
use tidemill_federation::pushdown::{self, Pushdown};
use tidemill_federation::snapshot::Shared;
use tidemill_federation::{ForeignColumn, ForeignTable, MultiTenantTable, Options, TableDefinition};
use tidemill_sql::Result;
use tidemill_sql::parse::parse_query;
use tidemill_sql::planner::{self, session_state_builder};
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::{Scalar, Type};

/// SQL as it is here.
#[derive(Debug)]
struct OwnDialect;

impl Dialect for OwnDialect {
    fn literal(&self, value: &ScalarValue, ty: Type) -> Option<String> {
        PostgresDialect.literal(value, ty)
    }

    fn float_sum(&self, operand: &Operand) -> (String, String) {
        PostgresDialect.float_sum(operand)
    }
}

const TYPES: &[Scalar] = &[Scalar::Text, Scalar::Int4, Scalar::Float8, Scalar::Numeric];
const NUMBERS: &[Scalar] = &[Scalar::Int4, Scalar::Float8, Scalar::Numeric];

/// A server that can do all there is.
pub static ABLE: Capabilities = Capabilities {
    dialect: &OwnDialect,
    label: "Remote SQL",
    comparisons: &Comparison::ALL,
    lists: true,
    logic: &[Logic::And, Logic::Or, Logic::Not, Logic::IsNull, Logic::Truth, Logic::Like],
    equal: TYPES,
    ordered: TYPES,
    grouped: &[Scalar::Text, Scalar::Int4],
    grouped_by_key: &[Scalar::Float8, Scalar::Numeric],
    aggregates: &[
        Aggregate { names: &["count"], of: &[] },
        Aggregate { names: &["sum", "avg"], of: NUMBERS },
        Aggregate { names: &["min", "max"], of: TYPES },
        Aggregate { names: &["variance", "stddev_pop"], of: &[Scalar::Int4, Scalar::Numeric] },
        Aggregate { names: &["bit_or"], of: &[Scalar::Int4] },
    ],
    joins: true,
    limit: true,
    sort: true,
    functions: &[
        Function::new(&["*"], &[&[Scalar::Numeric], &[Scalar::Numeric]]),
        Function::new(&["length"], &[&[Scalar::Text]]),
    ],
    functions_in_utc: &[],
    casts: &[(Scalar::Int4, Scalar::Numeric)],
    casts_in_utc: &[],
    mixed: &[],
    cases: false,
    modifiers: true,
    prunes: false,
};
/// A server that only gives its rows.
pub static PLAIN: Capabilities = Capabilities::none(&OwnDialect, "Remote SQL");
/// A server whose texts are in another order, and that knows no order of nulls.
pub static PARTIAL: Capabilities = Capabilities {
    comparisons: &[Comparison::Equal, Comparison::Less],
    logic: &[Logic::And],
    equal: &[Scalar::Int4],
    ordered: &[Scalar::Int4],
    grouped: &[Scalar::Int4],
    grouped_by_key: &[],
    aggregates: &[
        Aggregate { names: &["count"], of: &[] },
        Aggregate { names: &["max"], of: &[Scalar::Int4] },
    ],
    limit: true,
    ..Capabilities::none(&OwnDialect, "Remote SQL")
};

/// The name of a node that never answers.
pub const HANGS: &str = "hangs";

/// What `m` holds, by the name of the node.
pub struct Node {
    pub name: &'static str,
    pub capabilities: &'static Capabilities,
    /// `SELECT …` or `VALUES …`: g text, i int4, x float8. There is `n` as well, which is `i` with so many decimals as the
    /// node's name has letters.
    pub rows: &'static str,
}

struct Recorded {
    node: String,
    capabilities: &'static Capabilities,
    state: SessionState,
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
        _: Bounds,
        _: Option<Arc<Shared>>,
        _: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream {
        self.asked.lock().unwrap().push(format!("{}: {}", self.node, query.sql));
        if self.node == HANGS {
            return Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::pending()));
        }
        let answer = {
            let schema = Arc::clone(&schema);
            async move {
                let batches = run(&self.state, &query.sql).await;
                let fit = |batch: RecordBatch| {
                    let columns = batch.columns()[..schema.fields().len()].to_vec();
                    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                    RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
                        .map_err(DataFusionError::from)
                };
                futures::stream::iter(batches.into_iter().map(fit).collect::<Vec<_>>())
            }
        };
        let rows = futures::FutureExt::flatten_stream(answer);
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    async fn tables(&self, _: &str, _: &ImportSelection, _: &Options) -> Result<Option<Vec<ImportedTable>>> {
        Ok(None)
    }
}

/// The multi-tenant table `m` over nodes, tables of their own by their names, and what they were asked.
pub struct Setting {
    state: SessionState,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Setting {
    pub async fn new(nodes: &[Node], pushdown: Pushdown) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let mut children = Vec::new();
        for node in nodes {
            children.push(child(node, pushdown, &asked).await);
        }
        let of_nodes: Vec<_> =
            children.iter().map(|child| (child.server.clone(), Arc::clone(&child.table))).collect();
        let columns = columns().into_iter().map(|column| (column.name, column.ty)).collect();
        let table = MultiTenantTable { name: "m".into(), columns, children };
        let rules = pushdown::rules(planner::physical_rules());
        let mut state = session_state_builder().with_physical_optimizer_rules(rules).build();
        pushdown.configure(state.config_mut().options_mut());
        let context = SessionContext::new_with_state(state);
        context.register_table("m", table.provider().unwrap()).unwrap();
        for (name, table) in of_nodes {
            context.register_table(name, table).unwrap();
        }
        Self { state: context.state(), asked }
    }

    /// The rows of a query, one line each, and what the nodes were asked for them.
    pub async fn query(&self, sql: &str) -> (Vec<String>, Vec<String>) {
        let batches = run(&self.state, sql).await;
        let shown = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        let lines = shown.lines().filter(|line| line.starts_with('|')).skip(1);
        let rows = lines.map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            cells.join("|")
        });
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.sort();
        (rows.collect(), asked)
    }
}

fn columns() -> Vec<ForeignColumn> {
    let column = |name: &str, scalar| ForeignColumn {
        is_state: false,
        name: name.into(),
        ty: Type::new(scalar),
        not_null: false,
        remote: name.into(),
        options: Options::default(),
    };
    vec![
        column("g", Scalar::Text),
        column("i", Scalar::Int4),
        column("x", Scalar::Float8),
        column("n", Scalar::Numeric),
    ]
}

async fn child(node: &Node, pushdown: Pushdown, asked: &Arc<Mutex<Vec<String>>>) -> ChildTable {
    let context = SessionContext::new_with_state(session_state_builder().build());
    let all = format!(
        "SELECT g::text AS g, i::int4 AS i, x::float8 AS x, round(i::numeric, {}) AS n FROM ({}) AS r (g, i, x)",
        node.name.len(),
        node.rows
    );
    let batches = run(&context.state(), &all).await;
    let definition = TableDefinition {
        name: format!("m__{}__0", node.name),
        columns: columns(),
        remote_table: "m".into(),
        nodes: vec![],
        ..TableDefinition::default()
    };
    let rows = datafusion::datasource::MemTable::try_new(
        Arc::new(definition.schema()),
        vec![batches.into_iter().map(|b| b.with_schema(Arc::new(definition.schema())).unwrap()).collect()],
    );
    context.register_table("m", Arc::new(rows.unwrap())).unwrap();
    let connector = Recorded {
        node: node.name.into(),
        capabilities: node.capabilities,
        state: context.state(),
        asked: Arc::clone(asked),
    };
    ChildTable {
        name: definition.name.clone(),
        server: node.name.into(),
        table: Arc::new(ForeignTable::new(Arc::new(definition), Arc::new(connector), pushdown)),
    }
}

async fn run(state: &SessionState, sql: &str) -> Vec<RecordBatch> {
    let query = parse_query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut statement = datafusion::sql::sqlparser::ast::Statement::Query(query);
    planner::prepare(&mut statement, state).unwrap();
    let plan = state.statement_to_plan(Statement::Statement(Box::new(statement))).await;
    let plan = state.create_physical_plan(&plan.unwrap_or_else(|error| panic!("{sql}: {error}"))).await;
    let context = SessionContext::new_with_state(state.clone());
    collect(plan.unwrap(), context.task_ctx()).await.unwrap()
}
