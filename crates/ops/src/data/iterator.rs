//! The state behind an iterator's handle: a dataset, and a pass over it that goes on from step to step.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use thalweg_device::{KernelError, TensorCx};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Calls, Effect, Gradient};
use thalweg_tensor::sync::Unpoisoned;

use super::dataset::{DatasetValue, Row, Rows};

/// Base definition of an op on iterators.
pub(super) const ITERATOR_OP: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Stateful,
    calls: Calls::Held,
    ..OpDef::EMPTY
};

/// Interval at which a node that waits for another one's element checks its step.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// An iterator: one element is made at a time, and nodes that ask meanwhile wait.
pub(super) struct DatasetIterator {
    pub(super) container: String,
    pub(super) name: String,
    /// The number of an anonymous iterator.
    pub(super) number: Option<u64>,
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    busy: bool,
    dataset: Option<Arc<DatasetValue>>,
    rows: Option<Box<dyn Rows>>,
    /// Elements that were taken.
    position: u64,
}

impl DatasetIterator {
    pub(super) fn new(container: &str, name: &str) -> DatasetIterator {
        DatasetIterator {
            container: container.to_owned(),
            name: name.to_owned(),
            number: None,
            state: Mutex::default(),
            released: Condvar::new(),
        }
    }

    /// An iterator that no name shares.
    pub(super) fn anonymous(number: u64) -> DatasetIterator {
        DatasetIterator {
            number: Some(number),
            ..DatasetIterator::new("", "anonymous iterator")
        }
    }

    /// Waits until no other node uses the iterator, and takes its state.
    fn take(&self, cx: &TensorCx<'_>) -> Result<Taken<'_>, KernelError> {
        let mut state = self.state.lock().unpoisoned();
        while state.busy {
            if cx.environment().is_stopped() {
                return Err(KernelError::Stopped);
            }
            (state, _) = self
                .released
                .wait_timeout(state, POLL_INTERVAL)
                .unpoisoned();
        }
        state.busy = true;
        let taken = State {
            busy: true,
            dataset: state.dataset.take(),
            rows: state.rows.take(),
            position: state.position,
        };
        Ok(Taken {
            iterator: self,
            state: taken,
        })
    }

    /// Starts a pass over a dataset.
    pub(super) fn start(
        &self,
        cx: &TensorCx<'_>,
        dataset: Arc<DatasetValue>,
    ) -> Result<(), KernelError> {
        let rows = dataset.dataset.rows(cx)?;
        let mut taken = self.take(cx)?;
        taken.state.rows = Some(rows);
        taken.state.dataset = Some(dataset);
        taken.state.position = 0;
        Ok(())
    }

    /// Starts a pass over the dataset that a function makes, unless there is one.
    pub(super) fn start_once(
        &self,
        cx: &TensorCx<'_>,
        make: impl FnOnce() -> Result<Arc<DatasetValue>, KernelError>,
    ) -> Result<(), KernelError> {
        let mut taken = self.take(cx)?;
        if taken.state.dataset.is_none() {
            let dataset = make()?;
            taken.state.rows = Some(dataset.dataset.rows(cx)?);
            taken.state.dataset = Some(dataset);
        }
        Ok(())
    }

    /// Ends the pass, and gives up the dataset.
    pub(super) fn stop(&self, cx: &TensorCx<'_>) -> Result<(), KernelError> {
        self.take(cx)?.state = State::default();
        Ok(())
    }

    /// The next element; `None` at the end.
    pub(super) fn next(&self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let mut taken = self.take(cx)?;
        let rows = taken
            .state
            .rows
            .as_mut()
            .ok_or_else(|| self.not_started())?;
        let row = rows.next(cx)?;
        taken.state.position += u64::from(row.is_some());
        Ok(row)
    }

    /// Number of elements that were taken.
    pub(super) fn position(&self, cx: &TensorCx<'_>) -> Result<u64, KernelError> {
        let taken = self.take(cx)?;
        match taken.state.rows {
            Some(_) => Ok(taken.state.position),
            None => Err(self.not_started()),
        }
    }

    /// Starts anew behind so many elements.
    pub(super) fn seek(&self, cx: &TensorCx<'_>, position: u64) -> Result<(), KernelError> {
        let mut taken = self.take(cx)?;
        let dataset = taken
            .state
            .dataset
            .as_ref()
            .ok_or_else(|| self.not_started())?;
        let mut rows = dataset.dataset.rows(cx)?;
        taken.state.position = rows.pass(cx, position)?;
        taken.state.rows = Some(rows);
        Ok(())
    }

    fn not_started(&self) -> KernelError {
        KernelError::Uninitialized {
            variable: self.name.clone(),
        }
    }
}

/// The state while a node uses it: it goes back when this is dropped, after an error and a panic too.
struct Taken<'a> {
    iterator: &'a DatasetIterator,
    state: State,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.iterator.state.lock().unpoisoned();
        *state = std::mem::take(&mut self.state);
        state.busy = false;
        self.iterator.released.notify_one();
    }
}
