//! A place among the steps that a server runs at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A step's place among those that run.
pub(crate) struct StepSlot(pub(super) Arc<AtomicUsize>);

impl Drop for StepSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
