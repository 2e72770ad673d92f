//! Context of a call, until its response has been sent.

use std::sync::Arc;

use super::leases::Caller;
use super::status::{Status, limit_exceeded};
use crate::limits::settings::limit_name;
use crate::runtime::budget::{BudgetExceeded, Reservation};
use crate::runtime::platform::Platform;

/// Context of a call, until its response has been sent: the caller, the reserved memory, and an undo for a client
/// that disconnects before.
pub(super) struct CallContext {
    pub(super) caller: Caller,
    pub(super) held: Reservation,
    pub(super) undo: Option<UndoOnDrop>,
}

/// Work that runs when this is dropped, unless it is disarmed.
pub(super) struct UndoOnDrop(Option<Box<dyn FnOnce() + Send>>);

impl UndoOnDrop {
    pub(super) fn new(work: impl FnOnce() + Send + 'static) -> UndoOnDrop {
        UndoOnDrop(Some(Box::new(work)))
    }

    /// Disarms it.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for UndoOnDrop {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work();
        }
    }
}

pub(super) fn call_bytes_exceeded(full: BudgetExceeded) -> Status {
    let text = format!(
        "the calls that go on hold {} bytes, as many as they may: call again when some have ended",
        full.most
    );
    limit_exceeded(const { limit_name("call_bytes") }, &text)
}

/// Runs a long computation on a thread of its own.
pub(super) async fn run_compute<T: Send + 'static>(
    platform: &Arc<dyn Platform>,
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    platform.run_compute(work).await?
}
