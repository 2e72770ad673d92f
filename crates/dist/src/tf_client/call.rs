//! What a call holds until its answer has gone.

use std::sync::Arc;

use super::leases::Caller;
use super::status::{Status, met};
use crate::limit_names::CALL_BYTES;
use crate::runtime::budget::{Full, Held};
use crate::runtime::platform::Platform;

/// What belongs to a call until its answer has gone: who calls, the memory that it holds, and how to undo what it
/// has made for a client that goes before.
pub(super) struct Kept {
    pub(super) caller: Caller,
    pub(super) held: Held,
    pub(super) undo: Option<Undo>,
}

/// What is done when this is dropped, unless it is kept from that.
pub(super) struct Undo(Option<Box<dyn FnOnce() + Send>>);

impl Undo {
    pub(super) fn new(work: impl FnOnce() + Send + 'static) -> Undo {
        Undo(Some(Box::new(work)))
    }

    /// Lets things be as they are.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work();
        }
    }
}

pub(super) fn full(full: Full) -> Status {
    let text = format!(
        "the calls that go on hold {} bytes, as many as they may: call again when some have ended",
        full.most
    );
    met(CALL_BYTES, &text)
}

/// Runs what may take long on a thread of its own.
pub(super) async fn apart<T: Send + 'static>(
    platform: &Arc<dyn Platform>,
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    platform.given(work).await?
}
