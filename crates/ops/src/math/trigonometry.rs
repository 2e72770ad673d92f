//! Sin, Cos, Tan, Asin, Acos, Atan, Atan2, Sinh, Cosh, Asinh, Acosh, Atanh.

use smallvec::smallvec;
use thalweg_cpu::number::{double, single};
use thalweg_device::{Op, cpu, gpu};
use thalweg_graph::op::{Gradient, arg};
use thalweg_graph::{GradCx, OpDef, Output};
use thalweg_tensor::DType;

use super::broadcast::sum_to;
use super::complex_functions;
use super::define::{FLOAT, FLOAT_OR_COMPLEX, binary_op, unary_op};
use super::inlined::{Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Sin, Sinh, Tan};
use super::scalar_functions::{
    of_angle, straight_line_2, straight_line_or_complex, straight_line_single,
};
use crate::support::gradient_nodes::conj;

/// `op` of the conjugate of the node's input.
fn node_of_input<'g>(g: &GradCx<'_, 'g>, op: &str) -> Output<'g> {
    node(op, conj(g.input(0)))
}

fn node<'g>(op: &str, x: Output<'g>) -> Output<'g> {
    x.graph().op(op).input(x).output()
}

/// `1 - x^2`.
fn one_minus_square(x: Output<'_>) -> Output<'_> {
    1.0 - node("Square", x)
}

/// Sine.
pub(crate) static SIN: Op = Op {
    def: unary_op(
        "Sin",
        "The sine of each element, an angle in radians.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| smallvec![Some(g.grad() * node_of_input(g, "Cos"))]),
    ),
    kernels: &[
        cpu(|p| of_angle(p, Sin, f64::sin, |x| x.sin())).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Cosine.
pub(crate) static COS: Op = Op {
    def: unary_op(
        "Cos",
        "The cosine of each element, an angle in radians.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| smallvec![Some(-(g.grad() * node_of_input(g, "Sin")))]),
    ),
    kernels: &[
        cpu(|p| of_angle(p, Cos, f64::cos, |x| x.cos())).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Tangent.
pub(crate) static TAN: Op = Op {
    def: unary_op(
        "Tan",
        "The tangent of each element, an angle in radians.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let secant = node("Reciprocal", node_of_input(g, "Cos"));
            smallvec![Some(node("Square", secant) * g.grad())]
        }),
    ),
    kernels: &[
        cpu(|p| of_angle(p, Tan, f64::tan, complex_functions::tan)).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Inverse sine.
pub(crate) static ASIN: Op = Op {
    def: unary_op(
        "Asin",
        "The inverse sine of each element, in radians.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            smallvec![Some(
                g.grad() / node("Sqrt", one_minus_square(conj(g.input(0))))
            )]
        }),
    ),
    kernels: &[
        cpu(|p| match p.dtype(0) {
            DType::F16 | DType::BF16 | DType::F32 => straight_line_single(p, single::asin),
            _ => straight_line_or_complex(p, Asin, complex_functions::asin),
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Inverse cosine.
pub(crate) static ACOS: Op = Op {
    def: unary_op(
        "Acos",
        "The inverse cosine of each element, in radians.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            smallvec![Some(
                -(g.grad() / node("Sqrt", one_minus_square(conj(g.input(0)))))
            )]
        }),
    ),
    kernels: &[
        cpu(|p| match p.dtype(0) {
            DType::F16 | DType::BF16 | DType::F32 => straight_line_single(p, single::acos),
            _ => straight_line_or_complex(p, Acos, complex_functions::acos),
        })
        .in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Inverse tangent.
pub(crate) static ATAN: Op = Op {
    def: unary_op(
        "Atan",
        "The inverse tangent of each element, in radians.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| smallvec![Some(g.grad() / (node_of_input(g, "Square") + 1.0))]),
    ),
    kernels: &[
        cpu(|p| straight_line_or_complex(p, Atan, complex_functions::atan)).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Angle of a point.
pub(crate) static ATAN_2: Op = Op {
    def: OpDef {
        inputs: &[arg("y", "T"), arg("x", "T")],
        ..binary_op(
            "Atan2",
            "The angle of the point (x, y), with broadcasting.",
            FLOAT,
            Gradient::Rule(|g| {
                let (y, x) = (g.input(0), g.input(1));
                let by_square = g.grad() / (node("Square", y) + node("Square", x));
                smallvec![
                    Some(sum_to(x * by_square, y, x)),
                    Some(sum_to(-(y * by_square), x, y))
                ]
            }),
        )
    },
    kernels: &[
        cpu(|p| straight_line_2(p, double::atan2)).in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};

/// Hyperbolic sine.
pub(crate) static SINH: Op = Op {
    def: unary_op(
        "Sinh",
        "The hyperbolic sine of each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| smallvec![Some(g.grad() * node_of_input(g, "Cosh"))]),
    ),
    kernels: &[
        cpu(|p| straight_line_or_complex(p, Sinh, |x| x.sinh())).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Hyperbolic cosine.
pub(crate) static COSH: Op = Op {
    def: unary_op(
        "Cosh",
        "The hyperbolic cosine of each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| smallvec![Some(g.grad() * node_of_input(g, "Sinh"))]),
    ),
    kernels: &[
        cpu(|p| straight_line_or_complex(p, Cosh, |x| x.cosh())).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Inverse hyperbolic sine.
pub(crate) static ASINH: Op = Op {
    def: unary_op(
        "Asinh",
        "The inverse hyperbolic sine of each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| smallvec![Some(g.grad() / node("Cosh", conj(g.output(0))))]),
    ),
    kernels: &[
        cpu(|p| straight_line_or_complex(p, Asinh, complex_functions::asinh)).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Inverse hyperbolic cosine.
pub(crate) static ACOSH: Op = Op {
    def: unary_op(
        "Acosh",
        "The inverse hyperbolic cosine of each element, which is not negative.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| smallvec![Some(g.grad() / node("Sinh", conj(g.output(0))))]),
    ),
    kernels: &[
        cpu(|p| straight_line_or_complex(p, Acosh, |x| x.acosh())).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};

/// Inverse hyperbolic tangent.
pub(crate) static ATANH: Op = Op {
    def: unary_op(
        "Atanh",
        "The inverse hyperbolic tangent of each element.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            smallvec![Some(
                g.grad() * node("Reciprocal", one_minus_square(conj(g.input(0))))
            )]
        }),
    ),
    kernels: &[
        cpu(|p| straight_line_or_complex(p, Atanh, complex_functions::atanh)).in_place(&[(0, 0)]),
        gpu(crate::gpu::unary).in_place(&[(0, 0)]),
    ],
};
