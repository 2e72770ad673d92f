//! Slots of the steps that a server runs at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Slot of a running step. A drop frees it.
pub(crate) struct StepSlot(pub(super) Arc<AtomicUsize>);

impl Drop for StepSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
