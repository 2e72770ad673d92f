//! The interface of drivers that connect the GPUs of several processes.

use std::fmt;
use std::sync::Arc;

use super::{GpuError, Handle};

/// Whether a wait for other ranks may go on: the watch of who waits.
pub type GoesOn = Arc<dyn Fn() -> bool + Send + Sync>;

/// Makes communicators: what a driver has for several processes.
///
/// # Safety
/// Commands of a communicator must touch nothing but what they name.
pub unsafe trait Communicators: fmt::Debug + Send + Sync {
    /// By what the ranks of a new communicator find each other: one rank asks for it, and tells the others.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn identity(&self) -> Result<Vec<u8>, GpuError>;

    /// Meets the other ranks: all of them call this with the same identity and size, each with its own place. It returns
    /// once all are there, or when `goes_on` gives false. Later waits of the communicator look at `goes_on` too.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn meet(
        &self,
        identity: &[u8],
        place: usize,
        size: usize,
        goes_on: GoesOn,
    ) -> Result<Handle, GpuError>;

    /// Ends what a communicator is doing, wherever it waits: its commands run no further, and what they write has no
    /// meaning. It is not used afterwards.
    fn abort(&self, communicator: Handle);

    /// Gives a communicator up. Its commands have run, or it was aborted.
    fn drop_communicator(&self, communicator: Handle);

    /// Whether all that was submitted to a queue has run: it does not wait.
    ///
    /// # Errors
    /// [`GpuError::Driver`], also of what was submitted.
    fn has_run(&self, queue: Handle) -> Result<bool, GpuError>;
}
