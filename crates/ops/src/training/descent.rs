//! Gradient descent, plain and with momentum.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Effect, Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_graph::{DType, OpDef, dispatch};

use super::fused::{prepared, rate, update};
use crate::number::Float;

/// `var -= alpha * delta`.
pub(crate) static GRADIENT_DESCENT: Op = Op {
    def: OpDef {
        name: "ResourceApplyGradientDescent",
        summary: "Takes a multiple of the gradient off a variable.",
        inputs: &[
            arg_of("var", DType::Resource),
            arg("alpha", "T"),
            arg("delta", "T"),
        ],
        attrs: &[
            type_attr("T", DType::NUMBERS),
            bool_attr("use_locking", false),
        ],
        shape: super::shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(2), FLOATS, T => Ok(gradient_descent::<T>(p)), else Err(KernelError::DType(p.dtype(2)))),
    )
    .only(&[("T", DType::FLOATS)]), gpu(|p| crate::gpu::step(p, 2)).only(&[("T", DType::FLOATS)])],
};

fn gradient_descent<T: Float>(p: &Prepare<'_>) -> Prepared {
    prepared::<1>(p, 2, |cx| {
        let alpha = rate::<T>(cx, 1)?;
        update::<T, 1>(cx, [0], 2, |[var], g| [var - alpha * g])
    })
}

/// `accum = accum * momentum + grad`, and `var -= lr * accum`; with `use_nesterov`,
/// `var -= lr * (grad + accum * momentum)`.
pub(crate) static MOMENTUM: Op = Op {
    def: OpDef {
        name: "ResourceApplyMomentum",
        summary: "Takes a multiple of a decaying sum of gradients off a variable.",
        inputs: &[
            arg_of("var", DType::Resource),
            arg_of("accum", DType::Resource),
            arg("lr", "T"),
            arg("grad", "T"),
            arg("momentum", "T"),
        ],
        attrs: &[
            type_attr("T", DType::NUMBERS),
            bool_attr("use_locking", false),
            bool_attr("use_nesterov", false),
        ],
        shape: super::shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(3), FLOATS, T => Ok(momentum::<T>(p)), else Err(KernelError::DType(p.dtype(3)))),
    )
    .only(&[("T", DType::FLOATS)]), gpu(|p| crate::gpu::step(p, 3)).only(&[("T", DType::FLOATS)])],
};

fn momentum<T: Float>(p: &Prepare<'_>) -> Prepared {
    let nesterov = p.node.attrs.bool("use_nesterov");
    prepared::<2>(p, 3, move |cx| {
        let (lr, momentum) = (rate::<T>(cx, 2)?, rate::<T>(cx, 4)?);
        if nesterov {
            return update::<T, 2>(cx, [0, 1], 3, |[var, accum], g| {
                let accum = accum * momentum + g;
                [var - (g * lr + accum * momentum * lr), accum]
            });
        }
        update::<T, 2>(cx, [0, 1], 3, |[var, accum], g| {
            let accum = accum * momentum + g;
            [var - accum * lr, accum]
        })
    })
}
