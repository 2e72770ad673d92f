//! Adagrad: <https://jmlr.org/papers/v12/duchi11a.html>, with and without an epsilon.

use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Effect, Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_graph::{DType, OpDef, dispatch};

use super::fused::{prepared, rate, update};
use crate::number::{Float, Number, Wide};

/// `accum += grad^2` (where `update_slots`), and `var -= lr grad / sqrt(accum)`.
pub(crate) static ADAGRAD: Op = Op {
    def: OpDef {
        name: "ResourceApplyAdagrad",
        summary: "Updates a variable by Adagrad.",
        inputs: &[
            arg_of("var", DType::Resource),
            arg_of("accum", DType::Resource),
            arg("lr", "T"),
            arg("grad", "T"),
        ],
        attrs: &[
            type_attr("T", DType::NUMBERS),
            bool_attr("use_locking", false),
            bool_attr("update_slots", true),
        ],
        shape: super::shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(3), FLOATS, T => Ok(adagrad::<T>(p)), else Err(KernelError::DType(p.dtype(3)))),
    )
    .only(&[("T", DType::FLOATS)]), gpu(|p| crate::gpu::step(p, 3)).only(&[("T", DType::FLOATS)])],
};

fn adagrad<T: Float>(p: &Prepare<'_>) -> Prepared {
    let update_slots = p.node.attrs.bool("update_slots");
    prepared::<2>(p, 3, move |cx| {
        let lr = rate::<T>(cx, 2)?;
        step::<T>(cx, 3, lr, T::Wide::ZERO, update_slots)
    })
}

/// `accum += grad^2` (where `update_slots`), and `var -= lr grad / (sqrt(accum) + epsilon)`.
pub(crate) static ADAGRAD_V2: Op = Op {
    def: OpDef {
        name: "ResourceApplyAdagradV2",
        summary: "Updates a variable by Adagrad, with an epsilon beside the root.",
        inputs: &[
            arg_of("var", DType::Resource),
            arg_of("accum", DType::Resource),
            arg("lr", "T"),
            arg("epsilon", "T"),
            arg("grad", "T"),
        ],
        attrs: &[
            type_attr("T", DType::NUMBERS),
            bool_attr("use_locking", false),
            bool_attr("update_slots", true),
        ],
        shape: super::shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(4), FLOATS, T => Ok(adagrad_v2::<T>(p)), else Err(KernelError::DType(p.dtype(4)))),
    )
    .only(&[("T", DType::FLOATS)]), gpu(|p| crate::gpu::step(p, 4)).only(&[("T", DType::FLOATS)])],
};

fn adagrad_v2<T: Float>(p: &Prepare<'_>) -> Prepared {
    let update_slots = p.node.attrs.bool("update_slots");
    prepared::<2>(p, 4, move |cx| {
        let (lr, epsilon) = (rate::<T>(cx, 2)?, rate::<T>(cx, 3)?);
        step::<T>(cx, 4, lr, epsilon, update_slots)
    })
}

fn step<T: Float>(
    cx: &KernelCx<'_>,
    grad: usize,
    lr: T::Wide,
    epsilon: T::Wide,
    update_slots: bool,
) -> Result<(), KernelError> {
    update::<T, 2>(cx, [0, 1], grad, |[var, accum], g| {
        let accum = if update_slots { accum + g * g } else { accum };
        [var - lr * g / (accum.sqrt() + epsilon), accum]
    })
}
