//! Addresses in a GPU's memory, and handles of a driver's objects.

/// An address in a GPU's memory.
pub type Address = u64;

/// A function that is loaded, a graph that was captured, or an event: a driver's own number for it.
pub type Handle = u64;

/// What the addresses of a GPU's values are multiples of, in bytes: as [`Driver::allocate`](super::Driver::allocate) gives
/// memory, and as cuBLASLt's algorithms for Hopper want it.
pub const ALIGNMENT: usize = 256;
