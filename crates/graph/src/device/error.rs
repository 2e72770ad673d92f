//! Errors of device functions.

use thiserror::Error;

use super::SpecError;
use thalweg_tensor::shape::Shape;

/// The reason why a device function has no device for a node.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum DeviceFnError {
    /// A string that is not a device.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A node whose load is needed, and that does not have exactly one output.
    #[error("its load is that of its only output, but it has {found}")]
    Outputs {
        /// The number of its outputs.
        found: usize,
    },
    /// A node whose load is needed, and whose shape is not known.
    #[error("its load is not known, as its shape is {shape}: give its shape in full")]
    Shape {
        /// Its shape.
        shape: Shape,
    },
    /// A variable that fits on no server.
    #[error(
        "its {bytes} bytes do not fit where it may go; by server {free:?} are free: split it, or add \
         servers"
    )]
    Memory {
        /// Its bytes.
        bytes: u64,
        /// By server: the bytes that are free.
        free: Vec<u64>,
    },
    /// A load function that returned no valid load.
    #[error("its load is said to be {load}: give a finite number, 0 or more")]
    Load {
        /// The value that the function returned.
        load: f64,
    },
    /// The error of a user's function.
    #[error("{0}")]
    Other(String),
}
