//! The interface of drivers that connect the GPUs of several processes.

use std::fmt;
use std::sync::Arc;

use super::{GpuError, Handle};

/// Returns `true` while a wait for other ranks may go on.
pub type KeepWaiting = Arc<dyn Fn() -> bool + Send + Sync>;

/// Factory of communicators: the interface of a driver for several processes.
///
/// # Safety
/// Commands of a communicator must touch nothing but the memory that they name.
pub unsafe trait Communicators: fmt::Debug + Send + Sync {
    /// Makes the identity by which the ranks of a new communicator find each other: one rank makes it, and sends it to
    /// the others.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn identity(&self) -> Result<Vec<u8>, GpuError>;

    /// Meets the other ranks: all of them call this with the same identity and size, each with its own place. It
    /// returns once all are there, or when `keep_waiting` returns false. Later waits of the communicator check `keep_waiting`
    /// too.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn meet(
        &self,
        identity: &[u8],
        place: usize,
        size: usize,
        keep_waiting: KeepWaiting,
    ) -> Result<Handle, GpuError>;

    /// Aborts a communicator, wherever it waits: its commands run no further, and the memory that they write has no
    /// meaning. It is not used afterwards.
    fn abort(&self, communicator: Handle);

    /// Drops a communicator. Its commands have run, or it was aborted.
    fn drop_communicator(&self, communicator: Handle);

    /// Returns `true` if all commands of a queue have run: it does not wait.
    ///
    /// # Errors
    /// [`GpuError::Driver`], also of submitted commands.
    fn has_run(&self, queue: Handle) -> Result<bool, GpuError>;
}
