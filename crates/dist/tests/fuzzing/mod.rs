//! What bytes of peers that do not mean well are given to: a task in this process, and the reader of a
//! task's answers. Both are crate-private; the targets of `fuzz` and the tests of this crate reach them here.

pub mod answers;
pub mod tasks;
