//! Filters on group keys, carried out in the state: a look-up reads the groups that it wants and not the whole view.
//!
//! In memory the key is looked up in the index of a large batch, or the filter evaluated over the key columns, before
//! states are merged. On disk, where rows are sorted by
//! key, values that the filter pins are looked up: the whole key, or the beginning of it. The filter is evaluated
//! again above, so all that counts here is that no wanted group is left out.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};

use tidemill_sql::planner::parameter::is_parameter;

use crate::error::run_error;
use crate::run::{KeyEncoder, Run, RunError};
use crate::view::states::{States, key_hashes};

/// A filter that pins more keys than this scans.
const KEYS_MAX: usize = 1024;

/// Which groups a read wants.
#[derive(Debug)]
pub struct KeyFilter {
    /// Over the key columns.
    predicate: Arc<dyn PhysicalExpr>,
    wanted: Wanted,
    /// Of the wanted keys, if all that is wanted is these.
    hashes: Option<Vec<u64>>,
}

/// What the filter pins of the sort order of a run.
#[derive(Debug)]
enum Wanted {
    Any,
    Keys(Vec<Vec<u8>>),
    Prefixes(Vec<Vec<u8>>),
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, RunError>>>;

impl KeyFilter {
    /// `predicate` is over `keys`, the key columns of states.
    pub fn try_new(predicate: Arc<dyn PhysicalExpr>, keys: &Schema) -> Result<Self> {
        let pinned = pinned(&predicate, keys);
        if pinned.is_empty() {
            return Ok(Self { predicate, wanted: Wanted::Any, hashes: None });
        }
        let columns = combinations(&pinned)?;
        let encoded = encode(&columns, keys)?;
        if pinned.len() < keys.fields().len() {
            return Ok(Self { predicate, wanted: Wanted::Prefixes(encoded), hashes: None });
        }
        Ok(Self { predicate, wanted: Wanted::Keys(encoded), hashes: Some(key_hashes(&columns)?) })
    }

    /// How many keys are all that is wanted.
    pub fn keys(&self) -> Option<usize> {
        match &self.wanted {
            Wanted::Keys(keys) => Some(keys.len()),
            Wanted::Any | Wanted::Prefixes(_) => None,
        }
    }

    /// Whether an index would help.
    pub fn is_lookup(&self) -> bool {
        self.hashes.is_some()
    }

    fn rows_of(&self, states: &States) -> Result<RecordBatch> {
        match self.hashes.as_ref().and_then(|hashes| states.candidates(hashes)) {
            Some(candidates) => self.rows(&take_record_batch(states, &UInt32Array::from(candidates))?),
            None => self.rows(states),
        }
    }

    /// The rows of a batch of states that are wanted.
    fn rows(&self, states: &RecordBatch) -> Result<RecordBatch> {
        let wanted = self.predicate.evaluate(states)?.into_array(states.num_rows())?;
        Ok(filter_record_batch(states, as_boolean_array(&wanted)?)?)
    }

    /// The rows of several batches that are wanted; none of the batches is empty.
    pub fn batches(&self, states: &[States]) -> Result<Vec<RecordBatch>> {
        let mut kept = Vec::new();
        for batch in states {
            let rows = self.rows_of(batch)?;
            if rows.num_rows() > 0 {
                kept.push(rows);
            }
        }
        Ok(kept)
    }

    /// The rows of a run that may be wanted, in key order.
    pub fn run(self: &Arc<Self>, run: &Arc<Run>) -> Batches {
        let (filter, run) = (Arc::clone(self), Arc::clone(run));
        let places = match &self.wanted {
            Wanted::Any => {
                return Box::new(run.scan().map(move |block| {
                    let rows = filter.rows(&block?);
                    rows.map_err(|error| RunError::Arrow(error.into()))
                }));
            }
            Wanted::Keys(places) | Wanted::Prefixes(places) => places.len(),
        };
        Box::new((0..places).flat_map(move |place| -> Batches {
            match &filter.wanted {
                Wanted::Keys(keys) => Box::new(row(&run, &keys[place]).transpose().into_iter()),
                Wanted::Prefixes(prefixes) => {
                    let from = prefixes[place].as_slice();
                    let end = successor(from);
                    let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                    Box::new(run.range(Bound::Included(from), to))
                }
                Wanted::Any => Box::new(std::iter::empty()),
            }
        }))
    }
}

impl KeyFilter {
    /// How it finds the groups, and what it wants of them.
    pub fn condition(&self) -> (&'static str, &Arc<dyn PhysicalExpr>) {
        let how = match &self.wanted {
            Wanted::Any => "Scan",
            Wanted::Keys(_) => "Lookup",
            Wanted::Prefixes(_) => "Range Scan",
        };
        (how, &self.predicate)
    }
}

impl fmt::Display for KeyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match &self.wanted {
            Wanted::Any => "filter",
            Wanted::Keys(_) => "lookup",
            Wanted::Prefixes(_) => "range",
        };
        write!(f, "{how}={}", self.predicate)
    }
}

fn row(run: &Run, key: &[u8]) -> Result<Option<RecordBatch>, RunError> {
    Ok(run.get(key)?.map(|(batch, row)| batch.slice(row, 1)))
}

/// The first bytes behind all that begin with `prefix`; `None`: nothing is.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut successor = prefix[..=last].to_vec();
    successor[last] += 1;
    Some(successor)
}

/// Values of the leading key columns, as many of these as are pinned to few values.
fn pinned(predicate: &Arc<dyn PhysicalExpr>, keys: &Schema) -> Vec<Vec<ScalarValue>> {
    let guarantees = LiteralGuarantee::analyze(predicate);
    let mut pinned = Vec::new();
    let mut combinations = 1;
    for field in keys.fields() {
        let of_field = |g: &&LiteralGuarantee| {
            g.guarantee == Guarantee::In
                && g.column.name() == field.name()
                && g.literals.iter().all(|l| l.data_type() == *field.data_type())
        };
        let Some(found) = guarantees.iter().find(of_field) else { break };
        combinations *= found.literals.len();
        if !is_exact(field.data_type()) || found.literals.is_empty() || combinations > KEYS_MAX {
            break;
        }
        pinned.push(found.literals.iter().cloned().collect());
    }
    pinned
}

/// Whether values that are equal have the same bytes: there is one zero and one of each text.
fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer()
        || data_type.is_temporal() && !matches!(data_type, DataType::Interval(_))
        || matches!(
            data_type,
            DataType::Boolean | DataType::Utf8 | DataType::Binary | DataType::FixedSizeBinary(_)
        )
}

/// All combinations of the values.
fn combinations(pinned: &[Vec<ScalarValue>]) -> Result<Vec<ArrayRef>> {
    let count: usize = pinned.iter().map(Vec::len).product();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(pinned.len());
    // Each value of a column stands beside every combination of the columns behind it.
    let mut repeat = count;
    for values in pinned {
        repeat /= values.len();
        let column = (0..count).map(|i| values[i / repeat % values.len()].clone());
        columns.push(ScalarValue::iter_to_array(column)?);
    }
    Ok(columns)
}

/// The bytes that keys are sorted by, ascending.
fn encode(columns: &[ArrayRef], keys: &Schema) -> Result<Vec<Vec<u8>>> {
    let external = |error: RunError| DataFusionError::External(Box::new(run_error(&error)));
    let count = columns.first().map_or(0, |column| column.len());
    let encoder = KeyEncoder::try_new(keys, columns.len()).map_err(external)?;
    let encoded = encoder.encode_columns(columns, count).map_err(external)?;
    let mut encoded: Vec<_> = (0..encoded.len()).map(|i| encoded.get(i).to_vec()).collect();
    encoded.sort_unstable();
    encoded.dedup();
    Ok(encoded)
}

/// `filter` over key columns, or `None` if it is about something else. `key` tells the key column of a name.
/// Only what can't fail is moved below HAVING.
pub fn over_keys(filter: &Expr, key: &dyn Fn(&str) -> Option<usize>) -> Option<Expr> {
    if !cannot_fail(filter) {
        return None;
    }
    let mut all_keys = true;
    let moved = filter.clone().transform(|expr| {
        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        let Some(key) = key(&column.name) else {
            all_keys = false;
            return Ok(Transformed::no(expr));
        };
        Ok(Transformed::yes(Expr::Column(datafusion::common::Column::new_unqualified(format!("k{key}")))))
    });
    moved.data().ok().filter(|_| all_keys)
}

fn cannot_fail(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        parameter if is_parameter(parameter) => true,
        Expr::BinaryExpr(binary) => {
            let compares = binary.op.is_logic_operator()
                || matches!(
                    binary.op,
                    Operator::Eq
                        | Operator::NotEq
                        | Operator::Lt
                        | Operator::LtEq
                        | Operator::Gt
                        | Operator::GtEq
                );
            compares && cannot_fail(&binary.left) && cannot_fail(&binary.right)
        }
        Expr::InList(list) => cannot_fail(&list.expr) && list.list.iter().all(cannot_fail),
        Expr::Between(between) => {
            [&between.expr, &between.low, &between.high].into_iter().all(|e| cannot_fail(e))
        }
        Expr::Not(inner) | Expr::IsNull(inner) | Expr::IsNotNull(inner) => cannot_fail(inner),
        _ => false,
    }
}

/// The key columns in the eyes of the planner.
pub fn key_columns(keys: &Schema) -> Result<DFSchema> {
    DFSchema::try_from(keys.clone())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringArray};
    use arrow::datatypes::Field;
    use datafusion::logical_expr::{col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;

    const ROWS: i32 = 100_000;

    fn states() -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("k0", DataType::Int32, true),
            Field::new("k1", DataType::Utf8, true),
            Field::new("a0s0", DataType::Int32, true),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values((0..ROWS).map(|i| i / 2))),
            Arc::new(StringArray::from_iter_values((0..ROWS).map(|i| ["a", "b"][i as usize % 2]))),
            Arc::new(Int32Array::from_iter_values(0..ROWS)),
        ];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    #[test]
    fn an_index_finds_what_a_scan_finds() {
        let keys = Schema::new(states().schema().fields()[..2].to_vec());
        let (scanned, indexed) = (States::from(states()), States::from(states()));
        assert!(indexed.wants_index());
        indexed.make_index(2).unwrap();
        assert!(!indexed.wants_index() && indexed.memory_bytes() > scanned.memory_bytes());
        let filters = [
            col("k0").eq(lit(7)).and(col("k1").eq(lit("b"))),
            col("k0")
                .in_list((0..200).map(|i| lit(i * 997 - 100)).collect(), false)
                .and(col("k1").eq(lit("a"))),
            col("k0").eq(lit(ROWS)).and(col("k1").in_list(vec![lit("a"), lit("c"), lit("c")], false)),
            col("k0").eq(lit(1)).and(col("k1").eq(lit("a"))).and(col("k0").gt(lit(3))),
        ];
        let found = filters.map(|filter| {
            let context = SessionContext::new();
            let predicate = context.create_physical_expr(filter, &key_columns(&keys).unwrap()).unwrap();
            let filter = KeyFilter::try_new(predicate, &keys).unwrap();
            assert!(filter.is_lookup(), "{filter}");
            let rows = filter.batches(std::slice::from_ref(&indexed)).unwrap();
            assert_eq!(rows, filter.batches(std::slice::from_ref(&scanned)).unwrap());
            rows.iter().map(RecordBatch::num_rows).sum::<usize>()
        });
        assert_eq!(found, [1, 50, 0, 0]);
    }

    #[test]
    fn a_range_of_keys_ends_behind_its_prefix() {
        assert_eq!(successor(&[1, 2, 255]), Some(vec![1, 3]));
        assert_eq!(successor(&[255, 255]), None);
    }
}
