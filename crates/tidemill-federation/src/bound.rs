//! How much of a result is held at once.

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;
use tidemill_sql::copy::ROW_BYTES_MAX;

/// What a scan of a server keeps to.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Rows of a batch.
    pub batch_rows: usize,
    /// A longer row is refused, where that is known before it is there.
    pub row_bytes_max: usize,
}

impl Bounds {
    /// Of no query that has a limit.
    pub fn of_rows(batch_rows: usize) -> Self {
        Self { batch_rows, row_bytes_max: ROW_BYTES_MAX }
    }

    /// No row is longer than what the query may use.
    pub fn of_query(context: &TaskContext, batch_rows: usize) -> Self {
        let row_bytes_max = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes.min(ROW_BYTES_MAX),
            _ => ROW_BYTES_MAX,
        };
        Self { batch_rows, row_bytes_max }
    }
}
