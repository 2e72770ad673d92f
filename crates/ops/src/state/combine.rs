//! How an update goes together with the element that it meets.

use thalweg_device::KernelError;
use thalweg_tensor::{DType, Element, dispatch};

use crate::math::Divide;
use thalweg_cpu::number::{Float, Number};

/// What becomes of an element and an update of it.
pub(super) type Combine<T> = fn(T, T) -> T;

/// A way of combining that does not depend on the dtype.
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

/// What a caller does with the function of a dtype.
pub(super) trait WithCombine {
    type Out;
    /// `divides` says that updates must not be zero.
    fn with<T: Element>(self, combine: Combine<T>, divides: bool) -> Self::Out;
}

impl How {
    /// Hands the function for elements of `dtype` on.
    ///
    /// # Errors
    /// [`KernelError::DType`] where there is none.
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
            // As `std::min` and `std::max`, which keep what a NaN does not compare with.
            How::Min => |v, x| if x < v { x } else { v },
            How::Max => |v, x| if v < x { x } else { v },
            How::Update | How::Div => |_, x| x,
        }
    }
}
