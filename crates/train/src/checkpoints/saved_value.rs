//! SavedValue: a value of the program that checkpoints keep.

use std::sync::{Arc, Mutex};

use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

/// A value that a checkpoint keeps beside the variables: the position of the input, for example. Clones share the
/// value. [`crate::Saver::keep`] creates one.
#[derive(Clone, Debug)]
pub struct SavedValue(Arc<Mutex<Tensor>>);

impl SavedValue {
    pub(super) fn new(value: Tensor) -> SavedValue {
        SavedValue(Arc::new(Mutex::new(value)))
    }

    /// Sets the value, which the next save keeps.
    pub fn set(&self, value: impl Into<Tensor>) {
        *self.0.lock().unpoisoned() = value.into();
    }

    /// The value that was set last, or restored.
    pub fn get(&self) -> Tensor {
        self.0.lock().unpoisoned().clone()
    }
}
