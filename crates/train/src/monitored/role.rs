//! Role of a process in a training.

/// Role of a process in a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Initializes, saves and restores the variables. There is one chief.
    Chief,
    /// Waits for the chief.
    Worker,
}
