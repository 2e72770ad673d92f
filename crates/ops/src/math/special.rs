//! Erf, Erfc, Erfinv, Ndtri, Lgamma, Digamma, Polygamma, Zeta.

use std::f64::consts::PI;

use smallvec::smallvec;
use thalweg_device::{Op, cpu, gpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, type_attr};
use thalweg_graph::{GradCx, OpDef, Output};
use thalweg_tensor::DType;

use super::broadcast::sum_to;
use super::define::{FLOAT, binary_op, unary_op};
use super::inlined::{Erf, Erfc, ErfcForSingle, Erfinv, Ndtri};
use super::scalar_functions::{
    per_element_2_by_precision, per_element_in_f64, straight_line, straight_line_single,
};
use thalweg_cpu::number::single;
use thalweg_cpu::special::{digamma, polygamma, polygamma_single, zeta, zeta_single};

/// `grad * factor * exp(sign * x^2)`.
fn gaussian_gradient<'g>(g: &GradCx<'_, 'g>, x: Output<'g>, factor: f64, sign: f64) -> Output<'g> {
    let graph = g.graph();
    let exponent = graph.op("Square").input(x).output() * sign;
    g.grad() * factor * graph.op("Exp").input(exponent).output()
}

const TWO_BY_ROOT_PI: f64 = std::f64::consts::FRAC_2_SQRT_PI;

/// Error function.
pub(crate) static ERF: Op = Op {
    def: unary_op(
        "Erf",
        "The error function of each element.",
        FLOAT,
        Gradient::Rule(|g| smallvec![Some(gaussian_gradient(g, g.input(0), TWO_BY_ROOT_PI, -1.0))]),
    ),
    kernels: &[
        cpu(|p| match p.dtype(0) {
            DType::F64 => straight_line(p, Erf),
            _ => straight_line_single(p, single::erf),
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// 1 minus the error function.
pub(crate) static ERFC: Op = Op {
    def: unary_op(
        "Erfc",
        "1 minus the error function of each element.",
        FLOAT,
        Gradient::Rule(|g| {
            smallvec![Some(gaussian_gradient(
                g,
                g.input(0),
                -TWO_BY_ROOT_PI,
                -1.0
            ))]
        }),
    ),
    kernels: &[
        cpu(|p| match p.dtype(0) {
            DType::F64 => straight_line(p, Erfc),
            _ => straight_line(p, ErfcForSingle),
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Inverse of the error function.
pub(crate) static ERFINV: Op = Op {
    def: unary_op(
        "Erfinv",
        "The inverse error function of each element.",
        FLOAT,
        Gradient::Rule(|g| {
            smallvec![Some(gaussian_gradient(
                g,
                g.output(0),
                PI.sqrt() / 2.0,
                1.0
            ))]
        }),
    ),
    kernels: &[cpu(|p| straight_line(p, Erfinv)).in_place(&[(0, 0)])],
};

/// Quantile of the standard normal distribution.
pub(crate) static NDTRI: Op = Op {
    def: unary_op(
        "Ndtri",
        "The quantile of the standard normal distribution at each element.",
        FLOAT,
        Gradient::Rule(|g| {
            smallvec![Some(gaussian_gradient(
                g,
                g.output(0),
                (2.0 * PI).sqrt(),
                0.5
            ))]
        }),
    ),
    kernels: &[cpu(|p| straight_line(p, Ndtri)).in_place(&[(0, 0)])],
};

/// Logarithm of the gamma function's absolute value.
pub(crate) static LGAMMA: Op = Op {
    def: unary_op(
        "Lgamma",
        "The logarithm of the absolute value of the gamma function of each element.",
        FLOAT,
        Gradient::Rule(|g| {
            let digamma = g.graph().op("Digamma").input(g.input(0)).output();
            smallvec![Some(g.grad() * digamma)]
        }),
    ),
    kernels: &[
        cpu(|p| per_element_in_f64(p, libm::lgamma)).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Derivative of the logarithm of the gamma function.
pub(crate) static DIGAMMA: Op = Op {
    def: unary_op(
        "Digamma",
        "The derivative of the logarithm of the gamma function at each element.",
        FLOAT,
        Gradient::Rule(|g| {
            let x = g.input(0);
            let next = g.graph().op("Polygamma").input(x.constant_like(1));
            smallvec![Some(g.grad() * next.input(x).output())]
        }),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, digamma)).in_place(&[(0, 0)])],
};

/// `T` is a float of at least 32 bits.
const WIDE: &[AttrDef] = &[type_attr("T", &[DType::F32, DType::F64])];
const A_X: &[Arg] = &[arg("a", "T"), arg("x", "T")];
const X_Q: &[Arg] = &[arg("x", "T"), arg("q", "T")];

/// Derivatives of digamma.
pub(crate) static POLYGAMMA: Op = Op {
    def: OpDef {
        inputs: A_X,
        ..binary_op(
            "Polygamma",
            "The derivative of order a, an integer, of digamma at x, with broadcasting.",
            WIDE,
            Gradient::Rule(|g| {
                // Only with respect to x: the order is an integer.
                let (a, x) = (g.input(0), g.input(1));
                let next = g.graph().op("Polygamma").input(a + 1.0).input(x);
                smallvec![None, Some(sum_to(g.grad() * next.output(), x, a))]
            }),
        )
    },
    kernels: &[
        cpu(|p| per_element_2_by_precision(p, polygamma, polygamma_single))
            .in_place(&[(0, 0), (1, 0)]),
    ],
};

/// Hurwitz zeta function.
pub(crate) static ZETA: Op = Op {
    def: OpDef {
        inputs: X_Q,
        ..binary_op(
            "Zeta",
            "The sum of (q + n)^-x over all integers n from 0, with broadcasting.",
            WIDE,
            Gradient::Rule(|g| {
                // Only with respect to q; TensorFlow has no gradient with respect to x.
                let (x, q) = (g.input(0), g.input(1));
                let next = g.graph().op("Zeta").input(x + 1.0).input(q).output();
                smallvec![None, Some(sum_to(-(g.grad() * x * next), q, x))]
            }),
        )
    },
    kernels: &[
        cpu(|p| per_element_2_by_precision(p, zeta, zeta_single)).in_place(&[(0, 0), (1, 0)])
    ],
};
