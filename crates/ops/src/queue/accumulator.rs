//! Accumulators of gradients: the sum of recent enough gradients, taken once there are enough of them.
//! The rules are those of TensorFlow's `ConditionalAccumulatorBase`.

use std::sync::Mutex;

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::sparse_sum::SparseSum;
use super::staging_area::WaitList;
use crate::support::tensors::sum;
use thalweg_cpu::number::Number;
use thalweg_tensor::sync::Unpoisoned;

pub(super) struct Accumulator {
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    /// Gives the mean instead of the sum.
    pub(super) mean: bool,
    /// Takes rows of gradients.
    pub(super) sparse: bool,
    pub(super) state: Mutex<AccumulatorState>,
}

/// The sum of the gradients so far.
enum Sum {
    Dense(Tensor),
    Sparse(SparseSum),
}

#[derive(Default)]
pub(super) struct AccumulatorState {
    step: i64,
    count: i64,
    sum: Option<Sum>,
    waiting: WaitList,
}

impl Accumulator {
    fn with<R>(&self, f: impl FnOnce(&mut AccumulatorState) -> R) -> R {
        f(&mut self.state.lock().unpoisoned())
    }

    /// Adds a gradient computed at step `local_step`, unless that step is older than the current one.
    fn add(
        &self,
        local_step: i64,
        add: impl FnOnce(Option<&Sum>) -> Result<Sum, KernelError>,
    ) -> Result<(), KernelError> {
        self.with(|state| {
            if local_step < state.step {
                return Ok(());
            }
            // The sum stays unchanged if the gradient does not fit.
            state.sum = Some(add(state.sum.as_ref())?);
            state.count += 1;
            state.waiting.wake();
            Ok(())
        })
    }

    /// Adds a dense gradient.
    pub(super) fn apply(&self, local_step: i64, gradient: &Tensor) -> Result<(), KernelError> {
        if gradient.dtype() != self.dtype || !self.shape.admits(gradient.dims()) || self.sparse {
            return Err(KernelError::Invalid(format!(
                "an accumulator of {}{}{} does not take {}{}",
                if self.sparse { "rows of " } else { "" },
                self.dtype,
                self.shape,
                gradient.dtype(),
                gradient.shape()
            )));
        }
        self.add(local_step, |before| match before {
            Some(Sum::Dense(before)) => Ok(Sum::Dense(sum(before.clone(), gradient)?)),
            _ => Ok(Sum::Dense(gradient.clone())),
        })
    }

    /// Adds rows of a gradient, from the node's inputs.
    pub(super) fn apply_rows(&self, cx: &TensorCx<'_>, local_step: i64) -> Result<(), KernelError> {
        let dtype = cx.tensor(3)?.dtype();
        if dtype != self.dtype || !self.sparse {
            return Err(KernelError::Invalid(format!(
                "an accumulator of {}{} does not take rows of {dtype}",
                self.dtype, self.shape
            )));
        }
        self.add(local_step, |before| {
            let gradient = SparseSum::gradient(cx, &self.shape)?;
            match before {
                Some(Sum::Sparse(before)) => Ok(Sum::Sparse(before.plus(&gradient, cx.memory())?)),
                _ => Ok(Sum::Sparse(gradient)),
            }
        })
    }

    /// Removes the sum or mean as soon as `required` gradients have come, and starts the next step: a tensor, or the
    /// indices, values and shape of rows.
    pub(super) fn take(
        &self,
        cx: &TensorCx<'_>,
        required: i64,
    ) -> Result<Vec<Tensor>, KernelError> {
        if required < 1 {
            return Err(KernelError::Invalid(format!(
                "Argument num_required must be at least 1, got {required}"
            )));
        }
        self.with(|state| {
            if state.count < required {
                return state.waiting.wait(cx);
            }
            let sum = state.sum.take().ok_or(KernelError::Argument("a sum"))?;
            let count = std::mem::take(&mut state.count);
            state.step += 1;
            match sum {
                Sum::Sparse(sum) => sum.into_parts(cx, self.mean, self.shape.dim(0)),
                Sum::Dense(sum) if self.mean => Ok(vec![divided(sum, count)?]),
                Sum::Dense(sum) => Ok(vec![sum]),
            }
        })
    }

    pub(super) fn count(&self) -> i64 {
        self.with(|state| state.count)
    }

    pub(super) fn set_step(&self, step: i64) {
        self.with(|state| state.step = step);
    }
}

fn divided(mut sum: Tensor, count: i64) -> Result<Tensor, KernelError> {
    let dtype = sum.dtype();
    dispatch!(dtype, NUMBERS, T => {
        // Exact to the last bit for types narrower than f64: it rounds only once.
        for x in sum.as_mut_slice::<T>()? {
            *x = T::from_f64(x.to_f64() / count as f64);
        }
    }, else return Err(KernelError::DType(dtype)));
    Ok(sum)
}
