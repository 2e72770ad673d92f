//! What the targets share: how an input becomes calls, and a client of TensorFlow's with a server of its own.

pub mod client;
pub mod inputs;
pub mod weights;
