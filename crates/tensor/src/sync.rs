//! Locks that ignore poisoning.

use std::sync::{LockResult, PoisonError};

/// Takes a guard, or a guarded value, even if a thread panicked while it held the lock.
///
/// The crates of the workspace lock mutexes so, and wait on condition variables so. Whatever a lock guards is consistent
/// after each change, and user code does not run half-way through one. Besides, a panic ends its own step or call with an
/// error. Poisoning would only spread that panic to the steps and servers that share the lock.
///
/// ```
/// use std::sync::Mutex;
///
/// use thalweg_tensor::sync::Unpoisoned;
///
/// let count = Mutex::new(1);
/// *count.lock().unpoisoned() += 1;
/// assert_eq!(count.into_inner().unpoisoned(), 2);
/// ```
pub trait Unpoisoned {
    /// The guard, or the guarded value.
    type Guarded;

    /// Returns the guard, or the guarded value.
    fn unpoisoned(self) -> Self::Guarded;
}

impl<G> Unpoisoned for LockResult<G> {
    type Guarded = G;

    fn unpoisoned(self) -> G {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}
