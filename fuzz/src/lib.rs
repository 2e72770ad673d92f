//! What the targets share: how an input becomes calls, and a client of TensorFlow's with a server of its own.

#[cfg(feature = "cluster")]
pub mod client;
pub mod inputs;
pub mod memory;
#[cfg(feature = "cluster")]
pub mod raw;
pub mod weights;
