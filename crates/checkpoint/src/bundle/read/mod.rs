//! Reading of a checkpoint.

mod open;
mod reader;
mod target;

pub use reader::BundleReader;
pub(crate) use reader::with_newest;
