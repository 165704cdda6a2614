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
pub struct Shared(pub OnceCell<Box<dyn Any + Send + Sync>>);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

/// The snapshots of one statement. A query finds them as an extension of its session's configuration.
#[derive(Debug)]
pub struct Snapshots(Vec<(Arc<dyn Connector>, Arc<Shared>)>);

impl Snapshots {
    /// Of the servers that the plan reads more than once; `None` if there are none.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (mut once, mut shared): (Vec<&Arc<dyn Connector>>, Vec<(Arc<dyn Connector>, _)>) =
            Default::default();
        let mut stack = vec![plan];
        while let Some(node) = stack.pop() {
            stack.extend(node.children());
            let Some(connector) = node.downcast_ref::<ForeignScanExec>().map(ForeignScanExec::connector)
            else {
                continue;
            };
            if !once.iter().any(|known| Arc::ptr_eq(known, connector)) {
                once.push(connector);
            } else if !shared.iter().any(|(known, _)| Arc::ptr_eq(known, connector)) {
                shared.push((Arc::clone(connector), Arc::default()));
            }
        }
        (!shared.is_empty()).then_some(Self(shared))
    }

    /// The snapshot that scans of a server share in the statement that is carried out.
    pub fn find(context: &TaskContext, connector: &Arc<dyn Connector>) -> Option<Arc<Shared>> {
        let snapshots = context.session_config().get_extension::<Snapshots>()?;
        let found = snapshots.0.iter().find(|(known, _)| Arc::ptr_eq(known, connector));
        found.map(|(_, shared)| Arc::clone(shared))
    }
}
