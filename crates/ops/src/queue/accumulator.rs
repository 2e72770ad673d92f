//! Accumulators of gradients: the sum of recent enough gradients, taken once there are enough of them.
//! The rules are those of TensorFlow's `ConditionalAccumulatorBase`.

use std::sync::Mutex;

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::staging_area::WaitList;
use crate::support::tensors::sum;
use thalweg_cpu::number::Number;
use thalweg_tensor::sync::Unpoisoned;

pub(super) struct Accumulator {
    pub(super) dtype: DType,
    pub(super) shape: Shape,
    /// Gives the mean instead of the sum.
    pub(super) mean: bool,
    pub(super) state: Mutex<AccumulatorState>,
}

#[derive(Default)]
pub(super) struct AccumulatorState {
    step: i64,
    count: i64,
    sum: Option<Tensor>,
    waiting: WaitList,
}

impl Accumulator {
    fn with<R>(&self, f: impl FnOnce(&mut AccumulatorState) -> R) -> R {
        f(&mut self.state.lock().unpoisoned())
    }

    /// Adds a gradient computed at step `local_step`, unless that step is older than the current one.
    pub(super) fn apply(&self, local_step: i64, gradient: &Tensor) -> Result<(), KernelError> {
        if gradient.dtype() != self.dtype || !self.shape.admits(gradient.dims()) {
            return Err(KernelError::Invalid(format!(
                "an accumulator of {}{} does not take {}{}",
                self.dtype,
                self.shape,
                gradient.dtype(),
                gradient.shape()
            )));
        }
        self.with(|state| {
            if local_step < state.step {
                return Ok(());
            }
            state.sum = Some(match state.sum.take() {
                None => gradient.clone(),
                // The sum stays unchanged if the shapes do not fit.
                Some(before) => match sum(before.clone(), gradient) {
                    Ok(sum) => sum,
                    Err(error) => {
                        state.sum = Some(before);
                        return Err(error);
                    }
                },
            });
            state.count += 1;
            state.waiting.wake();
            Ok(())
        })
    }

    /// Removes the sum or mean as soon as `required` gradients have come, and starts the next step.
    pub(super) fn take(&self, cx: &TensorCx<'_>, required: i64) -> Result<Tensor, KernelError> {
        if required < 1 {
            return Err(KernelError::Invalid(format!(
                "{required} gradients cannot be waited for: ask for 1 or more"
            )));
        }
        self.with(|state| {
            if state.count < required {
                return state.waiting.wait(cx);
            }
            let mut sum = state.sum.take().ok_or(KernelError::Argument("a sum"))?;
            let count = std::mem::take(&mut state.count);
            state.step += 1;
            if self.mean {
                dispatch!(self.dtype, NUMBERS, T => {
                    // Exact to the last bit for types narrower than f64: it rounds only once.
                    for x in sum.as_mut_slice::<T>()? {
                        *x = T::from_f64(x.to_f64() / count as f64);
                    }
                }, else return Err(KernelError::DType(self.dtype)));
            }
            Ok(sum)
        })
    }

    pub(super) fn count(&self) -> i64 {
        self.with(|state| state.count)
    }

    pub(super) fn set_step(&self, step: i64) {
        self.with(|state| state.step = step);
    }
}
