//! Who reads what is written to a stream, and what transforms make of it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::join::{JoinedRows, Joins};
use crate::stream::StreamId;
use crate::transform::Transform;
use crate::view::{View, ViewId};

/// All views and transforms, and the streams that they read.
#[derive(Debug, Default)]
pub(super) struct Registry {
    pub views: HashMap<ViewId, Arc<View>>,
    pub transforms: HashMap<ViewId, Arc<Transform>>,
    by_stream: HashMap<StreamId, Readers>,
    /// Any of them joins something.
    has_joins: bool,
}

/// What reads a stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Readers {
    pub views: Vec<Arc<View>>,
    pub transforms: Vec<Arc<Transform>>,
}

impl Registry {
    pub fn insert_view(&mut self, view: Arc<View>) {
        for stream in view.plan.streams() {
            self.by_stream.entry(stream).or_default().views.push(Arc::clone(&view));
        }
        self.has_joins |= !view.joins().all().is_empty();
        self.views.insert(view.id, view);
    }

    pub fn remove_view(&mut self, id: ViewId) -> Option<Arc<View>> {
        for readers in self.by_stream.values_mut() {
            readers.views.retain(|v| v.id != id);
        }
        self.views.remove(&id)
    }

    /// In the place of one with the same number.
    pub fn insert_transform(&mut self, transform: Arc<Transform>) {
        self.remove_transform(transform.id);
        for stream in transform.plan.streams() {
            self.by_stream.entry(stream).or_default().transforms.push(Arc::clone(&transform));
        }
        self.has_joins |= !transform.joins().all().is_empty();
        self.transforms.insert(transform.id, transform);
    }

    pub fn remove_transform(&mut self, id: ViewId) {
        for readers in self.by_stream.values_mut() {
            readers.transforms.retain(|t| t.id != id);
        }
        self.transforms.remove(&id);
    }

    /// Those that take what is written to `stream` now.
    pub fn targets(&self, stream: StreamId, targets: Option<&[ViewId]>) -> Readers {
        let Some(readers) = self.by_stream.get(&stream) else { return Readers::default() };
        let is_target = |id: &ViewId| targets.is_none_or(|targets| targets.contains(id));
        let views = readers.views.iter().filter(|v| v.is_active() && is_target(&v.id));
        let transforms = readers.transforms.iter().filter(|t| t.is_active() && is_target(&t.id));
        Readers { views: views.cloned().collect(), transforms: transforms.cloned().collect() }
    }

    /// The joins of those that take what is written to `stream`, and what transforms make of it.
    pub fn joins(&self, stream: StreamId, targets: Option<&[ViewId]>) -> Vec<(ViewId, Arc<Joins>)> {
        if !self.has_joins {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut waiting = vec![(stream, targets)];
        let mut seen = Vec::new();
        while let Some((stream, targets)) = waiting.pop() {
            let Some(readers) = self.by_stream.get(&stream).filter(|_| !seen.contains(&stream)) else {
                continue;
            };
            seen.push(stream);
            let is_target = |id: &ViewId| targets.is_none_or(|targets| targets.contains(id));
            let views = readers.views.iter().filter(|v| v.is_active() && is_target(&v.id));
            found.extend(views.map(|view| (view.id, view.joins())));
            for transform in readers.transforms.iter().filter(|t| t.is_active() && is_target(&t.id)) {
                found.push((transform.id, transform.joins()));
                waiting.extend(transform.outputs().map(|output| (output, None)));
            }
        }
        let has_joins = |(_, joins): &(ViewId, &Arc<Joins>)| !joins.all().is_empty();
        found.into_iter().filter(has_joins).map(|(id, joins)| (id, Arc::clone(joins))).collect()
    }
}

/// Has `fold` take events and then those that transforms make of them, to any depth. It folds a batch for the views of its
/// stream and returns the transforms that read it. `targets` are about the first stream: all readers of an output take it.
///
/// That no stream feeds itself is the catalog's affair. `joined` are rows that these events join in the place of those that all
/// others do.
pub(super) fn cascade(
    stream: StreamId,
    targets: Option<&[ViewId]>,
    events: &RecordBatch,
    joined: &JoinedRows,
    mut fold: impl FnMut(StreamId, Option<&[ViewId]>, &RecordBatch) -> Result<Vec<Arc<Transform>>>,
) -> Result<()> {
    let transforms = fold(stream, targets, events)?;
    // The next one last: what comes of one output is folded before the next output.
    let mut waiting = outputs(&transforms, stream, events, joined)?;
    while let Some((stream, events)) = waiting.pop() {
        let transforms = fold(stream, None, &events)?;
        waiting.extend(outputs(&transforms, stream, &events, joined)?);
    }
    Ok(())
}

/// What transforms make of events, in reverse.
fn outputs(
    transforms: &[Arc<Transform>],
    stream: StreamId,
    events: &RecordBatch,
    joined: &JoinedRows,
) -> Result<Vec<(StreamId, RecordBatch)>> {
    let mut made = Vec::new();
    for transform in transforms {
        made.extend(transform.run(stream, events, joined)?);
    }
    made.reverse();
    Ok(made)
}
