//! Large tables are read by several connections, each a range of its pages, on one snapshot.
//!
//! ```text
//! ForeignScan: SELECT v FROM hist  =>  CoalescePartitions
//!                                        Union
//!                                          ForeignScan: SELECT v FROM hist WHERE ctid < '(9000,0)'
//!                                          ForeignScan: SELECT v FROM hist WHERE ctid >= '(9000,0)'
//! ```
//!
//! If the server has no connections for all of them, the first scan reads the whole table and the others have no rows.
//! Only where all rows are wanted: a condition may have an index, and what is folded or sorted there are few rows.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::union::UnionExec;

use super::Pushdown;
use super::rule::{NodeRule, Plan};
use crate::scan::ForeignScanExec;
use crate::select::{PageRange, RemoteSelect};

/// Pages for which a connection is worth while.
const PAGES_MIN: u64 = 1024;

pub(super) const RULE: NodeRule =
    NodeRule { name: "foreign_page_ranges", is_on: |pushdown| pushdown.scan_connections > 1, replace: split };

fn split(plan: &Plan, pushdown: &Pushdown) -> Result<Option<Plan>> {
    let connections = pushdown.scan_connections as u64;
    let ranges = plan.downcast_ref::<ForeignScanExec>().and_then(|scan| ranges(scan, connections));
    let Some(ranges) = ranges else { return Ok(None) };
    Ok(Some(Arc::new(CoalescePartitionsExec::new(UnionExec::try_new(ranges)?))))
}

/// The scans of the ranges; `None` if one is enough.
fn ranges(scan: &ForeignScanExec, connections: u64) -> Option<Vec<Arc<dyn ExecutionPlan>>> {
    let select = scan.select();
    let reads_all =
        select.is_of_rows() && select.conditions.is_empty() && scan.dynamic_filters().next().is_none();
    let size = select.size().filter(|_| reads_all)?;
    let count = connections.min(size.pages / PAGES_MIN);
    if count < 2 {
        return None;
    }
    let bound = |i: u64| (0 < i && i < count).then(|| size.pages * i / count);
    let scans = (0..count).map(|i| {
        let condition = scan.capabilities().dialect.page_range(bound(i), bound(i + 1))?;
        let range = Some(PageRange { is_first: i == 0, condition });
        let select = RemoteSelect { range, ..select.clone() };
        Some(Arc::new(scan.with_select(select, scan.schema())) as Arc<dyn ExecutionPlan>)
    });
    scans.collect()
}
