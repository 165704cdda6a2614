//! What the generator costs by itself.

use std::sync::Arc;
use std::time::Duration;

use super::{Pace, Plan, Workload, cpu_seconds, run};

/// How long it is measured.
const FLOOR_TIME: Duration = Duration::from_millis(200);
/// And by how many operations at most: what waits to be counted is memory of the run that comes after it.
const FLOOR_OPERATIONS: u64 = 50_000;

/// CPU of the generator an operation, µs, of a workload whose target does nothing; none where the workload needs answers.
pub fn floor(workload: Arc<dyn Workload>, seed: u64) -> Option<f64> {
    if !workload.can_idle() {
        return None;
    }
    let plan = Plan {
        clients: 1,
        threads: None,
        pace: Pace::Closed,
        limit: None,
        warmup: Duration::ZERO,
        time: FLOOR_TIME,
        operations_max: Some(FLOOR_OPERATIONS),
        seed,
    };
    let before = cpu_seconds();
    let outcome = run(workload, &plan, None, &mut |_| {}).ok()?;
    let cpu = cpu_seconds() - before;
    let processed = outcome.record.total().processed;
    (outcome.incomplete.is_none() && processed > 0).then(|| cpu * 1e6 / processed as f64)
}
