//! Time to live: groups whose own time is too long ago are no longer shown, and go away.
//!
//! A read leaves out what has expired at the time of its snapshot, so nothing depends on when the maintenance thread
//! comes by to take it out of memory and to write runs anew.

use arrow::array::{Array, AsArray, Datum, PrimitiveArray, RecordBatch, Scalar};
use arrow::compute::kernels::cmp::lt;
use arrow::compute::{filter_record_batch, not, prep_null_mask_filter};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::error::{DataFusionError, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeToLive {
    /// The column of the view's groups (or rows) that has their time.
    pub column: usize,
    pub us: i64,
}

impl TimeToLive {
    pub fn at(self, now_us: i64) -> Alive {
        Alive { column: self.column, from_us: now_us.saturating_sub(self.us) }
    }

    /// How often the state is looked through: what has expired stays for a fraction of its life at most.
    pub fn period_us(self) -> i64 {
        (self.us / 16).clamp(1_000_000, 60_000_000)
    }
}

/// What is alive at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alive {
    column: usize,
    from_us: i64,
}

impl Alive {
    /// The same of batches that have more columns in front.
    #[must_use]
    pub fn behind(self, columns: usize) -> Self {
        Self { column: self.column + columns, ..self }
    }

    /// The rows that are alive; those without a time are.
    pub fn rows(self, batch: &RecordBatch) -> Result<RecordBatch> {
        let times = batch.column(self.column);
        let Some(times) = times.as_primitive_opt::<TimestampMicrosecondType>() else {
            let message = format!("the time to live is of a column of type {}", times.data_type());
            return Err(DataFusionError::Internal(message));
        };
        if times.iter().flatten().all(|us| us >= self.from_us) {
            return Ok(batch.clone());
        }
        let from = PrimitiveArray::<TimestampMicrosecondType>::from_value(self.from_us, 1)
            .with_timezone_opt(times.timezone().map(str::to_owned));
        let expired = lt(times as &dyn Datum, &Scalar::new(from))?;
        let expired = if expired.null_count() > 0 { prep_null_mask_filter(&expired) } else { expired };
        Ok(filter_record_batch(batch, &not(&expired)?)?)
    }
}

/// Whether a column of this type can have the time of a group.
pub fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Microsecond, _))
}
