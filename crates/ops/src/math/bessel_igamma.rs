//! BesselI0e, BesselI1e, Igamma, Igammac, IgammaGradA.

use smallvec::smallvec;
use thalweg_device::{Op, cpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, InputGradients, arg, type_attr};
use thalweg_graph::{GradCx, OpDef};
use thalweg_tensor::DType;

use super::broadcast::sum_to;
use super::define::{FLOAT, binary_op, unary_op};
use super::inlined::{I0e, I0eSingle, I1e, I1eSingle};
use super::scalar_functions::{by_precision, per_element_2_by_precision, per_element_in_f64_2};
use thalweg_cpu::special::{igamma, igamma_single, igamma_slope, igammac, igammac_single};

/// Modified Bessel function of order 0, exponentially scaled.
pub(crate) static BESSEL_I0E: Op = Op {
    def: unary_op(
        "BesselI0e",
        "The modified Bessel function of order 0 at each element x, times exp(-|x|).",
        FLOAT,
        Gradient::Rule(|g| {
            let x = g.input(0);
            let of = |op| g.graph().op(op).input(x).output();
            smallvec![Some(
                g.grad() * (of("BesselI1e") - of("Sign") * g.output(0))
            )]
        }),
    ),
    kernels: &[cpu(|p| by_precision(p, I0e, I0eSingle)).in_place(&[(0, 0)])],
};

/// Numbers below it count as 0 in the gradient of BesselI1e. The slope differs from 1/2 by as much.
const SMALL: f64 = 1e-7;

/// Modified Bessel function of order 1, exponentially scaled.
pub(crate) static BESSEL_I1E: Op = Op {
    def: unary_op(
        "BesselI1e",
        "The modified Bessel function of order 1 at each element x, times exp(-|x|).",
        FLOAT,
        Gradient::Rule(|g| {
            let (graph, x, y) = (g.graph(), g.input(0), g.output(0));
            let of = |op, x| graph.op(op).input(x).output();
            // The quotient y / x is 1/2 at 0; near 0 x is replaced to keep the reciprocal finite.
            let small = graph
                .op("Less")
                .input(of("Abs", x))
                .input(x.constant_like(SMALL));
            let small = small.output();
            let select = |a, b| graph.op("SelectV2").input(small).input(a).input(b).output();
            let safe = select(of("OnesLike", x), x);
            let slope = of("BesselI0e", x) - y * (of("Sign", x) + of("Reciprocal", safe));
            let half = of("OnesLike", x) * 0.5;
            smallvec![Some(g.grad() * select(half, slope))]
        }),
    ),
    kernels: &[cpu(|p| by_precision(p, I1e, I1eSingle)).in_place(&[(0, 0)])],
};

const A_X: &[Arg] = &[arg("a", "T"), arg("x", "T")];
/// `T` is a float of at least 32 bits.
const WIDE: &[AttrDef] = &[type_attr("T", &[DType::F32, DType::F64])];

/// Gradients of the lower incomplete gamma function; those of the upper one have the opposite sign.
fn incomplete_gamma_gradients<'g>(g: &GradCx<'_, 'g>, sign: f64) -> InputGradients<'g> {
    let (graph, a, x) = (g.graph(), g.input(0), g.input(1));
    let of = |op, x| graph.op(op).input(x).output();
    let by_a = graph.op("IgammaGradA").input(a).input(x).output();
    let by_x = of("Exp", (a - 1.0) * of("Log", x) - x - of("Lgamma", a));
    let grad = g.grad() * sign;
    smallvec![
        Some(sum_to(grad * by_a, a, x)),
        Some(sum_to(grad * by_x, x, a)),
    ]
}

/// Lower incomplete gamma function.
pub(crate) static IGAMMA: Op = Op {
    def: OpDef {
        inputs: A_X,
        ..binary_op(
            "Igamma",
            "The regularized lower incomplete gamma function P(a, x), with broadcasting.",
            FLOAT,
            Gradient::Rule(|g| incomplete_gamma_gradients(g, 1.0)),
        )
    },
    kernels: &[
        cpu(|p| per_element_2_by_precision(p, igamma, igamma_single)).in_place(&[(0, 0), (1, 0)]),
    ],
};

/// Upper incomplete gamma function.
pub(crate) static IGAMMAC: Op = Op {
    def: OpDef {
        inputs: A_X,
        ..binary_op(
            "Igammac",
            "The regularized upper incomplete gamma function Q(a, x), with broadcasting.",
            FLOAT,
            Gradient::Rule(|g| incomplete_gamma_gradients(g, -1.0)),
        )
    },
    kernels: &[
        cpu(|p| per_element_2_by_precision(p, igammac, igammac_single)).in_place(&[(0, 0), (1, 0)]),
    ],
};

/// Derivative of the lower incomplete gamma function with respect to a.
pub(crate) static IGAMMA_GRAD_A: Op = Op {
    def: OpDef {
        inputs: A_X,
        ..binary_op(
            "IgammaGradA",
            "The derivative with respect to a of the regularized lower incomplete gamma function, with broadcasting.",
            WIDE,
            Gradient::Missing,
        )
    },
    kernels: &[cpu(|p| per_element_in_f64_2(p, igamma_slope)).in_place(&[(0, 0), (1, 0)])],
};
