//! Targets of arbitrary bytes: a task in this process, and the reader of a peer's responses. Both are crate-private;
//! the targets of `fuzz` and the tests of this crate reach them here.

pub mod answers;
pub mod tasks;
