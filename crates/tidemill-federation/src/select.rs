//! What a scan asks its server for.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use tidemill_sql::types::Type;

use crate::connector::{Capabilities, Range, RemoteColumn, RemoteQuery};
use crate::dialect::{Dialect, Operand, order_item};
use crate::expression::Writer;
use crate::fact::{TableFacts, TableSize};
use crate::pushdown::Source;
use crate::table::TableDefinition;

/// The share of rows that is thought to fulfil a condition, as DataFusion has it.
const SELECTIVITY: f64 = 0.2;

/// What is read of one foreign table, or of several that are joined on their server.
#[derive(Debug, Clone)]
pub struct RemoteSelect {
    /// Of a join it is no more than what messages call it.
    pub table: Arc<TableDefinition>,
    /// The join, in the words of the other side.
    pub joined: Option<String>,
    pub items: Vec<Item>,
    /// In the words of the other side; all have to hold.
    pub conditions: Vec<String>,
    /// What is filtered here, and may save the other side reading.
    pub pruning: Vec<Expr>,
    /// How many of the items, the first, rows are grouped by; the others are of a group. `None`: rows are not grouped.
    pub keys: Option<usize>,
    pub order: Vec<String>,
    pub limit: Option<usize>,
    /// A part of the table, beside which the others are read.
    pub range: Option<PageRange>,
    /// Of the table.
    pub facts: Arc<TableFacts>,
}

/// A part of a table, as a condition in the words of the other side.
#[derive(Debug, Clone)]
pub struct PageRange {
    pub is_first: bool,
    pub condition: String,
}

/// What is selected, in the words of the other side, and what it is here.
#[derive(Debug, Clone)]
pub struct Item {
    pub sql: String,
    pub column: RemoteColumn,
}

impl Item {
    /// Something that is no column there, and is called what it is made of.
    pub fn computed(sql: String, ty: Type) -> Self {
        Self { column: RemoteColumn { name: sql.clone(), ty, remote: sql.clone() }, sql }
    }

    fn operand(&self) -> Operand {
        Operand { sql: self.sql.clone(), ty: self.column.ty, value: None }
    }
}

impl RemoteSelect {
    /// All rows of a table, with the columns at these places.
    pub fn of(
        table: Arc<TableDefinition>,
        places: &[usize],
        facts: Arc<TableFacts>,
        dialect: &dyn Dialect,
    ) -> Self {
        let columns = places.iter().filter_map(|place| table.columns.get(*place));
        let items =
            columns.map(|column| Item { sql: facts.column(column, dialect), column: column.remote_column() });
        let items = items.collect();
        Self {
            table,
            joined: None,
            items,
            conditions: vec![],
            pruning: vec![],
            keys: None,
            order: vec![],
            limit: None,
            range: None,
            facts,
        }
    }

    /// Of the table, if it is known.
    pub fn size(&self) -> Option<TableSize> {
        self.facts.size.filter(|_| self.joined.is_none())
    }

    /// About how many values a column has, or what it is cast or made a key of.
    pub(crate) fn distinct(&self, source: &Source) -> Option<u64> {
        let column = match source {
            Source::Column { index, .. } => self.items.get(*index)?,
            Source::Expression { expr, .. } => {
                return self.distinct(&Source::of(expr.downcast_ref::<CastExpr>()?.expr())?);
            }
            Source::Constant(_) => return None,
        };
        self.facts.distinct.get(&column.column.remote).copied().filter(|_| self.joined.is_none())
    }

    /// Whether it gives rows of the table as they are.
    pub fn is_of_rows(&self) -> bool {
        self.keys.is_none() && self.limit.is_none()
    }

    /// About how many rows it gives.
    pub fn rows(&self) -> Option<usize> {
        let all = self.size().filter(|_| self.keys.is_none())?.rows as f64;
        let conditions = self.conditions.iter().chain(self.range.iter().map(|range| &range.condition));
        let rows = conditions.fold(all, |rows, _| rows * SELECTIVITY).ceil() as usize;
        Some(self.limit.map_or(rows, |limit| rows.min(limit)))
    }

    /// The same rows, of which something else is selected.
    pub fn with_items(&self, items: Vec<Item>) -> Self {
        Self { items, ..self.clone() }
    }

    /// The columns that the items are here.
    pub fn schema(&self) -> SchemaRef {
        let fields = self.items.iter().map(|item| item.column.ty.field(&item.column.name));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    pub fn query(&self, capabilities: &Capabilities) -> RemoteQuery {
        let whole = self.whole(capabilities);
        let Some(PageRange { is_first, condition }) = &self.range else { return whole };
        let conditions = self.conditions.iter().chain([condition]).cloned().collect();
        let part = Self { conditions, ..self.clone() }.whole(capabilities);
        RemoteQuery { range: Some(Arc::new(Range { is_first: *is_first, whole })), ..part }
    }

    /// Whatever part of it is meant.
    fn whole(&self, capabilities: &Capabilities) -> RemoteQuery {
        let dialect = capabilities.dialect;
        RemoteQuery {
            sql: dialect.select(self),
            columns: self.items.iter().map(|item| item.column.clone()).collect(),
            table: self.table.name.clone(),
            relation: match self.joined {
                Some(_) => self.table.name.clone(),
                None => self.relation(dialect),
            },
            definition: Arc::clone(&self.table),
            pruning: self.pruning.clone(),
            cascade: None,
            range: None,
            assigned: vec![],
            empties: false,
        }
    }

    /// What it is selected from.
    pub fn relation<D: Dialect + ?Sized>(&self, dialect: &D) -> String {
        self.joined.clone().unwrap_or_else(|| self.table.relation(dialect))
    }

    /// What the server calls a column of the scan.
    pub fn column(&self, index: usize) -> Option<Operand> {
        self.items.get(index).map(Item::operand)
    }

    /// A value of a row, as one of this type.
    pub(crate) fn value(&self, source: &Source, ty: Type, capabilities: &Capabilities) -> Option<String> {
        if let Source::Constant(value) = source {
            let is_alike = value.data_type() == ty.arrow();
            return is_alike.then(|| capabilities.dialect.literal(value, ty))?;
        }
        let found = self.operand(source, capabilities).filter(|_| !source.is_keyed())?;
        (found.ty.oid() == ty.oid()).then_some(found.sql)
    }

    /// What writes expressions over the columns of the scan.
    pub fn writer<'a>(&self, capabilities: &'a Capabilities) -> Writer<'a> {
        let columns = self.items.iter().map(Item::operand).collect();
        Writer { columns, capabilities, schema: self.schema() }
    }

    /// A column or an expression as what it is there; of a key, what it is made of.
    pub(crate) fn operand(&self, source: &Source, capabilities: &Capabilities) -> Option<Operand> {
        match source {
            Source::Column { index, .. } => self.column(*index).filter(|operand| capabilities.keeps(operand)),
            Source::Expression { expr, .. } => self.writer(capabilities).operand(expr),
            Source::Constant(_) => None,
        }
    }

    /// A condition on a row.
    pub(crate) fn condition(&self, source: &Source, capabilities: &Capabilities) -> Option<String> {
        let column = |index| Arc::new(Column::new("", index)) as Arc<dyn PhysicalExpr>;
        match source {
            Source::Column { index, .. } => self.writer(capabilities).condition(&column(*index)),
            Source::Expression { expr, .. } => self.writer(capabilities).condition(expr),
            Source::Constant(_) => None,
        }
    }

    /// An item of ORDER BY; `None` if it is sorted in another way there.
    pub(crate) fn ordered(
        &self,
        source: &Source,
        options: SortOptions,
        capabilities: &Capabilities,
    ) -> Option<String> {
        let operand = self.operand(source, capabilities).filter(|operand| capabilities.orders(operand.ty))?;
        Some(match self.is_ordered_by_bytes(source, capabilities.dialect) {
            true => order_item(&operand.sql, options),
            false => capabilities.dialect.ordered(&operand, options),
        })
    }

    /// Whether it is a column whose texts need not be told their order, which costs less and is that of an index.
    fn is_ordered_by_bytes(&self, source: &Source, dialect: &dyn Dialect) -> bool {
        let Source::Column { index, keyed: false } = source else { return false };
        let item = self.items.get(*index).filter(|item| item.sql == dialect.name(&item.column.remote));
        item.is_some_and(|item| self.facts.ordered_by_bytes.contains(&item.column.remote))
    }

    /// Something to group by; `None` if other values are equal there.
    pub(crate) fn key(&self, source: &Source, capabilities: &Capabilities) -> Option<Operand> {
        let operand = self.operand(source, capabilities)?;
        let is_known = match source.is_keyed() {
            true => capabilities.groups_by_key(operand.ty),
            false => capabilities.groups(operand.ty),
        };
        is_known.then_some(operand)
    }
}
