//! The interface by which a step sends values to other tasks and receives values from them.

use std::sync::Arc;

use thalweg_device::{KernelError, Ticket};
use thalweg_tensor::Tensor;

/// Channels between the tasks of one step.
pub trait TaskChannels: Send + Sync {
    /// Sends a value to the task that receives this channel.
    ///
    /// # Errors
    /// The step is over, or that task is not reached.
    fn send(&self, channel: i64, value: Tensor) -> Result<(), KernelError>;

    /// Returns the value that was sent through this channel; `None` until it is there: `ticket` is woken then.
    ///
    /// # Errors
    /// The step is over, or the task that sends it is not reached.
    fn receive(&self, channel: i64, ticket: &Ticket) -> Result<Option<Tensor>, KernelError>;

    /// Blocks the step's thread while nothing of the step can run; `None` where the thread sleeps on a condition
    /// variable.
    fn parker(&self) -> Option<Arc<dyn Parker>> {
        None
    }
}

/// A way to wait other than a sleeping thread, for simulations: their time stands still while something runs.
pub trait Parker: Send + Sync {
    /// Blocks until it is woken. Called on the thread of the step.
    fn park(&self);

    /// Wakes the step: something may go on. Called from any thread.
    fn unpark(&self);
}
