//! Functions that combine an element of a variable with an update.

use thalweg_device::KernelError;
use thalweg_tensor::{DType, Element, dispatch};

use crate::math::Divide;
use thalweg_cpu::number::{Float, Number};

/// Function from an element and its update to the new element.
pub(super) type Combine<T> = fn(T, T) -> T;

/// A combining function, independent of the dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Update,
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

/// Generic code that is called with the combining function for a dtype.
pub(super) trait WithCombine {
    type Out;
    /// If `divides`, updates must not be zero.
    fn with<T: Element>(self, combine: Combine<T>, divides: bool) -> Self::Out;
}

impl How {
    /// Calls `then` with the function for elements of `dtype`.
    ///
    /// # Errors
    /// [`KernelError::DType`] if there is no such function.
    pub(super) fn of<W: WithCombine>(self, dtype: DType, then: W) -> Result<W::Out, KernelError> {
        match self {
            How::Update => dispatch!(dtype, PLAIN, T => Ok(then.with::<T>(|_, x| x, false)), else
                Err(KernelError::DType(dtype))),
            How::Div => dispatch!(dtype, FLOATS, T => {
                Ok(then.with::<T>(|v, x| T::narrow(v.widen() / x.widen()), false))
            }, else dispatch!(dtype, INTS, T => Ok(then.with::<T>(T::quotient, true)), else
                Err(KernelError::DType(dtype)))),
            _ => dispatch!(dtype, NUMBERS, T => Ok(then.with::<T>(self.number::<T>(), false)), else
                Err(KernelError::DType(dtype))),
        }
    }

    fn number<T: Number>(self) -> Combine<T> {
        match self {
            How::Add => T::add,
            How::Sub => T::sub,
            How::Mul => T::mul,
            // Like `std::min` and `std::max`, which keep the first operand if one is NaN.
            How::Min => |v, x| if x < v { x } else { v },
            How::Max => |v, x| if v < x { x } else { v },
            How::Update | How::Div => |_, x| x,
        }
    }
}
