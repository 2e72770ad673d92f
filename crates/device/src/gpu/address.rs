//! Addresses in a GPU's memory, and handles of a driver's objects.

/// An address in a GPU's memory.
pub type Address = u64;

/// A function that is loaded, a graph that was captured, or an event: a driver's own number for it.
pub type Handle = u64;

/// Alignment of a GPU's values in bytes: that of [`Driver::allocate`](super::Driver::allocate), and the one that
/// cuBLASLt's algorithms for Hopper need.
pub const ALIGNMENT: usize = 256;
