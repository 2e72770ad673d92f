//! Functions that combine an element of a variable with an update.

use thalweg_device::KernelError;
use thalweg_tensor::{DType, Element, dispatch};

use crate::math::IntegerDivide;
use thalweg_cpu::number::{Arithmetic, Float};

/// Function from an element and its update to the new element.
pub(super) type CombineFn<T> = fn(T, T) -> T;

/// A combining function, independent of the dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdateKind {
    Update,
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

/// Generic code that is called with the combining function for a dtype.
pub(super) trait CombineVisitor {
    type Out;
    /// If `divides`, updates must not be zero.
    fn visit<T: Element>(self, combine: CombineFn<T>, divides: bool) -> Self::Out;
}

impl UpdateKind {
    /// Calls `then` with the function for elements of `dtype`.
    ///
    /// # Errors
    /// [`KernelError::DType`] if there is no such function.
    pub(super) fn of<W: CombineVisitor>(
        self,
        dtype: DType,
        then: W,
    ) -> Result<W::Out, KernelError> {
        match self {
            UpdateKind::Update => {
                dispatch!(dtype, PLAIN, T => Ok(then.visit::<T>(|_, x| x, false)), else
                Err(KernelError::DType(dtype)))
            }
            UpdateKind::Div => dispatch!(dtype, FLOATS, T => {
                Ok(then.visit::<T>(|v, x| T::narrow(v.widen() / x.widen()), false))
            }, else dispatch!(dtype, INTS, T => Ok(then.visit::<T>(T::quotient, true)), else
            dispatch!(dtype, COMPLEX, T => Ok(then.visit::<T>(|v, x| v / x, false)), else
                Err(KernelError::DType(dtype))))),
            UpdateKind::Add | UpdateKind::Sub | UpdateKind::Mul => {
                dispatch!(dtype, ALL_NUMBERS, T => Ok(then.visit::<T>(self.combine::<T>(), false)), else
                Err(KernelError::DType(dtype)))
            }
            // Like `std::min` and `std::max`, which keep the first operand if one is NaN.
            UpdateKind::Min => dispatch!(dtype, NUMBERS, T => {
                Ok(then.visit::<T>(|v, x| if x < v { x } else { v }, false))
            }, else Err(KernelError::DType(dtype))),
            UpdateKind::Max => dispatch!(dtype, NUMBERS, T => {
                Ok(then.visit::<T>(|v, x| if v < x { x } else { v }, false))
            }, else Err(KernelError::DType(dtype))),
        }
    }

    /// The function of an operation that complex numbers have too.
    fn combine<T: Arithmetic>(self) -> CombineFn<T> {
        match self {
            UpdateKind::Add => T::add,
            UpdateKind::Sub => T::sub,
            UpdateKind::Mul => T::mul,
            _ => |_, x| x,
        }
    }
}
