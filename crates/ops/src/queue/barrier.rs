//! Barriers: values that get their components one after the other, by key, and are taken once they are complete. The
//! rules are those of TensorFlow's `Barrier`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Reservation, Shape, Strings, Tensor};

use super::blocking_queue::BlockingQueue;
use super::elements::{QueueElement, QueueSettings};
use super::partial_elements::PartialElement;
use crate::flow::rows::rows;
use crate::support::tensors::reserved;

pub(super) struct Barrier {
    pub(super) name: String,
    pub(super) dtypes: Vec<DType>,
    pub(super) shapes: Vec<Shape>,
    /// Complete elements in the order of their insertion: the number of that, the key, the components.
    ready: Arc<BlockingQueue>,
    state: Mutex<BarrierState>,
}

struct BarrierState {
    incomplete: HashMap<Box<[u8]>, IncompleteEntry>,
    /// Number of the next insertion of new keys.
    next: i64,
    closed: bool,
    cancelled: bool,
}

struct IncompleteEntry {
    insertion: i64,
    components: PartialElement,
    /// Memory of the key.
    _key: Reservation,
}

impl Barrier {
    /// An empty barrier for elements of these dtypes and shapes.
    pub(super) fn new(
        cx: &TensorCx<'_>,
        name: &str,
        dtypes: &[DType],
        shapes: &[Shape],
    ) -> Barrier {
        let (before, scalar) = ([DType::I64, DType::String], Shape::scalar());
        Barrier {
            name: name.to_owned(),
            dtypes: dtypes.to_vec(),
            shapes: shapes.to_vec(),
            ready: Arc::new(BlockingQueue::new(QueueSettings {
                kind: "Barrier",
                name: format!("Barrier '{name}'"),
                dtypes: [&before[..], dtypes].concat(),
                shapes: [&[scalar.clone(), scalar][..], shapes].concat(),
                capacity: -1,
                pads: false,
                shuffle: None,
                prioritized: true,
                memory: cx.memory().clone(),
            })),
            state: Mutex::new(BarrierState {
                incomplete: HashMap::new(),
                next: i64::MIN,
                closed: false,
                cancelled: false,
            }),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut BarrierState) -> R) -> R {
        f(&mut self.state.lock().unpoisoned())
    }

    /// Sets one component of the elements of keys; those that are complete then can be taken.
    pub(super) fn insert(
        &self,
        cx: &TensorCx<'_>,
        keys: Strings<'_>,
        component: usize,
        values: &Tensor,
    ) -> Result<(), KernelError> {
        let values = rows(cx.memory(), values)?;
        if keys.len() != values.len() {
            return Err(KernelError::Invalid(format!(
                "{} keys have {} values: give each key one",
                keys.len(),
                values.len()
            )));
        }
        if values.iter().any(Tensor::is_empty) {
            return Err(KernelError::Invalid(format!(
                "Tensors with no elements are not supported by barrier '{}'",
                self.name
            )));
        }
        let complete = self.with(|state| {
            if state.closed
                && (state.cancelled || (!keys.is_empty() && state.incomplete.is_empty()))
            {
                return Err(KernelError::Cancelled(format!(
                    "Barrier '{}' is closed",
                    self.name
                )));
            }
            let (mut complete, mut new) = (Vec::new(), false);
            let mut pairs = keys.iter().zip(values);
            let added = pairs.try_for_each(|(key, value)| {
                let added = self.insert_one(cx, state, (key, component), value, &mut new)?;
                complete.extend(added);
                Ok(())
            });
            state.next = state.next.saturating_add(new.into());
            added.map(|()| complete)
        })?;
        if !complete.is_empty() {
            self.ready.enqueue(cx, || Ok(complete))?;
        }
        if self.with(|state| state.closed && state.incomplete.is_empty()) {
            self.ready.close_and_cancel();
        }
        Ok(())
    }

    /// Sets a component of the element of a key; returns the element if it is complete.
    fn insert_one(
        &self,
        cx: &TensorCx<'_>,
        state: &mut BarrierState,
        (key, component): (&[u8], usize),
        value: Tensor,
        new: &mut bool,
    ) -> Result<Option<QueueElement>, KernelError> {
        let shown = || key.escape_ascii();
        if !state.incomplete.contains_key(key) {
            if state.closed {
                return Err(KernelError::Cancelled(format!(
                    "Barrier '{}' is closed, and takes no new key such as '{}'",
                    self.name,
                    shown()
                )));
            }
            let entry = IncompleteEntry {
                insertion: state.next,
                components: PartialElement::new(self.dtypes.len(), cx.memory())?,
                _key: reserved(key.len() + size_of::<IncompleteEntry>(), Some(cx.memory()))?,
            };
            state.incomplete.insert(key.into(), entry);
            *new = true;
        }
        let missing = KernelError::Argument("the element of a key");
        let entry = state.incomplete.get_mut(key).ok_or(missing)?;
        if entry.components.get(component).is_some() {
            return Err(KernelError::Invalid(format!(
                "Key '{}' already has a value for component {component} in barrier '{}'",
                shown(),
                self.name
            )));
        }
        entry.components.set(component, value);
        if !entry.components.is_complete() {
            return Ok(None);
        }
        let Some(entry) = state.incomplete.remove(key) else {
            return Ok(None);
        };
        let before = [Tensor::scalar(entry.insertion), cx.strings_of(&[], [key])?];
        let components = before.into_iter().chain(entry.components.into_components());
        QueueElement::new(components.collect(), cx.memory()).map(Some)
    }

    /// Takes complete elements as batches, as soon as there are enough.
    pub(super) fn take(
        &self,
        cx: &TensorCx<'_>,
        count: i64,
        small: bool,
    ) -> Result<Vec<Tensor>, KernelError> {
        // A node that waits asks once.
        let mut count = count;
        if !self.ready.has_request(cx) {
            self.with(|state| {
                let ready = self.ready.len() as i64;
                if !state.closed {
                    return Ok(());
                }
                let mut left = ready;
                match small {
                    true => count = count.min(ready),
                    false => left += state.incomplete.len() as i64,
                }
                match left < count.max(1) {
                    true => Err(KernelError::OutOfRange(format!(
                        "Barrier '{}' is closed and has insufficient elements (requested {count}, total size {left})",
                        self.name
                    ))),
                    false => Ok(()),
                }
            })?;
        }
        let elements = self.ready.dequeue(cx, count, small)?;
        self.ready.batches(&elements)
    }

    /// Refuses new keys; with `cancel` also components of known ones.
    pub(super) fn close(&self, cancel: bool) -> Result<(), KernelError> {
        self.with(|state| {
            if state.closed && (state.cancelled || !cancel) {
                return Err(KernelError::Cancelled(format!(
                    "Barrier '{}' is already closed",
                    self.name
                )));
            }
            (state.closed, state.cancelled) = (true, cancel);
            if cancel {
                state.incomplete.clear();
            }
            if state.incomplete.is_empty() {
                self.ready.close_and_cancel();
            }
            Ok(())
        })
    }

    /// Number of complete elements.
    pub(super) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Number of incomplete elements.
    pub(super) fn incomplete_len(&self) -> usize {
        self.with(|state| state.incomplete.len())
    }
}
