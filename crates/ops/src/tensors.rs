//! What several kernels on tensors do with whole tensors.

use thalweg_device::KernelError;
use thalweg_tensor::{DType, Dims, Tensor, TensorError, dispatch};

use thalweg_cpu::number::Number;

/// The sum of two tensors of one dtype and shape; in the first one's memory, where nobody else has it.
pub(crate) fn sum(mut to: Tensor, more: &Tensor) -> Result<Tensor, KernelError> {
    if to.dims() != more.dims() || to.dtype() != more.dtype() {
        return Err(KernelError::Invalid(format!(
            "{}{} and {}{} cannot be added: they must have one dtype and shape",
            to.dtype(),
            to.shape(),
            more.dtype(),
            more.shape()
        )));
    }
    dispatch!(to.dtype(), NUMBERS, T => {
        let elements = to.as_mut_slice::<T>()?;
        for (to, &x) in elements.iter_mut().zip(more.as_slice::<T>()?) {
            *to = Number::add(*to, x);
        }
    }, else return Err(KernelError::DType(to.dtype())));
    Ok(to)
}

/// The bytes of a tensor of numbers.
///
/// # Errors
/// [`TensorError::DType`] where they are not numbers of this dtype.
pub(crate) fn bytes_mut(tensor: &mut Tensor, dtype: DType) -> Result<&mut [u8], KernelError> {
    let found = tensor.dtype();
    if found != dtype {
        return Err(TensorError::DType {
            asked: dtype,
            found,
        }
        .into());
    }
    dispatch!(dtype, NUMBERS, T => Ok(bytemuck::cast_slice_mut(tensor.as_mut_slice::<T>()?)), else
        Err(KernelError::DType(dtype)))
}

/// So many times a value, where the system has the memory: for a length that a graph chooses.
pub(crate) fn filled<T: Clone>(len: usize, value: T) -> Result<Vec<T>, KernelError> {
    let mut all = Vec::new();
    all.try_reserve_exact(len)
        .map_err(|_| TensorError::TooLarge {
            dtype: DType::U8,
            dims: Dims::from_slice(&[len.saturating_mul(size_of::<T>())]),
        })?;
    all.resize(len, value);
    Ok(all)
}
