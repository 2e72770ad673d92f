//! Names of the collections of variables.

/// The collections that hold variables.
pub(super) const VARIABLES: &str = "variables";
/// The collection of trainable variables.
pub(super) const TRAINABLE: &str = "trainable_variables";
