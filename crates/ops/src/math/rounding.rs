//! Ceil, Round, Rint, Floor.

use thalweg_cpu::number::{Float, Wide};
use thalweg_device::{Kernel, KernelError, Op, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, Gradient, type_attr};
use thalweg_tensor::DType;

use super::define::{FLOAT, float_kernel, unary_op};
use crate::support::elementwise::{computed, unary};

/// Floats and signed integers.
const SIGNED: &[AttrDef] = &[type_attr("T", DType::SIGNED)];

/// Rounds up.
pub(crate) static CEIL: Op = Op {
    def: unary_op(
        "Ceil",
        "Each element rounded up to an integer.",
        FLOAT,
        Gradient::None,
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), FLOATS, T => Ok(unary::<T>(p, |x| T::narrow(-Wide::floor(-x.widen())))),
                else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0)]), gpu(crate::gpu::unary).in_place(&[(0, 0)])],
};

const TO_EVEN: Kernel = cpu(|p| {
    computed!(p.dtype(0), FLOATS, T => Ok(unary::<T>(p, to_even)),
        else computed!(p.dtype(0), BITS, T => Ok(unary::<T>(p, |x| x)),
            else Err(KernelError::DType(p.dtype(0)))))
})
.in_place(&[(0, 0)]);

/// Rounds to the nearest integer, ties to even.
#[inline(always)]
fn to_even<T: Float>(x: T) -> T {
    T::from_f64(x.to_f64().round_ties_even())
}

/// Rounds to the nearest integer.
pub(crate) static ROUND: Op = Op {
    def: OpDef {
        same_as: |cx| (!cx.dtype(0).is_float()).then_some(0),
        ..unary_op(
            "Round",
            "Each element rounded to the nearest integer, ties to even.",
            SIGNED,
            Gradient::None,
        )
    },
    kernels: &[TO_EVEN, gpu(crate::gpu::unary).in_place(&[(0, 0)])],
};

/// Rounds to the nearest integer, named as in C.
pub(crate) static RINT: Op = Op {
    def: unary_op(
        "Rint",
        "Each element rounded to the nearest integer, ties to even.",
        FLOAT,
        Gradient::None,
    ),
    kernels: &[TO_EVEN, gpu(crate::gpu::unary).in_place(&[(0, 0)])],
};

/// Rounds down.
pub(crate) static FLOOR: Op = Op {
    def: unary_op(
        "Floor",
        "Each element rounded down to an integer.",
        FLOAT,
        Gradient::None,
    ),
    kernels: float_kernel!(Wide::floor),
};
