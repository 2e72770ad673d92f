//! Graphs of the modules of a crate, read from its sources: which file uses which, through re-exports too, and circles
//! between the children of each folder.

mod circles;
mod file;
mod resolve;

pub use circles::{Circle, circles};
pub use file::{Import, Module, Source, sources};
pub use resolve::uses;
