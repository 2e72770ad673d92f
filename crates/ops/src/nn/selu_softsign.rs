//! Softsign, SoftsignGrad, Selu, SeluGrad.

use smallvec::smallvec;
use thalweg_device::{Kernel, KernelError, Op, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, Gradient, arg, type_attr};
use thalweg_tensor::DType;

use crate::support::elementwise::{binary, computed, unary};
use crate::support::shapes;
use thalweg_cpu::number::{Float, Wide};

const FLOATS: &[AttrDef] = &[type_attr("T", DType::FLOATS)];

/// Base definition of an activation.
const ACTIVATION_OP: OpDef = OpDef {
    inputs: &[arg("features", "T")],
    outputs: &[arg("activations", "T")],
    attrs: FLOATS,
    shape: shapes::unchanged,
    ..OpDef::EMPTY
};

/// Base definition of the gradient of an activation.
const ACTIVATION_GRAD_OP: OpDef = OpDef {
    outputs: &[arg("backprops", "T")],
    attrs: FLOATS,
    shape: shapes::all_the_same,
    ..OpDef::EMPTY
};

/// Kernels of a function of one float.
macro_rules! unary_kernels {
    ($f:expr) => {{
        const KERNELS: &[Kernel] = &[cpu(|p| {
        computed!(p.dtype(0), FLOATS, T => Ok(unary::<T>(p, |x| T::narrow($f(x.widen())))), else
                Err(KernelError::DType(p.dtype(0))))
                                })
                                .in_place(&[(0, 0)]), gpu(crate::gpu::unary).in_place(&[(0, 0)])];
        KERNELS
    }};
}

/// Kernels of a function of two floats.
macro_rules! binary_kernels {
    ($f:expr) => {{
        const KERNELS: &[Kernel] = &[cpu(|p| {
            computed!(p.dtype(0), FLOATS, T => Ok(binary::<T>(p, |x, y| T::narrow($f(x.widen(), y.widen())))), else
                Err(KernelError::DType(p.dtype(0))))
        })
        .in_place(&[(0, 0), (1, 0)]), gpu(crate::gpu::binary).in_place(&[(0, 0), (1, 0)])];
        KERNELS
    }};
}

/// `x / (1 + |x|)`.
pub(crate) static SOFTSIGN: Op = Op {
    def: OpDef {
        name: "Softsign",
        summary: "x / (1 + |x|) for each element.",
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("SoftsignGrad").input(g.grad());
            smallvec![Some(node.input(g.input(0)).output())]
        }),
        ..ACTIVATION_OP
    },
    kernels: unary_kernels!(softsign),
};

#[inline(always)]
fn softsign<W: Wide>(x: W) -> W {
    x / (W::ONE + Wide::abs(x))
}

/// `dy / (1 + |x|)^2`.
pub(crate) static SOFTSIGN_GRAD: Op = Op {
    def: OpDef {
        name: "SoftsignGrad",
        summary: "The gradient of Softsign.",
        inputs: &[arg("gradients", "T"), arg("features", "T")],
        gradient: Gradient::Rule(|g| {
            // z = dy / (1 + |x|)^2, so that dz/dx = -2 sign(x) z / (1 + |x|).
            let (graph, x, dz) = (g.graph(), g.input(1), g.grad());
            let to_dy = graph.op("SoftsignGrad").input(dz).input(x).output();
            let size = graph.op("Abs").input(x).output() + 1.0;
            let sign = graph.op("Sign").input(x).output();
            smallvec![Some(to_dy), Some(dz * g.output(0) * sign * -2.0 / size)]
        }),
        ..ACTIVATION_GRAD_OP
    },
    kernels: binary_kernels!(softsign_grad),
};

#[inline(always)]
fn softsign_grad<W: Wide>(dy: W, x: W) -> W {
    let size = W::ONE + Wide::abs(x);
    dy / (size * size)
}

// The fixed point at which activations keep mean 0 and variance 1 (Klambauer et al.,
// Self-Normalizing Neural Networks, 2017).
const SCALE: f64 = 1.050_700_987_355_480_5;
const SCALE_ALPHA: f64 = 1.758_099_340_847_376_9;

/// `x` or `alpha (exp(x) - 1)`, scaled.
pub(crate) static SELU: Op = Op {
    def: OpDef {
        name: "Selu",
        summary: "The scaled exponential linear unit of each element.",
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("SeluGrad").input(g.grad());
            smallvec![Some(node.input(g.output(0)).output())]
        }),
        ..ACTIVATION_OP
    },
    kernels: unary_kernels!(selu),
};

#[inline(always)]
fn selu<W: Wide>(x: W) -> W {
    if x < W::ZERO {
        W::from_f64(SCALE_ALPHA) * Wide::exp_m1(x)
    } else {
        W::from_f64(SCALE) * x
    }
}

/// Gradient of Selu, computed from its outputs.
pub(crate) static SELU_GRAD: Op = Op {
    def: OpDef {
        name: "SeluGrad",
        summary: "The gradient of Selu, from its outputs.",
        inputs: &[arg("gradients", "T"), arg("outputs", "T")],
        gradient: Gradient::Rule(|g| {
            let (graph, dy, y, dz) = (g.graph(), g.input(0), g.input(1), g.grad());
            let to_dy = graph.op("SeluGrad").input(dz).input(y).output();
            let negative = graph.op("Less").input(y).input(y.constant_like(0));
            let zeros = graph.op("ZerosLike").input(y).output();
            let to_y = graph.op("SelectV2").input(negative.output());
            let to_y = to_y.input(dz * dy).input(zeros).output();
            smallvec![Some(to_dy), Some(to_y)]
        }),
        ..ACTIVATION_GRAD_OP
    },
    kernels: binary_kernels!(selu_grad),
};

#[inline(always)]
fn selu_grad<W: Wide>(dy: W, y: W) -> W {
    if y < W::ZERO {
        dy * (y + W::from_f64(SCALE_ALPHA))
    } else {
        dy * W::from_f64(SCALE)
    }
}
