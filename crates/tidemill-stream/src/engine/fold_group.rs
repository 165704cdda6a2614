//! From the writes of a commit group to one delta of state a view.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

use crate::engine::cascade::{Readers, cascade};
use crate::engine::{Part, Shared, Write};
use crate::error::{Error, Result};
use crate::fold::Fold;
use crate::join::JoinedRows;
use crate::stream::StreamId;
use crate::view::{States, View, ViewId};

/// Batches of fewer rows are joined before they are folded: the cost of evaluating an expression over one row is that
/// of evaluating it over dozens.
const JOIN_ROWS_BELOW: usize = 256;

/// A commit group, folded.
#[derive(Default)]
pub(super) struct Group {
    pub deltas: Vec<(ViewId, States)>,
    /// Views that are emptied before the deltas are applied.
    pub emptied: Vec<ViewId>,
    /// Views whose states go to others.
    pub moved: Vec<(ViewId, ViewId)>,
    pub writes: Vec<Write>,
    /// Writes that could not be folded; nothing of them is in `deltas`.
    pub failed: Vec<(Write, Error)>,
}

/// Folds all writes at once and, if one of them fails, each alone, so that only the culprit is refused.
pub(super) fn fold_group(shared: &Shared, writes: Vec<Write>) -> Group {
    let emptied: Vec<ViewId> = writes
        .iter()
        .flat_map(|w| &w.parts)
        .filter_map(|p| if let Part::Truncate { view } = p { Some(*view) } else { None })
        .collect();
    let all: Vec<&Part> = writes.iter().flat_map(|w| &w.parts).collect();
    let moved =
        all.iter().filter_map(|p| if let Part::Move { from, to } = p { Some((*from, *to)) } else { None });
    let moved = moved.collect();
    match Folding::new(shared).fold(&all) {
        Ok(deltas) => Group { deltas, emptied, moved, writes, failed: Vec::new() },
        Err(error) if writes.len() == 1 => {
            Group { failed: writes.into_iter().zip([error]).collect(), ..Group::default() }
        }
        Err(_) => fold_one_by_one(shared, writes),
    }
}

fn fold_one_by_one(shared: &Shared, writes: Vec<Write>) -> Group {
    // A write that empties views, or moves states, is a group of its own.
    let mut group = Group::default();
    let mut states: Vec<Part> = Vec::new();
    for write in writes {
        let parts: Vec<&Part> = write.parts.iter().collect();
        match Folding::new(shared).fold(&parts) {
            Ok(deltas) => {
                states.extend(deltas.into_iter().map(|(view, states)| Part::Delta { view, states }));
                group.writes.push(write);
            }
            Err(error) => group.failed.push((write, error)),
        }
    }
    match Folding::new(shared).fold(&states.iter().collect::<Vec<_>>()) {
        Ok(deltas) => group.deltas = deltas,
        // Merging what was folded singly fails only when a sum leaves its type's range: then none of it is applied.
        Err(error) => {
            let text = error.to_string();
            let refused = group.writes.drain(..).map(|w| (w, Error::Sql(out_of_range(&text))));
            group.failed.extend(refused);
        }
    }
    group
}

fn out_of_range(text: &str) -> tidemill_sql::SqlError {
    tidemill_sql::SqlError::new(tidemill_sql::SqlState::NUMERIC_VALUE_OUT_OF_RANGE, text)
}

struct Folding<'a> {
    shared: &'a Shared,
    views: BTreeMap<ViewId, (Arc<View>, Folded)>,
}

/// What a group has for a view.
#[derive(Default)]
struct Folded {
    /// The states of one write, whose keys are unique: as long as nothing else comes they stay as they are.
    whole: Option<States>,
    fold: Option<Fold>,
}

impl Folded {
    fn fold(&mut self, view: &View) -> Result<&mut Fold> {
        let mut fold = match self.fold.take() {
            Some(fold) => fold,
            None => view.begin_fold()?,
        };
        if let Some(states) = self.whole.take() {
            fold.merge(&view.plan.aggregation, &states)?;
        }
        Ok(self.fold.insert(fold))
    }

    fn into_states(self, view: &View) -> Result<Option<States>> {
        match (self.whole, self.fold) {
            (Some(states), _) => Ok(Some(states).filter(|states| states.num_rows() > 0)),
            (None, Some(mut fold)) if !fold.is_empty() => {
                let states = view.states(fold.freeze(&view.plan.aggregation)?)?;
                view.end_fold(fold);
                Ok(Some(states))
            }
            (None, _) => Ok(None),
        }
    }
}

impl<'a> Folding<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self { shared, views: BTreeMap::new() }
    }

    fn fold(mut self, parts: &[&Part]) -> Result<Vec<(ViewId, States)>> {
        let mut pending: Vec<Pending> = Vec::new();
        for part in parts {
            match part {
                Part::Events { stream, targets, batch } => {
                    match pending.iter_mut().find(|p| p.accepts(*stream, targets.as_ref(), batch)) {
                        Some(open) => open.push(batch),
                        None => pending.push(Pending::new(*stream, targets.clone(), batch)),
                    }
                }
                Part::Delta { view, states } => {
                    self.fold_pending(&mut pending)?;
                    self.merge(*view, states)?;
                }
                Part::Runs { .. } | Part::Truncate { .. } | Part::Move { .. } => {}
            }
        }
        self.fold_pending(&mut pending)?;
        let mut deltas = Vec::with_capacity(self.views.len());
        for (id, (view, folded)) in self.views {
            deltas.extend(folded.into_states(&view)?.map(|states| (id, states)));
        }
        Ok(deltas)
    }

    fn fold_pending(&mut self, pending: &mut Vec<Pending>) -> Result<()> {
        pending.drain(..).try_for_each(|p| self.fold_events(&p))
    }

    fn fold_events(&mut self, pending: &Pending) -> Result<()> {
        let batch = pending.join()?;
        let none = JoinedRows::default();
        cascade(pending.stream, pending.targets.as_deref(), &batch, &none, |stream, targets, batch| {
            let Readers { views, transforms } = self.shared.registry.read().targets(stream, targets);
            self.fold_batch(stream, &views, batch)?;
            Ok(transforms)
        })
    }

    fn fold_batch(&mut self, stream: StreamId, views: &[Arc<View>], batch: &RecordBatch) -> Result<()> {
        let started = Instant::now();
        let (count, none) = (views.len().max(1) as u32, JoinedRows::default());
        for view in views {
            view.count_input(batch);
            let aggregation = Arc::clone(&view.plan.aggregation);
            let branches = view.plan.front.branches.iter().filter(|b| b.stream == stream);
            // Everything that can fail because of the events comes before the state is touched.
            let inputs = branches
                .map(|b| Ok(aggregation.evaluate(&b.run(batch, &none)?)?))
                .collect::<Result<Vec<_>>>();
            let inputs = inputs.inspect_err(|_| view.count_error())?;
            let fold = self.fold_of(view)?;
            for input in &inputs {
                fold.update(&aggregation, input)?;
            }
            view.count_time(started.elapsed() / count);
        }
        Ok(())
    }

    fn merge(&mut self, id: ViewId, states: &States) -> Result<()> {
        let Some(view) = self.shared.view(id) else { return Ok(()) };
        if let Entry::Vacant(entry) = self.views.entry(id) {
            entry.insert((view, Folded { whole: Some(states.clone()), fold: None }));
            return Ok(());
        }
        Ok(self.fold_of(&view)?.merge(&view.plan.aggregation, states)?)
    }

    fn fold_of(&mut self, view: &Arc<View>) -> Result<&mut Fold> {
        let (_, folded) = self.views.entry(view.id).or_insert_with(|| (Arc::clone(view), Folded::default()));
        folded.fold(view)
    }
}

/// Small batches of one stream, of one or many writers.
struct Pending {
    stream: StreamId,
    targets: Option<Arc<[ViewId]>>,
    batches: Vec<RecordBatch>,
}

impl Pending {
    fn new(stream: StreamId, targets: Option<Arc<[ViewId]>>, batch: &RecordBatch) -> Self {
        Self { stream, targets, batches: vec![batch.clone()] }
    }

    fn accepts(&self, stream: StreamId, targets: Option<&Arc<[ViewId]>>, batch: &RecordBatch) -> bool {
        self.stream == stream
            && self.targets.as_ref() == targets
            && batch.num_rows() < JOIN_ROWS_BELOW
            && self
                .batches
                .last()
                .is_some_and(|b| b.num_rows() < JOIN_ROWS_BELOW && b.schema() == batch.schema())
    }

    fn push(&mut self, batch: &RecordBatch) {
        self.batches.push(batch.clone());
    }

    fn join(&self) -> Result<RecordBatch> {
        match self.batches.as_slice() {
            [only] => Ok(only.clone()),
            batches => Ok(concat_batches(&batches[0].schema(), batches)?),
        }
    }
}
