//! Values of a program that belong to a checkpoint.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg_tensor::Tensor;

/// A value beside the variables that a checkpoint keeps: the position of the input, for example. Clones are the same
/// value. [`crate::Saver::keep`] makes one.
#[derive(Clone, Debug)]
pub struct Kept(Arc<Mutex<Tensor>>);

impl Kept {
    pub(super) fn new(value: Tensor) -> Kept {
        Kept(Arc::new(Mutex::new(value)))
    }

    /// Gives it a value, which the next save keeps.
    pub fn set(&self, value: impl Into<Tensor>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value.into();
    }

    /// Its value: what was set last, or what was restored.
    pub fn get(&self) -> Tensor {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
