//! Staging maps: values that one step stores under a key for a later step to take. The rules are those of TensorFlow's
//! `StagingMap`.

use std::collections::BTreeMap;
use std::sync::Mutex;

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Tensor};

use super::partial_elements::PartialElement;
use super::staging_area::{WaitList, bytes, check_fits};

/// A bounded map of entries by key; an entry is a list of tensors, which may come one after the other.
pub(super) struct StagingMap {
    /// Limits on the number of complete entries and on the bytes of all; 0 for no limit.
    pub(super) capacity: usize,
    pub(super) bytes: usize,
    pub(super) state: Mutex<MapState>,
}

#[derive(Default)]
pub(super) struct MapState {
    complete: BTreeMap<i64, PartialElement>,
    incomplete: BTreeMap<i64, PartialElement>,
    bytes: usize,
    waiting: WaitList,
}

/// Fails unless the numbers of components ascend and are below `count`.
fn check_indices(indices: &[i64], count: usize) -> Result<Vec<usize>, KernelError> {
    let numbers: Option<Vec<usize>> = indices.iter().map(|&i| usize::try_from(i).ok()).collect();
    let ascending = numbers.filter(|n| !n.is_empty() && n.is_sorted_by(|a, b| a < b));
    let numbers = ascending.ok_or_else(|| {
        KernelError::Invalid(format!(
            "Indices are not strictly ordered, or empty: {indices:?}"
        ))
    })?;
    match numbers.last() {
        Some(last) if *last >= count => Err(KernelError::Invalid(format!(
            "Index '{last}' was out of bounds: there are {count} components"
        ))),
        _ => Ok(numbers),
    }
}

/// Removes components of an entry, or with `keep` copies them.
fn taken(
    key: i64,
    entry: &mut PartialElement,
    indices: &[i64],
    keep: bool,
) -> Result<Vec<Tensor>, KernelError> {
    let indices = check_indices(indices, usize::MAX)?;
    if let Some(index) = indices.iter().find(|i| entry.get(**i).is_none()) {
        return Err(KernelError::Invalid(format!(
            "Tensor at index '{index}' for key '{key}' has already been removed."
        )));
    }
    let take = |&index: &usize| match keep {
        true => entry.get(index).cloned(),
        false => entry.take(index),
    };
    Ok(indices.iter().filter_map(take).collect())
}

impl StagingMap {
    fn with<R>(&self, f: impl FnOnce(&mut MapState) -> R) -> R {
        f(&mut self.state.lock().unpoisoned())
    }

    /// Stores components of the entry of a key, of these dtypes, as soon as there is room.
    pub(super) fn put(
        &self,
        cx: &TensorCx<'_>,
        key: i64,
        indices: &[i64],
        values: Vec<Tensor>,
        dtypes: &[DType],
    ) -> Result<(), KernelError> {
        let indices = check_indices(indices, dtypes.len())?;
        let fits = |(index, value): (&usize, &Tensor)| value.dtype() == dtypes[*index];
        if indices.len() != values.len() || !indices.iter().zip(&values).all(fits) {
            return Err(KernelError::Invalid(format!(
                "the values for key '{key}' are not the components {indices:?} of dtypes {dtypes:?}"
            )));
        }
        values.iter().try_for_each(Tensor::check_can_be_held)?;
        let size = bytes(&values);
        check_fits(size, self.bytes)?;
        let whole = indices.len() == dtypes.len();
        self.with(|state| {
            let full = whole && self.capacity > 0 && state.complete.len() >= self.capacity;
            if full || (self.bytes > 0 && state.bytes + size > self.bytes) {
                return state.waiting.wait(cx);
            }
            let new = || PartialElement::new(dtypes.len(), cx.memory());
            let mut entry = match state.incomplete.remove(&key).filter(|_| !whole) {
                Some(entry) => entry,
                None => new()?,
            };
            if let Some(index) = indices.iter().find(|i| entry.get(**i).is_some()) {
                let index = *index;
                state.incomplete.insert(key, entry);
                return Err(KernelError::Invalid(format!(
                    "The tensor for index '{index}' for key '{key}' was already initialized"
                )));
            }
            for (index, value) in indices.into_iter().zip(values) {
                entry.set(index, value);
            }
            if !entry.is_complete() {
                state.bytes += size;
                state.incomplete.insert(key, entry);
                return Ok(());
            }
            // A complete entry stays as it is.
            if let std::collections::btree_map::Entry::Vacant(place) = state.complete.entry(key) {
                state.bytes += size;
                place.insert(entry);
            }
            state.waiting.wake();
            Ok(())
        })
    }

    /// Components of the entry of a key as soon as it is complete, which stay there with `keep`.
    pub(super) fn take(
        &self,
        cx: &TensorCx<'_>,
        key: i64,
        indices: &[i64],
        keep: bool,
    ) -> Result<Vec<Tensor>, KernelError> {
        self.with(|state| {
            let Some(entry) = state.complete.get_mut(&key) else {
                return state.waiting.wait(cx);
            };
            let values = taken(key, entry, indices, keep)?;
            if !keep {
                state.removed(key, &values);
            }
            Ok(values)
        })
    }

    /// The smallest key of a complete entry, as soon as there is one, and components of its entry.
    pub(super) fn take_first(
        &self,
        cx: &TensorCx<'_>,
        indices: &[i64],
    ) -> Result<(i64, Vec<Tensor>), KernelError> {
        self.with(|state| {
            let Some((&key, entry)) = state.complete.iter_mut().next() else {
                return state.waiting.wait(cx);
            };
            let values = taken(key, entry, indices, false)?;
            state.removed(key, &values);
            Ok((key, values))
        })
    }

    /// Number of complete entries, and of others.
    pub(super) fn sizes(&self) -> [usize; 2] {
        self.with(|state| [state.complete.len(), state.incomplete.len()])
    }

    pub(super) fn clear(&self) {
        self.with(|state| {
            state.complete.clear();
            state.incomplete.clear();
            state.bytes = 0;
            state.waiting.wake();
        });
    }
}

impl MapState {
    /// Counts values that were taken from a key's entry, and removes an empty one.
    fn removed(&mut self, key: i64, values: &[Tensor]) {
        self.bytes = self.bytes.saturating_sub(bytes(values));
        if self
            .complete
            .get(&key)
            .is_some_and(PartialElement::is_empty)
        {
            self.complete.remove(&key);
        }
        self.waiting.wake();
    }
}
