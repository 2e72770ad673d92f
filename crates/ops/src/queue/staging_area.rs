//! Staging areas: values that one step stores for a later step to take.

use std::collections::VecDeque;
use std::sync::Mutex;

use thalweg_device::{KernelError, TensorCx, Ticket};
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

use super::elements::QueueElement;

/// Tickets of nodes that wait for a change.
#[derive(Default)]
pub(super) struct WaitList(Vec<Ticket>);

impl WaitList {
    /// Registers a waiting node.
    pub(super) fn wait<T>(&mut self, cx: &TensorCx<'_>) -> Result<T, KernelError> {
        let ticket = cx.environment().ticket();
        if !self.0.iter().any(|t| t.number() == ticket.number()) {
            self.0.push(ticket);
        }
        Err(KernelError::Blocked)
    }

    /// Wakes all waiting nodes; each checks again.
    pub(super) fn wake(&mut self) {
        self.0.drain(..).for_each(|t| t.wake());
    }
}

/// A bounded first-in, first-out buffer of entries; an entry is a list of tensors.
pub(super) struct StagingArea {
    /// Limits on the number of entries and on their bytes; 0 for no limit.
    pub(super) capacity: usize,
    pub(super) bytes: usize,
    state: Mutex<StagingState>,
}

#[derive(Default)]
struct StagingState {
    entries: VecDeque<QueueElement>,
    waiting: WaitList,
}

/// Bytes of an entry.
pub(super) fn bytes(entry: &[Tensor]) -> usize {
    entry.iter().map(|t| t.byte_size()).sum()
}

/// Fails if so many bytes never fit within a limit; 0 is no limit.
pub(super) fn check_fits(size: usize, limit: usize) -> Result<(), KernelError> {
    match limit > 0 && size > limit {
        true => Err(KernelError::Invalid(format!(
            "{size} bytes do not fit a staging area of {limit}: make its memory_limit larger"
        ))),
        false => Ok(()),
    }
}

impl StagingArea {
    pub(super) fn new(capacity: usize, bytes: usize) -> StagingArea {
        StagingArea {
            capacity,
            bytes,
            state: Mutex::default(),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut StagingState) -> R) -> R {
        f(&mut self.state.lock().unpoisoned())
    }

    /// Appends an entry as soon as there is room.
    pub(super) fn put(&self, cx: &TensorCx<'_>, entry: Vec<Tensor>) -> Result<(), KernelError> {
        entry.iter().try_for_each(Tensor::check_can_be_held)?;
        let size = bytes(&entry);
        check_fits(size, self.bytes)?;
        let entry = QueueElement::new(entry, cx.memory())?;
        self.with(|state| {
            let used: usize = state.entries.iter().map(|e| bytes(e)).sum();
            let full = self.capacity > 0 && state.entries.len() >= self.capacity;
            if full || (self.bytes > 0 && used + size > self.bytes) {
                return state.waiting.wait(cx);
            }
            state.entries.push_back(entry);
            state.waiting.wake();
            Ok(())
        })
    }

    /// Removes the oldest entry as soon as there is one.
    pub(super) fn take(&self, cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
        self.with(|state| match state.entries.pop_front() {
            Some(entry) => {
                state.waiting.wake();
                Ok(entry.into_components())
            }
            None => state.waiting.wait(cx),
        })
    }

    /// Returns the entry at `index` as soon as there is one, without removing it.
    pub(super) fn peek(&self, cx: &TensorCx<'_>, index: i64) -> Result<Vec<Tensor>, KernelError> {
        let index = usize::try_from(index)
            .map_err(|_| KernelError::Invalid(format!("{index} is no place in a staging area")))?;
        self.with(|state| match state.entries.get(index) {
            Some(entry) => Ok(entry.to_vec()),
            None => state.waiting.wait(cx),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.with(|state| state.entries.len())
    }

    pub(super) fn clear(&self) {
        self.with(|state| {
            state.entries.clear();
            state.waiting.wake();
        });
    }
}
