//! DivNoNan, MulNoNan, Xlogy, Xlog1py, Xdivy: products and quotients that are 0 if one factor is 0, whatever the other
//! factor is.

use smallvec::smallvec;
use thalweg_cpu::number::double;
use thalweg_device::{Kernel, KernelError, Op, cpu, gpu};
use thalweg_graph::op::Gradient;
use thalweg_graph::{GradCx, Output};

use super::broadcast::sum_to;
use super::complex_functions::ln_1p;
use super::define::{FLOAT_OR_COMPLEX, binary_op};
use super::scalar_functions::straight_line_2;
use crate::support::elementwise::{binary, computed};
use crate::support::gradient_nodes::conj;
use thalweg_cpu::number::Arithmetic;

fn node<'g>(op: &str, x: Output<'g>, y: Output<'g>) -> Output<'g> {
    x.graph().op(op).input(x).input(y).output()
}

/// 1 where `x` is not 0, 0 elsewhere.
fn not_zero(x: Output<'_>) -> Output<'_> {
    let not = node("NotEqual", x, x.constant_like(0));
    let node = x.graph().op("Cast").input(not);
    node.attr("DstT", x.dtype()).output()
}

/// Gradients `dz by_x` and `dz by_y`.
fn both_gradients<'g>(
    g: &GradCx<'_, 'g>,
    by_x: Output<'g>,
    by_y: Output<'g>,
) -> thalweg_graph::op::InputGradients<'g> {
    let (x, y, dz) = (g.input(0), g.input(1), g.grad());
    smallvec![Some(sum_to(dz * by_x, x, y)), Some(sum_to(dz * by_y, y, x))]
}

/// `x / y`, or 0 if y is 0.
pub(crate) static DIV_NO_NAN: Op = Op {
    def: binary_op(
        "DivNoNan",
        "The quotient of two tensors, 0 where the divisor is 0, with broadcasting.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let (x, y, dz) = (conj(g.input(0)), conj(g.input(1)), g.grad());
            let by_y = dz * node("DivNoNan", node("DivNoNan", -x, y), y);
            smallvec![
                Some(sum_to(node("DivNoNan", dz, y), x, y)),
                Some(sum_to(by_y, y, x))
            ]
        }),
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), FLOATS_AND_COMPLEX, T => Ok(binary::<T>(p, |x: T, y: T| {
            if y == T::ZERO { T::ZERO } else { x / y }
        })), else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};

/// `x y`, or 0 if y is 0.
pub(crate) static MUL_NO_NAN: Op = Op {
    def: binary_op(
        "MulNoNan",
        "The product of two tensors, 0 where the second is 0, with broadcasting.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let (x, y, dz) = (g.input(0), g.input(1), g.grad());
            smallvec![
                Some(sum_to(node("MulNoNan", dz, y), x, y)),
                Some(sum_to(node("MulNoNan", x, dz), y, x))
            ]
        }),
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), FLOATS_AND_COMPLEX, T => Ok(binary::<T>(p, |x: T, y: T| {
            if y == T::ZERO { T::ZERO } else { x * y }
        })), else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};

/// Kernels of `x` times a function of `y`, or 0 if x is 0.
macro_rules! times {
    ($f:expr, complex: $c:expr) => {{
        const KERNELS: &[Kernel] = &[cpu(|p| {
            computed!(p.dtype(0), COMPLEX, T => Ok(binary::<T>(p, |x: T, y: T| if x == T::ZERO { x } else { x * $c(y) })), else
            straight_line_2(p, |x, y| if x == 0.0 { 0.0 } else { x * $f(y) }))
        })
        .in_place(&[(0, 0), (1, 0)]), gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)])];
        KERNELS
    }};
}

/// `x log(y)`, or 0 if x is 0.
pub(crate) static XLOGY: Op = Op {
    def: binary_op(
        "Xlogy",
        "x log(y), 0 where x is 0, with broadcasting.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let (x, y) = (g.input(0), g.input(1));
            both_gradients(g, node("Xlogy", not_zero(x), y), node("Xdivy", x, y))
        }),
    ),
    kernels: times!(double::ln, complex: |y: T| y.ln()),
};

/// `x log(1 + y)`, or 0 if x is 0.
pub(crate) static XLOG1PY: Op = Op {
    def: binary_op(
        "Xlog1py",
        "x log(1 + y), 0 where x is 0, with broadcasting.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let (x, y) = (g.input(0), g.input(1));
            both_gradients(
                g,
                node("Xlog1py", not_zero(x), y),
                node("Xdivy", x, y + 1.0),
            )
        }),
    ),
    kernels: times!(double::ln_1p, complex: ln_1p),
};

/// `x / y`, or 0 if x is 0.
pub(crate) static XDIVY: Op = Op {
    def: binary_op(
        "Xdivy",
        "x / y, 0 where x is 0, with broadcasting.",
        FLOAT_OR_COMPLEX,
        Gradient::Rule(|g| {
            let (x, y) = (g.input(0), g.input(1));
            let square = y.graph().op("Square").input(y).output();
            both_gradients(g, node("Xdivy", not_zero(x), y), node("Xdivy", -x, square))
        }),
    ),
    kernels: &[
        cpu(|p| {
            computed!(p.dtype(0), FLOATS_AND_COMPLEX, T => Ok(binary::<T>(p, |x: T, y: T| {
            if x == T::ZERO { T::ZERO } else { x / y }
        })), else Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]),
        gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)]),
    ],
};
