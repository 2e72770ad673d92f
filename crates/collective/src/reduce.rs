//! Reducer: elementwise reductions of values of one dtype.
//!
//! Integers wrap. Halves are computed in f32 and rounded after each operation. A minimum or maximum with NaN is NaN.

use thalweg_cpu::number::{Arithmetic, Number};
use thalweg_device::ReduceOp;
use thalweg_tensor::{DType, dispatch};

use crate::error::{CollectiveError, Result};

/// Elementwise operation of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    Sum,
    Min,
    Max,
    Product,
}

/// Order of the operands of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandOrder {
    /// The local operand is the first.
    LocalFirst,
    /// The received operand is the first.
    RemoteFirst,
}

/// Reduction of elements of one dtype.
#[derive(Clone, Copy, Debug)]
pub struct Reducer {
    dtype: DType,
    combine: Combine,
    /// Factor of each element of the reduced value; 1 for none.
    factor: f64,
    /// Divisor of each element of the reduced value.
    divisor: f64,
}

impl Reducer {
    /// Reducer for values of so many ranks, which also multiplies the result by `factor`. Integers are averaged as floats and
    /// truncated.
    ///
    /// # Errors
    /// [`CollectiveError::Undefined`]: the dtype has no arithmetic, or the reduction is Adasum, which is not elementwise.
    pub fn new(op: ReduceOp, dtype: DType, ranks: usize, factor: f64) -> Result<Reducer> {
        let undefined = CollectiveError::Undefined {
            op: op.name(),
            dtype,
        };
        if !DType::NUMBERS.contains(&dtype) {
            return Err(undefined);
        }
        let (combine, divisor) = match op {
            ReduceOp::Sum => (Combine::Sum, 1.0),
            ReduceOp::Average => (Combine::Sum, ranks.max(1) as f64),
            ReduceOp::Min => (Combine::Min, 1.0),
            ReduceOp::Max => (Combine::Max, 1.0),
            ReduceOp::Product => (Combine::Product, 1.0),
            ReduceOp::Adasum => return Err(undefined),
        };
        Ok(Reducer {
            dtype,
            combine,
            factor,
            divisor,
        })
    }

    /// The same reduction without factor and divisor, for a part of a larger reduction.
    pub(crate) fn unfinished(self) -> Reducer {
        Reducer {
            factor: 1.0,
            divisor: 1.0,
            ..self
        }
    }

    /// The dtype of the elements, and their operation.
    #[cfg(feature = "mpi")]
    pub(crate) fn parts(&self) -> (DType, Combine) {
        (self.dtype, self.combine)
    }

    /// Bytes of an element.
    pub fn size(&self) -> usize {
        self.dtype.size().max(1)
    }

    /// Combines received elements into local ones. Both slices have the same number of whole elements.
    pub(crate) fn combine(&self, local: &mut [u8], received: &[u8], order: OperandOrder) {
        if received.is_empty() {
            // An empty slice need not be aligned.
            return;
        }
        dispatch!(self.dtype, NUMBERS, T => {
            let local: &mut [T] = bytemuck::cast_slice_mut(local);
            let received: &[T] = bytemuck::cast_slice(received);
            match self.combine {
                // Sums and products commute to the last bit.
                Combine::Sum => each(local, received, Arithmetic::add),
                Combine::Product => each(local, received, Arithmetic::mul),
                Combine::Min => choose(local, received, order, |a, b| a < b),
                Combine::Max => choose(local, received, order, |a, b| a > b),
            }
        }, else {});
    }

    /// Applies factor and divisor to elements that are reduced over all ranks.
    pub(crate) fn finish(&self, bytes: &mut [u8]) {
        if (self.factor == 1.0 && self.divisor == 1.0) || bytes.is_empty() {
            return;
        }
        dispatch!(self.dtype, NUMBERS, T => {
            let elements: &mut [T] = bytemuck::cast_slice_mut(bytes);
            if self.dtype == DType::F32 {
                let factor = T::from_f64(self.factor / self.divisor);
                elements.iter_mut().for_each(|x| *x = Arithmetic::mul(*x, factor));
            } else {
                elements.iter_mut().for_each(|x| *x = T::from_f64(x.to_f64() * self.factor / self.divisor));
            }
        }, else {});
    }
}

#[inline(always)]
fn each<T: Copy>(local: &mut [T], received: &[T], f: impl Fn(T, T) -> T) {
    for (a, &b) in local.iter_mut().zip(received) {
        *a = f(*a, b);
    }
}

/// Keeps one operand of each pair: the second if it is `better` than the first, otherwise the first. A NaN is kept.
#[inline(always)]
fn choose<T: Number>(
    local: &mut [T],
    received: &[T],
    order: OperandOrder,
    better: impl Fn(T, T) -> bool,
) {
    let pick = |a: T, b: T| {
        let a_is_nan = a.partial_cmp(&a).is_none();
        let b_is_nan = b.partial_cmp(&b).is_none();
        match !a_is_nan && (b_is_nan || better(b, a)) {
            true => b,
            false => a,
        }
    };
    match order {
        OperandOrder::LocalFirst => each(local, received, pick),
        OperandOrder::RemoteFirst => each(local, received, |a, b| pick(b, a)),
    }
}
