//! Blocks of elements, on the stack.

use smallvec::SmallVec;

/// Number of elements that are widened or repeated at a time.
pub(crate) const BLOCK: usize = 1024;

/// A block of elements, on the stack.
pub(crate) type Block<T> = SmallVec<[T; BLOCK]>;
