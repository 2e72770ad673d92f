//! TensorFlow 1's control flow: what in a graph runs never or often, and what is made of it.

mod contexts;
mod regions;

pub use contexts::Contexts;
pub use regions::{REGION, collapse};

/// The op that chooses one of two outputs.
pub const SWITCH: &str = "Switch";
/// The op that takes whichever input comes.
pub const MERGE: &str = "Merge";
/// The op through which a value comes into a loop.
pub const ENTER: &str = "Enter";
/// The op through which a value leaves a loop.
pub const EXIT: &str = "Exit";
/// The op through which a value goes to the next turn of a loop.
pub const NEXT: &str = "NextIteration";
