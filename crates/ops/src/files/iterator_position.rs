//! Position of an iterator as a value. A checkpoint holds it as an i64 scalar.

use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_tensor::{DType, Nesting, Tensor};

/// An iterator's position: the number of elements that were taken.
pub(crate) struct Position(pub(crate) u64);

impl Position {
    /// The position as a value of a graph.
    ///
    /// # Errors
    /// No tensor can be made.
    pub(crate) fn into_tensor(self) -> Result<Tensor, KernelError> {
        Ok(Tensor::variant(Arc::new(self), Nesting::default())?)
    }
}

/// The tensor that a checkpoint holds in place of this one.
pub(super) fn saved(tensor: &Tensor) -> Tensor {
    let position = match tensor.dtype() {
        DType::Variant => tensor.object::<Position>(),
        _ => None,
    };
    let number = position.and_then(|p| i64::try_from(p.0).ok());
    number.map_or_else(|| tensor.clone(), Tensor::scalar)
}

/// The position that a checkpoint holds in this entry.
///
/// # Errors
/// The entry is no position.
pub(super) fn restored(name: &str, entry: &Tensor) -> Result<Tensor, KernelError> {
    let number = entry.to_scalar::<i64>().ok();
    let position = number.and_then(|n| u64::try_from(n).ok()).ok_or_else(|| {
        KernelError::Invalid(format!(
            "'{name}' is no position of an iterator: that is an i64 scalar of at least 0"
        ))
    })?;
    Position(position).into_tensor()
}
