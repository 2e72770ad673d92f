//! Sqrt, SqrtGrad, Rsqrt, RsqrtGrad, Exp, Log, Log1p, Expm1, Pow.

use smallvec::smallvec;
use thalweg_cpu::number::{Arithmetic, Wide};
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::Gradient;
use thalweg_tensor::DType;

use super::broadcast::sum_to;
use super::complex_functions;
use super::define::{
    FLOAT_OR_COMPLEX, REAL_OR_COMPLEX, binary_op, float_kernel, float_kernel_2,
    gradient_from_result, unary_op,
};
use super::division::IntegerDivide;
use crate::support::elementwise::{Compute, binary, computed, unary};
use crate::support::gradient_nodes::conj;

/// Square root.
pub(crate) static SQRT: Op = Op {
    def: unary_op(
        "Sqrt",
        "The square root of each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let grad = g.graph().op("SqrtGrad").input(g.output(0)).input(g.grad());
            smallvec![Some(grad.output())]
        }),
    ),
    kernels: float_kernel!(Wide::sqrt, complex: |x: T| x.sqrt()),
};

/// `0.5 dy / y`, and 0 where `dy` is 0, whatever `y` is: `scalar_sqrt_gradient_op` in Eigen's functors of TensorFlow.
pub(crate) static SQRT_GRAD: Op = Op {
    def: gradient_from_result(
        "SqrtGrad",
        "The gradient of a square root y: 0.5 dy / y.",
        Gradient::Rule(|g| {
            // z = 0.5 dy / y
            let (y, z) = (g.input(0), g.output(0));
            let by_y = g.grad() / y;
            smallvec![Some(-(conj(by_y) * z)), Some(by_y * 0.5)]
        }),
    ),
    kernels: float_kernel_2!(sqrt_grad, complex: |y: T, dy: T| if dy == T::ZERO { dy } else { dy / y.conj() * 0.5 }),
};

#[inline(always)]
fn sqrt_grad<W: Wide>(y: W, dy: W) -> W {
    match dy == W::ZERO {
        true => W::ZERO,
        false => W::from_f64(0.5) * dy / y,
    }
}

/// `1 / sqrt(x)`.
pub(crate) static RSQRT: Op = Op {
    def: unary_op(
        "Rsqrt",
        "One over the square root of each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let grad = g.graph().op("RsqrtGrad").input(g.output(0)).input(g.grad());
            smallvec![Some(grad.output())]
        }),
    ),
    kernels: float_kernel!(one_over_sqrt, complex: |x: T| x.sqrt().inv()),
};

#[inline(always)]
fn one_over_sqrt<W: Wide>(x: W) -> W {
    W::ONE / Wide::sqrt(x)
}

/// `-0.5 dy y^3`, and 0 where `dy` is 0, whatever `y` is.
pub(crate) static RSQRT_GRAD: Op = Op {
    def: gradient_from_result(
        "RsqrtGrad",
        "The gradient of one over a square root y: -0.5 dy y^3.",
        Gradient::Rule(|g| {
            let (y, dy, dz) = (conj(g.input(0)), g.input(1), g.grad());
            let to_dy = g.graph().op("RsqrtGrad").input(y).input(dz).output();
            smallvec![Some(conj(dz) * y * y * dy * -1.5), Some(to_dy)]
        }),
    ),
    kernels: float_kernel_2!(rsqrt_grad, complex: |y: T, dy: T| {
        let y = y.conj();
        if dy == T::ZERO { dy } else { dy * y * y * y * -0.5 }
    }),
};

#[inline(always)]
fn rsqrt_grad<W: Wide>(y: W, dy: W) -> W {
    match dy == W::ZERO {
        true => W::ZERO,
        false => W::from_f64(-0.5) * dy * y * y * y,
    }
}

/// e to the power of x.
pub(crate) static EXP: Op = Op {
    def: unary_op(
        "Exp",
        "e to the power of each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| smallvec![Some(g.grad() * conj(g.output(0)))]),
    ),
    kernels: float_kernel!(Wide::exp, complex: |x: T| x.exp()),
};

/// Natural logarithm.
pub(crate) static LOG: Op = Op {
    def: unary_op(
        "Log",
        "The natural logarithm of each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| smallvec![Some(g.grad() / conj(g.input(0)))]),
    ),
    kernels: float_kernel!(Wide::ln, complex: |x: T| x.ln()),
};

/// Natural logarithm of `1 + x`.
pub(crate) static LOG1P: Op = Op {
    def: unary_op(
        "Log1p",
        "The natural logarithm of 1 plus each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| smallvec![Some(g.grad() / (conj(g.input(0)) + 1.0))]),
    ),
    kernels: float_kernel!(Wide::ln_1p, complex: complex_functions::ln_1p),
};

/// e to the power of x, minus 1.
pub(crate) static EXPM1: Op = Op {
    def: unary_op(
        "Expm1",
        "e to the power of each element, less 1.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let exp = g.graph().op("Exp").input(conj(g.input(0))).output();
            smallvec![Some(g.grad() * exp)]
        }),
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), COMPLEX, T => Ok(unary::<T>(p, complex_functions::exp_m1)), else
        computed!(p.dtype(0), FLOATS, T => Ok(unary::<T>(p, Wide::exp_m1)),
            else Err(KernelError::DType(p.dtype(0)))))
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// `x ^ y`.
pub(crate) static POW: Op = Op {
    def: binary_op(
        "Pow",
        "One tensor to the power of another, with broadcasting.",
        REAL_OR_COMPLEX,
        Gradient::Rule(|g| {
            let (graph, x, y, z, dz) = (g.graph(), g.input(0), g.input(1), g.output(0), g.grad());
            let below = conj(y) - 1.0;
            let dx = dz * conj(y) * graph.op("Pow").input(conj(x)).input(below).output();
            // Where x is zero, or a negative real number, its logarithm is not defined, and taken as zero.
            let zero = graph.op("ZerosLike").input(x).output();
            let defined = match x.dtype().is_complex() {
                true => graph.op("NotEqual"),
                false => graph.op("Greater"),
            };
            let defined = defined.input(x).input(zero).output();
            let one = graph.op("OnesLike").input(x).output();
            let safe = graph.op("SelectV2").input(defined).input(x).input(one).output();
            let log = graph.op("Log").input(safe).output();
            let log = graph.op("SelectV2").input(defined).input(log).input(zero).output();
            smallvec![Some(sum_to(dx, x, y)), Some(sum_to(dz * conj(z * log), y, x))]
        }),
    ),
    kernels: &[cpu(|p| {
        computed!(p.dtype(0), COMPLEX, T => Ok(binary::<T>(p, complex_functions::power)), else
        computed!(p.dtype(0), FLOATS, T => Ok(binary::<T>(p, |x, y| x.powf(y))),
            else computed!(p.dtype(0), INTS, T => Ok(int_power::<T>(p)), else Err(KernelError::DType(p.dtype(0))))))
    })
    .in_place(&[(0, 0)]), gpu(|p| match DType::FLOATS.contains(&p.dtype(0)) {
        true => crate::gpu::binary(p),
        false => crate::gpu::checked(p, "CheckNotNegative", NEGATIVE),
    })
    .in_place(&[(0, 0)])],
};

const NEGATIVE: &str = "an integer cannot be raised to a negative power: Cast to a float";

/// Integer powers, modulo the range. A negative exponent has no integer result.
fn int_power<T: IntegerDivide + Compute>(p: &Prepare<'_>) -> Prepared {
    super::division::with_check::<T>(p, binary::<T>(p, T::power), |y| y < T::ZERO, NEGATIVE)
}
