//! Reductions of elements.
//!
//! Integers wrap. Halves are computed in f32 and rounded after each operation. A minimum or maximum with NaN is NaN.

use thalweg_cpu::number::Number;
use thalweg_device::ReduceOp;
use thalweg_tensor::{DType, dispatch};

use crate::error::{CollectiveError, Result};

/// What elements two operands become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    Sum,
    Min,
    Max,
    Product,
}

/// Which operand of a reduction comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// What is there.
    There,
    /// What comes.
    Comes,
}

/// A reduction of elements of one dtype.
#[derive(Clone, Copy, Debug)]
pub struct Reducer {
    dtype: DType,
    combine: Combine,
    /// What each element of the reduced value is multiplied by; 1 where nothing is to be done.
    factor: f64,
    /// What it is divided by.
    divisor: f64,
}

impl Reducer {
    /// One for values of so many ranks, which also multiplies the result by `factor`. Integers are averaged as floats and
    /// truncated.
    ///
    /// # Errors
    /// [`CollectiveError::Undefined`]: the dtype has no arithmetic, or the reduction is Adasum, which is not made element by
    /// element.
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

    /// The same, which leaves the result as it is: it is part of a larger one.
    pub(crate) fn unfinished(self) -> Reducer {
        Reducer {
            factor: 1.0,
            divisor: 1.0,
            ..self
        }
    }

    /// The dtype of the elements, and how two become one.
    #[cfg(feature = "mpi")]
    pub(crate) fn parts(&self) -> (DType, Combine) {
        (self.dtype, self.combine)
    }

    /// The bytes of an element.
    pub fn size(&self) -> usize {
        self.dtype.size().max(1)
    }

    /// Combines what comes with what is there. Both have whole elements, and as many.
    pub(crate) fn combine(&self, there: &mut [u8], comes: &[u8], first: First) {
        if comes.is_empty() {
            // Memory of no length need not be aligned.
            return;
        }
        dispatch!(self.dtype, NUMBERS, T => {
            let there: &mut [T] = bytemuck::cast_slice_mut(there);
            let comes: &[T] = bytemuck::cast_slice(comes);
            match self.combine {
                // They commute to the last bit.
                Combine::Sum => each(there, comes, Number::add),
                Combine::Product => each(there, comes, Number::mul),
                Combine::Min => choose(there, comes, first, |a, b| a < b),
                Combine::Max => choose(there, comes, first, |a, b| a > b),
            }
        }, else {});
    }

    /// What is left to do with elements that are reduced over all ranks.
    pub(crate) fn finish(&self, bytes: &mut [u8]) {
        if (self.factor == 1.0 && self.divisor == 1.0) || bytes.is_empty() {
            return;
        }
        dispatch!(self.dtype, NUMBERS, T => {
            let elements: &mut [T] = bytemuck::cast_slice_mut(bytes);
            if self.dtype == DType::F32 {
                let factor = T::from_f64(self.factor / self.divisor);
                elements.iter_mut().for_each(|x| *x = Number::mul(*x, factor));
            } else {
                elements.iter_mut().for_each(|x| *x = T::from_f64(x.to_f64() * self.factor / self.divisor));
            }
        }, else {});
    }
}

#[inline(always)]
fn each<T: Copy>(there: &mut [T], comes: &[T], f: impl Fn(T, T) -> T) {
    for (a, &b) in there.iter_mut().zip(comes) {
        *a = f(*a, b);
    }
}

/// Takes one of both, as `better` says of the first and the second; of equals, and where the first is NaN, the first.
#[inline(always)]
fn choose<T: Number>(there: &mut [T], comes: &[T], first: First, better: impl Fn(T, T) -> bool) {
    let pick = |a: T, b: T| {
        let a_is_nan = a.partial_cmp(&a).is_none();
        let b_is_nan = b.partial_cmp(&b).is_none();
        match !a_is_nan && (b_is_nan || better(b, a)) {
            true => b,
            false => a,
        }
    };
    match first {
        First::There => each(there, comes, pick),
        First::Comes => each(there, comes, |a, b| pick(b, a)),
    }
}
