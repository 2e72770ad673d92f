//! Kernels without work: views of the input's buffer, and empty outputs.

use thalweg_device::Prepared;
use thalweg_device::{Body, Kernel};

/// Kernel whose output is its input's buffer.
pub(crate) const VIEW: Kernel = Kernel {
    device: None,
    dtypes: &[],
    in_place: &[],
    body: Body::View,
};

/// Kernel whose output has no elements.
pub(crate) fn nothing() -> Prepared {
    Prepared::new(0, |_| Ok(()))
}
