//! Tanh, TanhGrad, Sigmoid, SigmoidGrad, Softplus, SoftplusGrad.

use smallvec::smallvec;
use thalweg_cpu::number::{Wide, sigmoid};
use thalweg_device::{Op, cpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg};

use super::complex_functions;
use super::define::{
    FLOAT, FLOAT_OR_COMPLEX, float_kernel, float_kernel_2, gradient_from_result, unary_op,
};
use crate::support::gradient_nodes::conj;
use crate::support::shapes;

/// Hyperbolic tangent.
pub(crate) static TANH: Op = Op {
    def: unary_op(
        "Tanh",
        "The hyperbolic tangent of each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let grad = g
                .graph()
                .op("TanhGrad")
                .input(conj(g.output(0)))
                .input(g.grad());
            smallvec![Some(grad.output())]
        }),
    ),
    kernels: float_kernel!(Wide::tanh, complex: complex_functions::tanh),
};

/// `dy (1 - y^2)`.
pub(crate) static TANH_GRAD: Op = Op {
    def: gradient_from_result(
        "TanhGrad",
        "The gradient of a hyperbolic tangent y: dy (1 - y^2).",
        Gradient::Rule(|g| {
            let (y, dy, dz) = (conj(g.input(0)), conj(g.input(1)), g.grad());
            let to_dy = g.graph().op("TanhGrad").input(y).input(dz).output();
            smallvec![Some(dz * dy * y * -2.0), Some(to_dy)]
        }),
    ),
    kernels: float_kernel_2!(tanh_grad, complex: |y: T, dy: T| dy * (T::ONE - y * y)),
};

#[inline(always)]
fn tanh_grad<W: Wide>(y: W, dy: W) -> W {
    dy * (W::ONE - y * y)
}

/// `1 / (1 + exp(-x))`.
pub(crate) static SIGMOID: Op = Op {
    def: unary_op(
        "Sigmoid",
        "1 / (1 + exp(-x)) for each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let grad = g
                .graph()
                .op("SigmoidGrad")
                .input(conj(g.output(0)))
                .input(g.grad());
            smallvec![Some(grad.output())]
        }),
    ),
    kernels: float_kernel!(sigmoid, complex: |x: T| (T::ONE + (-x).exp()).inv()),
};

/// `dy y (1 - y)`.
pub(crate) static SIGMOID_GRAD: Op = Op {
    def: gradient_from_result(
        "SigmoidGrad",
        "The gradient of a sigmoid y: dy y (1 - y).",
        Gradient::Rule(|g| {
            let (y, dy, dz) = (conj(g.input(0)), conj(g.input(1)), g.grad());
            let to_dy = g.graph().op("SigmoidGrad").input(y).input(dz).output();
            let product = dz * dy;
            smallvec![Some(product - product * y * 2.0), Some(to_dy)]
        }),
    ),
    kernels: float_kernel_2!(sigmoid_grad, complex: |y: T, dy: T| dy * y * (T::ONE - y)),
};

#[inline(always)]
fn sigmoid_grad<W: Wide>(y: W, dy: W) -> W {
    dy * y * (W::ONE - y)
}

/// `log(1 + exp(x))`.
pub(crate) static SOFTPLUS: Op = Op {
    def: OpDef {
        inputs: &[arg("features", "T")],
        outputs: &[arg("activations", "T")],
        ..unary_op(
            "Softplus",
            "log(1 + exp(x)) for each element.",
            FLOAT,
            Gradient::Rule(|g| {
                let grad = g
                    .graph()
                    .op("SoftplusGrad")
                    .input(g.grad())
                    .input(g.input(0));
                smallvec![Some(grad.output())]
            }),
        )
    },
    kernels: float_kernel!(softplus),
};

/// `max(x, 0) + log(1 + exp(-|x|))`: cannot overflow, and keeps full precision for small results.
#[inline(always)]
fn softplus<W: Wide>(x: W) -> W {
    let tail = Wide::ln_1p(Wide::exp(-Wide::abs(x)));
    if x > W::ZERO { x + tail } else { tail }
}

/// `dy sigmoid(x)`.
pub(crate) static SOFTPLUS_GRAD: Op = Op {
    def: OpDef {
        name: "SoftplusGrad",
        summary: "The gradient of softplus at x: dy sigmoid(x).",
        inputs: &[arg("gradients", "T"), arg("features", "T")],
        outputs: &[arg("backprops", "T")],
        attrs: FLOAT,
        shape: shapes::all_the_same,
        gradient: Gradient::Rule(|g| {
            let (dy, x, dz) = (g.input(0), g.input(1), g.grad());
            let to_dy = g.graph().op("SoftplusGrad").input(dz).input(x).output();
            let sigmoid = g.graph().op("Sigmoid").input(x).output();
            smallvec![Some(to_dy), Some(dz * dy * sigmoid * (1.0 - sigmoid))]
        }),
        ..OpDef::EMPTY
    },
    kernels: float_kernel_2!(softplus_grad),
};

#[inline(always)]
fn softplus_grad<W: Wide>(dy: W, x: W) -> W {
    dy * sigmoid(x)
}
