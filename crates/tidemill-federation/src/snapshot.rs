//! What the scans of one statement share: one snapshot a server.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use tokio::sync::OnceCell;

use crate::connector::Connector;
use crate::scan::ForeignScanExec;

/// A snapshot that the first scan takes and the others read: whatever the connector needs for that. It is given up when the
/// last of them, and the statement, have ended.
#[derive(Default)]
pub struct Shared {
    pub taken: OnceCell<Box<dyn Any + Send + Sync>>,
    /// Scans that there are, without those that need not be.
    pub scans: usize,
    /// Scans of parts that others could read as well.
    pub spare_scans: usize,
}

impl Shared {
    fn count(&mut self, scan: &ForeignScanExec) {
        let is_spare = scan.query().range.as_ref().is_some_and(|range| !range.is_first);
        *(if is_spare { &mut self.spare_scans } else { &mut self.scans }) += 1;
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("scans", &self.scans).finish_non_exhaustive()
    }
}

/// The snapshots of one statement. A query finds them as an extension of its session's configuration.
#[derive(Debug)]
pub struct Snapshots(Vec<(Arc<dyn Connector>, Arc<Shared>)>);

impl Snapshots {
    /// Of the servers that the plan reads more than once; `None` if there are none.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut found: Vec<(Arc<dyn Connector>, Shared)> = Vec::new();
        let mut stack = vec![plan];
        while let Some(node) = stack.pop() {
            stack.extend(node.children());
            let Some(scan) = node.downcast_ref::<ForeignScanExec>() else { continue };
            match found.iter_mut().find(|(known, _)| Arc::ptr_eq(known, scan.connector())) {
                Some((_, shared)) => shared.count(scan),
                None => {
                    let mut shared = Shared::default();
                    shared.count(scan);
                    found.push((Arc::clone(scan.connector()), shared));
                }
            }
        }
        found.retain(|(_, shared)| shared.scans + shared.spare_scans > 1);
        let shared = found.into_iter().map(|(connector, shared)| (connector, Arc::new(shared)));
        let shared: Vec<_> = shared.collect();
        (!shared.is_empty()).then_some(Self(shared))
    }

    /// The snapshot that scans of a server share in the statement that is carried out.
    pub fn find(context: &TaskContext, connector: &Arc<dyn Connector>) -> Option<Arc<Shared>> {
        let snapshots = context.session_config().get_extension::<Snapshots>()?;
        let found = snapshots.0.iter().find(|(known, _)| Arc::ptr_eq(known, connector));
        found.map(|(_, shared)| Arc::clone(shared))
    }
}
