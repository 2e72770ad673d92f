//! Functions that combine rows of a variable with updates.

use thalweg_device::KernelError;
use thalweg_tensor::{DType, Element, dispatch};

use crate::math::IntegerDivide;
use crate::support::join_rows::{JoinRows, join_each};
use thalweg_cpu::number::{Arithmetic, Float};

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
    fn visit<T: Element>(self, combine: JoinRows<T>, divides: bool) -> Self::Out;
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
                dispatch!(dtype, PLAIN, T => Ok(then.visit::<T>(|to, from| join_each(to, from, |_, x| x), false)), else
                Err(KernelError::DType(dtype)))
            }
            UpdateKind::Div => dispatch!(dtype, FLOATS, T => {
                let divide: JoinRows<T> = |to, from| join_each(to, from, |v, x| T::narrow(v.widen() / x.widen()));
                Ok(then.visit::<T>(divide, false))
            }, else dispatch!(dtype, INTS, T => Ok(then.visit::<T>(|to, from| join_each(to, from, T::quotient), true)), else
            dispatch!(dtype, COMPLEX, T => Ok(then.visit::<T>(|to, from| join_each(to, from, |v, x| v / x), false)), else
                Err(KernelError::DType(dtype))))),
            UpdateKind::Add | UpdateKind::Sub | UpdateKind::Mul => {
                dispatch!(dtype, ALL_NUMBERS, T => Ok(then.visit::<T>(self.combine::<T>(), false)), else
                Err(KernelError::DType(dtype)))
            }
            // Like `std::min` and `std::max`, which keep the first operand if one is NaN.
            UpdateKind::Min => dispatch!(dtype, NUMBERS, T => {
                let least: JoinRows<T> = |to, from| join_each(to, from, |v, x| if x < v { x } else { v });
                Ok(then.visit::<T>(least, false))
            }, else Err(KernelError::DType(dtype))),
            UpdateKind::Max => dispatch!(dtype, NUMBERS, T => {
                let largest: JoinRows<T> = |to, from| join_each(to, from, |v, x| if v < x { x } else { v });
                Ok(then.visit::<T>(largest, false))
            }, else Err(KernelError::DType(dtype))),
        }
    }

    /// The function of an operation that complex numbers have too.
    fn combine<T: Arithmetic>(self) -> JoinRows<T> {
        match self {
            UpdateKind::Add => |to, from| join_each(to, from, T::add),
            UpdateKind::Sub => |to, from| join_each(to, from, T::sub),
            UpdateKind::Mul => |to, from| join_each(to, from, T::mul),
            _ => |to, from| join_each(to, from, |_, x| x),
        }
    }
}
