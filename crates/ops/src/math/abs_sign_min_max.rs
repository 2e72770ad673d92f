//! Abs, Sign, Maximum, Minimum.

use smallvec::smallvec;
use thalweg_cpu::number::{Float, Number, Wide};
use thalweg_device::{KernelError, Op, cpu, gpu};
use thalweg_graph::op::Gradient;
use thalweg_graph::{GradCx, Output};

use super::broadcast::sum_to;
use super::define::{NUMBER, REAL_OR_COMPLEX, binary_op, unary_op};
use crate::support::elementwise::{binary, computed, unary};

/// `|x|`.
pub(crate) static ABS: Op = Op {
    def: unary_op(
        "Abs",
        "The absolute value of each element.",
        NUMBER,
        Gradient::Rule(|g| {
            let sign = g.graph().op("Sign").input(g.input(0)).output();
            smallvec![Some(g.grad() * sign)]
        }),
    ),
    kernels: &[cpu(|p| {
        computed!(p.dtype(0), FLOATS, T => Ok(unary::<T>(p, |x| T::narrow(Wide::abs(x.widen())))), else
            computed!(p.dtype(0), INTS, T => Ok(unary::<T>(p, magnitude)), else
                Err(KernelError::DType(p.dtype(0)))))
    })
    .in_place(&[(0, 0)]), gpu(crate::gpu::unary).in_place(&[(0, 0)])],
};

#[inline(always)]
pub(crate) fn magnitude<T: Number>(x: T) -> T {
    if x < T::ZERO { T::ZERO.sub(x) } else { x }
}

/// Zero and NaN stay.
#[inline(always)]
fn sign<T: Number>(x: T) -> T {
    if x > T::ZERO {
        T::ONE
    } else if x < T::ZERO {
        T::ZERO.sub(T::ONE)
    } else {
        x
    }
}

/// -1, 0 or 1.
pub(crate) static SIGN: Op = Op {
    def: unary_op(
        "Sign",
        "-1, 0 or 1 for each element, by its sign; of a complex number, the one of the same direction and length 1. A NaN stays.",
        REAL_OR_COMPLEX,
        Gradient::None,
    ),
    kernels: &[cpu(|p| {
        computed!(p.dtype(0), COMPLEX, T => Ok(unary::<T>(p, |x: T| if x == T::ZERO { x } else { x / x.norm() })), else
        computed!(p.dtype(0), NUMBERS, T => Ok(unary::<T>(p, sign)), else Err(KernelError::DType(p.dtype(0)))))
    })
    .in_place(&[(0, 0)]), gpu(crate::gpu::unary).in_place(&[(0, 0)])],
};

/// The gradient goes to the input that was selected; to the first if they are equal.
fn gradient_to_selected<'g>(g: &GradCx<'_, 'g>, compare: &str) -> [Output<'g>; 2] {
    let (graph, x, y, dz) = (g.graph(), g.input(0), g.input(1), g.grad());
    let first = graph.op(compare).input(x).input(y).output();
    let zero = graph.op("ZerosLike").input(dz).output();
    let to_x = graph
        .op("SelectV2")
        .input(first)
        .input(dz)
        .input(zero)
        .output();
    let to_y = graph
        .op("SelectV2")
        .input(first)
        .input(zero)
        .input(dz)
        .output();
    [sum_to(to_x, x, y), sum_to(to_y, y, x)]
}

/// Larger of two values.
pub(crate) static MAXIMUM: Op = Op {
    def: binary_op(
        "Maximum",
        "The larger of two elements, with broadcasting; NaN if either is.",
        NUMBER,
        Gradient::Rule(|g| {
            gradient_to_selected(g, "GreaterEqual")
                .map(Some)
                .into_iter()
                .collect()
        }),
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), NUMBERS, T => Ok(binary::<T>(p, |x, y| {
            // Only a NaN differs from itself.
            #[allow(clippy::eq_op, reason = "only a NaN differs from itself")]
            let take_x = x > y || x != x;
            if take_x { x } else { y }
        })), else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};

/// Smaller of two values.
pub(crate) static MINIMUM: Op = Op {
    def: binary_op(
        "Minimum",
        "The smaller of two elements, with broadcasting; NaN if either is.",
        NUMBER,
        Gradient::Rule(|g| {
            gradient_to_selected(g, "LessEqual")
                .map(Some)
                .into_iter()
                .collect()
        }),
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), NUMBERS, T => Ok(binary::<T>(p, |x, y| {
            #[allow(clippy::eq_op, reason = "only a NaN differs from itself")]
            let take_x = x < y || x != x;
            if take_x { x } else { y }
        })), else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};
