//! Continuous views and transforms as PipelineDB sees both, and their figures since the server started.

use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_sql::Result;
use tidemill_stream::stream::StreamId;

use super::{Rows, Snapshot, Value};
use crate::catalog::{ContinuousTransform, ContinuousView, Relation};

#[derive(Debug, Clone, Copy)]
pub(super) enum ContinuousQuery<'a> {
    View(&'a ContinuousView),
    Transform(&'a ContinuousTransform),
}

/// All, by number.
pub(super) fn all(snapshot: &Snapshot) -> impl Iterator<Item = ContinuousQuery<'_>> {
    snapshot.relations.iter().filter_map(|relation| match relation {
        Relation::View(view) => Some(ContinuousQuery::View(view)),
        Relation::Transform(transform) => Some(ContinuousQuery::Transform(transform)),
        _ => None,
    })
}

impl<'a> ContinuousQuery<'a> {
    pub fn view(self) -> Option<&'a ContinuousView> {
        if let ContinuousQuery::View(view) = self { Some(view) } else { None }
    }

    pub fn transform(self) -> Option<&'a ContinuousTransform> {
        if let ContinuousQuery::Transform(transform) = self { Some(transform) } else { None }
    }

    pub fn oid(self) -> u32 {
        match self {
            ContinuousQuery::View(view) => view.oid,
            ContinuousQuery::Transform(transform) => transform.oid,
        }
    }

    pub fn name(self) -> &'a str {
        match self {
            ContinuousQuery::View(view) => &view.object.name,
            ContinuousQuery::Transform(transform) => &transform.object.name,
        }
    }

    /// As `pipelinedb.cont_query.type` has it.
    pub fn kind(self) -> &'static str {
        match self {
            ContinuousQuery::View(_) => "v",
            ContinuousQuery::Transform(_) => "t",
        }
    }

    pub fn is_active(self) -> bool {
        match self {
            ContinuousQuery::View(view) => view.view.is_active(),
            ContinuousQuery::Transform(transform) => transform.transform.is_active(),
        }
    }

    pub fn streams(self) -> Vec<StreamId> {
        match self {
            ContinuousQuery::View(view) => view.streams(),
            ContinuousQuery::Transform(transform) => transform.streams(),
        }
    }
}

/// The figures of one query in one of the two roles.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    input_rows: u64,
    input_bytes: u64,
    output_rows: u64,
    output_bytes: u64,
    updated_rows: u64,
    updated_bytes: u64,
    executions: u64,
    errors: u64,
    exec_us: u64,
}

impl Figures {
    /// Of the folding of events into deltas of state, and of what transforms make of them.
    fn worker(query: ContinuousQuery<'_>) -> Option<Self> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stats = match query {
            ContinuousQuery::View(view) => &view.view.stats,
            ContinuousQuery::Transform(transform) => {
                let stats = &transform.transform.stats;
                return Some(Self {
                    input_rows: load(&stats.input_rows),
                    input_bytes: load(&stats.input_bytes),
                    output_rows: load(&stats.output_rows),
                    output_bytes: load(&stats.output_bytes),
                    executions: load(&stats.input_batches),
                    errors: load(&stats.errors),
                    exec_us: load(&stats.run_us),
                    ..Self::default()
                });
            }
        };
        Some(Self {
            input_rows: load(&stats.input_rows),
            input_bytes: load(&stats.input_bytes),
            output_rows: load(&stats.delta_rows),
            output_bytes: load(&stats.delta_bytes),
            executions: load(&stats.input_batches),
            errors: load(&stats.errors),
            exec_us: load(&stats.fold_us),
            ..Self::default()
        })
    }

    /// Of the applying of the deltas to the views.
    fn combiner(query: ContinuousQuery<'_>) -> Option<Self> {
        let stats = &query.view()?.view.stats;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (rows, bytes) = (load(&stats.delta_rows), load(&stats.delta_bytes));
        Some(Self {
            input_rows: rows,
            input_bytes: bytes,
            updated_rows: rows,
            updated_bytes: bytes,
            executions: load(&stats.deltas),
            exec_us: load(&stats.apply_us),
            ..Self::default()
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            input_rows: self.input_rows + other.input_rows,
            input_bytes: self.input_bytes + other.input_bytes,
            output_rows: self.output_rows + other.output_rows,
            output_bytes: self.output_bytes + other.output_bytes,
            updated_rows: self.updated_rows + other.updated_rows,
            updated_bytes: self.updated_bytes + other.updated_bytes,
            executions: self.executions + other.executions,
            errors: self.errors + other.errors,
            exec_us: self.exec_us + other.exec_us,
        }
    }

    /// The columns that all statistics share, after those that say of what they are.
    pub fn add<const N: usize>(self, rows: &mut Rows, of: [(&str, Value); N]) -> Result<()> {
        let figures = [
            ("input_rows", self.input_rows.into()),
            ("output_rows", self.output_rows.into()),
            ("updated_rows", self.updated_rows.into()),
            ("output_bytes", self.output_bytes.into()),
            ("updated_bytes", self.updated_bytes.into()),
            ("input_bytes", self.input_bytes.into()),
            ("executions", self.executions.into()),
            ("errors", self.errors.into()),
            ("exec_ms", (self.exec_us / 1000).into()),
        ];
        rows.add_all(of.into_iter().chain(figures))
    }
}

/// The figures of a query in a role, if it plays that.
type Role = for<'a> fn(ContinuousQuery<'a>) -> Option<Figures>;

pub(super) const ROLES: [(&str, Role); 2] = [("combiner", Figures::combiner), ("worker", Figures::worker)];

pub(super) fn total(snapshot: &Snapshot, figures: Role) -> Figures {
    all(snapshot).filter_map(figures).fold(Figures::default(), Figures::plus)
}
