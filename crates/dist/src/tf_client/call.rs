//! Context of a call, until its response has been sent.

use std::sync::Arc;

use thalweg_tensor::Reservation;

use super::leases::Caller;
use super::status::{Status, limit_exceeded};
use crate::limits::settings::limit_name;
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

/// Reserves memory of a call.
///
/// # Errors
/// The memory of all open calls would exceed its limit.
pub(super) fn reserve(held: &mut Reservation, bytes: usize) -> Result<(), Status> {
    if held.grow(bytes) {
        return Ok(());
    }
    let text = format!(
        "the calls that go on hold {} bytes, as many as they may: call again when some have ended",
        held.limit().unwrap_or(usize::MAX)
    );
    Err(limit_exceeded(const { limit_name("call_bytes") }, &text))
}

/// Runs a long computation on a thread of its own.
pub(super) async fn run_compute<T: Send + 'static>(
    platform: &Arc<dyn Platform>,
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    platform.run_compute(work).await?
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use thalweg_tensor::Memory;

    use super::*;

    #[test]
    fn work_is_undone_unless_its_response_was_sent() {
        let undone = Arc::new(AtomicUsize::new(0));
        let undo = || {
            let count = undone.clone();
            UndoOnDrop::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
        };
        undo().keep();
        assert_eq!(undone.load(Ordering::SeqCst), 0);
        drop(undo());
        assert_eq!(undone.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_call_beyond_the_memory_of_calls_is_refused_and_the_flag_is_named() {
        let memory = Arc::new(Memory::new(Some(5)));
        let mut held = Reservation::of(Some(&memory));
        reserve(&mut held, 5).unwrap();
        let status = reserve(&mut held, 1).unwrap_err();
        assert_eq!(status.limit, Some("call_bytes"));
        for part in ["5 bytes", "--call-bytes", "Limits::call_bytes"] {
            assert!(status.message.contains(part), "{status}");
        }
    }
}
