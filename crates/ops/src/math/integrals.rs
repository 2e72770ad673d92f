//! Dawsn, Expint, FresnelCos, FresnelSin, Spence: integrals that are no elementary functions.

use std::f64::consts::FRAC_PI_2;

use smallvec::smallvec;
use thalweg_cpu::special::{dawsn, expint, fresnel, spence};
use thalweg_device::{Op, cpu};
use thalweg_graph::op::{Gradient, InputGradients};
use thalweg_graph::{GradCx, Output};

use super::define::{FLOAT, unary_op};
use super::scalar_functions::per_element_in_f64;

/// Dawson's integral.
pub(crate) static DAWSN: Op = Op {
    def: unary_op(
        "Dawsn",
        "For each element x, exp(-x^2) times the integral of exp(t^2) from 0 to x.",
        FLOAT,
        Gradient::Rule(|g| {
            let product = g.input(0) * g.output(0) * 2.0;
            let one = g.graph().op("OnesLike").input(product).output();
            smallvec![Some(g.grad() * (one - product))]
        }),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, dawsn)).in_place(&[(0, 0)])],
};

fn of<'g>(g: &GradCx<'_, 'g>, op: &str, x: Output<'g>) -> Output<'g> {
    g.graph().op(op).input(x).output()
}

/// The exponential integral.
pub(crate) static EXPINT: Op = Op {
    def: unary_op(
        "Expint",
        "For each element x, the integral of exp(t) / t from minus infinity to x.",
        FLOAT,
        Gradient::Rule(|g| {
            let x = g.input(0);
            smallvec![Some(g.grad() * of(g, "Exp", x) / x)]
        }),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, expint)).in_place(&[(0, 0)])],
};

/// The incoming gradient times a function of `pi x^2 / 2`.
fn fresnel_gradient<'g>(g: &GradCx<'_, 'g>, op: &str) -> InputGradients<'g> {
    let angle = of(g, "Square", g.input(0)) * FRAC_PI_2;
    smallvec![Some(g.grad() * of(g, op, angle))]
}

/// The integral of a cosine.
pub(crate) static FRESNEL_COS: Op = Op {
    def: unary_op(
        "FresnelCos",
        "For each element x, the integral of cos(pi t^2 / 2) from 0 to x.",
        FLOAT,
        Gradient::Rule(|g| fresnel_gradient(g, "Cos")),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, |x| fresnel(x).0)).in_place(&[(0, 0)])],
};

/// The integral of a sine.
pub(crate) static FRESNEL_SIN: Op = Op {
    def: unary_op(
        "FresnelSin",
        "For each element x, the integral of sin(pi t^2 / 2) from 0 to x.",
        FLOAT,
        Gradient::Rule(|g| fresnel_gradient(g, "Sin")),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, |x| fresnel(x).1)).in_place(&[(0, 0)])],
};

/// The dilogarithm of one minus the element.
pub(crate) static SPENCE: Op = Op {
    def: unary_op(
        "Spence",
        "For each element x, the integral of log(t) / (1 - t) from 1 to x.",
        FLOAT,
        Gradient::Rule(|g| {
            let (graph, x) = (g.graph(), g.input(0));
            let one = of(g, "OnesLike", x);
            let at_one = graph.op("Equal").input(x).input(one).output();
            let slope = of(g, "Log", x) / (one - x);
            let slope = graph.op("SelectV2").input(at_one).input(-one).input(slope);
            smallvec![Some(g.grad() * slope.output())]
        }),
    ),
    kernels: &[cpu(|p| per_element_in_f64(p, spence)).in_place(&[(0, 0)])],
};
