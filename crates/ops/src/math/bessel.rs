//! BesselI0, BesselI1, BesselJ0, BesselJ1, BesselK0, BesselK0e, BesselK1, BesselK1e, BesselY0, BesselY1.

use smallvec::smallvec;
use thalweg_cpu::special::{i0, i1, j0, j1, k0, k0e, k1, k1e, y0, y1};
use thalweg_device::{Op, cpu};
use thalweg_graph::op::{Gradient, InputGradients};
use thalweg_graph::{GradCx, OpDef, Output};

use super::define::{FLOAT, unary_op};
use super::scalar_functions::per_element_in_f64;

const fn bessel(name: &'static str, summary: &'static str, gradient: Gradient) -> OpDef {
    unary_op(name, summary, FLOAT, gradient)
}

/// The function `op` at the node's input.
fn at_x<'g>(g: &GradCx<'_, 'g>, op: &str) -> Output<'g> {
    g.graph().op(op).input(g.input(0)).output()
}

/// `sign * order_0 - y / x`: the slope of a function of order 1, from that of order 0.
fn slope_of_order_1<'g>(g: &GradCx<'_, 'g>, order_0: &str, sign: f64) -> Output<'g> {
    at_x(g, order_0) * sign - g.output(0) / g.input(0)
}

/// `sign * order_1`: the slope of a function of order 0.
fn slope_of_order_0<'g>(g: &GradCx<'_, 'g>, order_1: &str, sign: f64) -> InputGradients<'g> {
    smallvec![Some(g.grad() * at_x(g, order_1) * sign)]
}

/// The slope of a function of order 1, which at 0 is `at_zero`: as in TensorFlow.
fn with_slope_at_zero<'g>(g: &GradCx<'_, 'g>, order_0: &str, at_zero: f64) -> InputGradients<'g> {
    let (graph, x) = (g.graph(), g.input(0));
    let zero = graph
        .op("Equal")
        .input(x)
        .input(x.constant_like(0.0))
        .output();
    let other = graph.op("OnesLike").input(x).output() * at_zero;
    let slope = graph.op("SelectV2").input(zero).input(other);
    let slope = slope.input(slope_of_order_1(g, order_0, 1.0)).output();
    smallvec![Some(g.grad() * slope)]
}

/// Modified, of the first kind, of order 0.
pub(crate) static I0: Op = Op {
    def: bessel(
        "BesselI0",
        "The modified Bessel function of order 0 at each element.",
        Gradient::Rule(|g| slope_of_order_0(g, "BesselI1", 1.0)),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, i0)).in_place(&[(0, 0)])],
};

/// Modified, of the first kind, of order 1.
pub(crate) static I1: Op = Op {
    def: bessel(
        "BesselI1",
        "The modified Bessel function of order 1 at each element.",
        Gradient::Rule(|g| with_slope_at_zero(g, "BesselI0", 1.0)),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, i1)).in_place(&[(0, 0)])],
};

/// Of the first kind, of order 0.
pub(crate) static J0: Op = Op {
    def: bessel(
        "BesselJ0",
        "The Bessel function of the first kind and order 0 at each element.",
        Gradient::Rule(|g| slope_of_order_0(g, "BesselJ1", -1.0)),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, j0)).in_place(&[(0, 0)])],
};

/// Of the first kind, of order 1.
pub(crate) static J1: Op = Op {
    def: bessel(
        "BesselJ1",
        "The Bessel function of the first kind and order 1 at each element.",
        Gradient::Rule(|g| with_slope_at_zero(g, "BesselJ0", 0.5)),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, j1)).in_place(&[(0, 0)])],
};

/// Modified, of the second kind, of order 0.
pub(crate) static K0: Op = Op {
    def: bessel(
        "BesselK0",
        "The modified Bessel function of the second kind and order 0 at each element.",
        Gradient::Rule(|g| slope_of_order_0(g, "BesselK1", -1.0)),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, k0)).in_place(&[(0, 0)])],
};

/// Modified, of the second kind, of order 0, exponentially scaled.
pub(crate) static K0E: Op = Op {
    def: bessel(
        "BesselK0e",
        "The modified Bessel function of the second kind and order 0 at each element x, times exp(x).",
        Gradient::Rule(|g| smallvec![Some(g.grad() * (g.output(0) - at_x(g, "BesselK1e")))]),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, k0e)).in_place(&[(0, 0)])],
};

/// Modified, of the second kind, of order 1.
pub(crate) static K1: Op = Op {
    def: bessel(
        "BesselK1",
        "The modified Bessel function of the second kind and order 1 at each element.",
        Gradient::Rule(|g| {
            let slope = slope_of_order_1(g, "BesselK0", -1.0);
            smallvec![Some(g.grad() * slope)]
        }),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, k1)).in_place(&[(0, 0)])],
};

/// Modified, of the second kind, of order 1, exponentially scaled.
pub(crate) static K1E: Op = Op {
    def: bessel(
        "BesselK1e",
        "The modified Bessel function of the second kind and order 1 at each element x, times exp(x).",
        Gradient::Rule(|g| {
            let slope = slope_of_order_1(g, "BesselK0e", -1.0) + g.output(0);
            smallvec![Some(g.grad() * slope)]
        }),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, k1e)).in_place(&[(0, 0)])],
};

/// Of the second kind, of order 0.
pub(crate) static Y0: Op = Op {
    def: bessel(
        "BesselY0",
        "The Bessel function of the second kind and order 0 at each element.",
        Gradient::Rule(|g| slope_of_order_0(g, "BesselY1", -1.0)),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, y0)).in_place(&[(0, 0)])],
};

/// Of the second kind, of order 1.
pub(crate) static Y1: Op = Op {
    def: bessel(
        "BesselY1",
        "The Bessel function of the second kind and order 1 at each element.",
        Gradient::Rule(|g| {
            let slope = slope_of_order_1(g, "BesselY0", 1.0);
            smallvec![Some(g.grad() * slope)]
        }),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, y1)).in_place(&[(0, 0)])],
};
