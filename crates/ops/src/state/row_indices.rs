//! Helpers of the ops on rows of a variable.

use thalweg_device::{KernelCx, KernelError, Prepare};
use thalweg_tensor::{DType, Dims, Element, Shape};

/// Dimensions of the value of the variable behind input 0.
pub(super) fn value_dims(cx: &KernelCx<'_>) -> Result<Dims, KernelError> {
    let variable = cx.variable(0)?;
    let held = variable.lock();
    let value = held.as_ref().ok_or_else(|| variable.uninitialized())?;
    Ok(value.dims().into())
}

/// Number of dimensions that the variable and indices of `rank` share.
pub(super) fn batch_dims(requested: i64, rank: usize) -> Option<usize> {
    let dims = match requested < 0 {
        true => requested.checked_add(i64::try_from(rank).ok()?)?,
        false => requested,
    };
    usize::try_from(dims).ok().filter(|&b| b <= rank)
}

/// The error for a variable of another shape than the step was planned for.
pub(super) fn shape_mismatch(found: &Shape) -> KernelError {
    KernelError::Invalid(format!(
        "the variable has shape {found}, which the step was not planned for"
    ))
}

/// Indices of rows, read from input `input`.
#[derive(Clone, Copy)]
pub(super) struct RowIndices {
    input: usize,
    dtype: DType,
}

impl RowIndices {
    pub(super) fn of(p: &Prepare<'_>, input: usize) -> RowIndices {
        RowIndices {
            input,
            dtype: p.dtype(input),
        }
    }

    /// The indices at an input of this dtype.
    pub(super) fn at(input: usize, dtype: DType) -> RowIndices {
        RowIndices { input, dtype }
    }

    /// Calls `f` with each index, in order.
    pub(super) fn for_each(
        self,
        cx: &KernelCx<'_>,
        f: &mut dyn FnMut(usize, i64) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        fn all<T: Element>(
            values: &[T],
            to_i64: impl Fn(T) -> i64,
            f: &mut dyn FnMut(usize, i64) -> Result<(), KernelError>,
        ) -> Result<(), KernelError> {
            let mut values = values.iter().enumerate();
            values.try_for_each(|(element, &v)| f(element, to_i64(v)))
        }
        match self.dtype {
            DType::I32 => all::<i32>(cx.input(self.input)?, i64::from, f),
            _ => all::<i64>(cx.input(self.input)?, |v| v, f),
        }
    }

    /// Checks an index: it must be below `count`.
    pub(super) fn checked(
        self,
        element: usize,
        at: i64,
        count: usize,
    ) -> Result<usize, KernelError> {
        let index = usize::try_from(at).ok().filter(|&i| i < count);
        index.ok_or_else(|| KernelError::Element {
            input: self.input,
            element,
            reason: format!("index {at} is not within 0..{count}"),
        })
    }
}
