//! How a step gives values to other tasks, and takes values from them.

use std::sync::Arc;

use thalweg_device::{KernelError, Ticket};
use thalweg_tensor::Tensor;

/// How the tasks of one step give values to each other.
pub trait Exchange: Send + Sync {
    /// Gives a value to the task that receives this channel.
    ///
    /// # Errors
    /// The step is over, or that task is not reached.
    fn send(&self, channel: i64, value: Tensor) -> Result<(), KernelError>;

    /// The value that was given through this channel; `None` until it is there, and `ticket` is woken
    /// then.
    ///
    /// # Errors
    /// The step is over, or the task that gives it is not reached.
    fn receive(&self, channel: i64, ticket: &Ticket) -> Result<Option<Tensor>, KernelError>;

    /// How the step waits where nothing of it can run; none where its thread is to sleep.
    fn rest(&self) -> Option<Arc<dyn Rest>> {
        None
    }
}

/// Another way to wait than on a thread that sleeps: a simulation's, whose time stands still while
/// something runs.
pub trait Rest: Send + Sync {
    /// Returns once it was woken. Called on the thread of the step.
    fn rest(&self);

    /// Something may go on. Called from any thread.
    fn wake(&self);
}
