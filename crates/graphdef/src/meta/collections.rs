//! Names of the collections of variables.

/// The collections that hold variables.
pub(super) const VARIABLES: &str = "variables";
/// The collection of trainable variables.
pub(super) const TRAINABLE: &str = "trainable_variables";
/// The collection of local variables: a step sets them again in each process, and savers leave them out.
pub const LOCAL: &str = "local_variables";
