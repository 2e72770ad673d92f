//! Reading of a checkpoint.

mod assembly;
mod open;
mod reader;

pub use reader::BundleReader;
pub(crate) use reader::with_newest;
