//! RMSProp with momentum, plain and centered: <https://arxiv.org/abs/1308.0850>, equations 38 to 45.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Effect, Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_graph::{DType, OpDef, dispatch};

use super::fused::{prepared, rate, update};
use crate::number::{Float, Number, Wide};

/// `ms += (grad^2 - ms) (1 - rho)`, `mom = mom momentum + lr grad / sqrt(ms + epsilon)`, and
/// `var -= mom`.
pub(crate) static RMS_PROP: Op = Op {
    def: OpDef {
        name: "ResourceApplyRMSProp",
        summary: "Updates a variable by RMSProp.",
        inputs: &[
            arg_of("var", DType::Resource),
            arg_of("ms", DType::Resource),
            arg_of("mom", DType::Resource),
            arg("lr", "T"),
            arg("rho", "T"),
            arg("momentum", "T"),
            arg("epsilon", "T"),
            arg("grad", "T"),
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
        |p| dispatch!(p.dtype(7), FLOATS, T => Ok(rms_prop::<T>(p)), else Err(KernelError::DType(p.dtype(7)))),
    )
    .only(&[("T", DType::FLOATS)]), gpu(|p| crate::gpu::step(p, 7)).only(&[("T", DType::FLOATS)])],
};

fn rms_prop<T: Float>(p: &Prepare<'_>) -> Prepared {
    prepared::<3>(p, 7, |cx| {
        let rate = |i| rate::<T>(cx, i);
        let (lr, rho, momentum, epsilon) = (rate(3)?, rate(4)?, rate(5)?, rate(6)?);
        let new = T::Wide::ONE - rho;
        update::<T, 3>(cx, [0, 1, 2], 7, |[var, ms, mom], g| {
            let ms = ms + (g * g - ms) * new;
            let mom = mom * momentum + lr * g / (ms + epsilon).sqrt();
            [var - mom, ms, mom]
        })
    })
}

/// As [`RMS_PROP`], with the variance of the gradient in place of its mean square:
/// `mg += (grad - mg) (1 - rho)`, and `ms - mg^2` stands under the root.
pub(crate) static CENTERED_RMS_PROP: Op = Op {
    def: OpDef {
        name: "ResourceApplyCenteredRMSProp",
        summary: "Updates a variable by RMSProp on the gradient's variance.",
        inputs: &[
            arg_of("var", DType::Resource),
            arg_of("mg", DType::Resource),
            arg_of("ms", DType::Resource),
            arg_of("mom", DType::Resource),
            arg("lr", "T"),
            arg("rho", "T"),
            arg("momentum", "T"),
            arg("epsilon", "T"),
            arg("grad", "T"),
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
        |p| dispatch!(p.dtype(8), FLOATS, T => Ok(centered::<T>(p)), else Err(KernelError::DType(p.dtype(8)))),
    )
    .only(&[("T", DType::FLOATS)]), gpu(|p| crate::gpu::step(p, 8)).only(&[("T", DType::FLOATS)])],
};

fn centered<T: Float>(p: &Prepare<'_>) -> Prepared {
    prepared::<4>(p, 8, |cx| {
        let rate = |i| rate::<T>(cx, i);
        let (lr, rho, momentum, epsilon) = (rate(4)?, rate(5)?, rate(6)?, rate(7)?);
        let new = T::Wide::ONE - rho;
        update::<T, 4>(cx, [0, 1, 2, 3], 8, |[var, mg, ms, mom], g| {
            let ms = ms + (g * g - ms) * new;
            let mg = mg + (g - mg) * new;
            let mom = mom * momentum + lr * g / (ms - mg * mg + epsilon).sqrt();
            [var - mom, mg, ms, mom]
        })
    })
}
