//! Reader of a checkpoint: its index, its tensors, and slices of partitioned variables.

pub(super) mod assembly;
mod open;
mod reader;

pub use reader::BundleReader;
pub(crate) use reader::with_newest;
