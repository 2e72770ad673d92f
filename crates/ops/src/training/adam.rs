//! Adam: <https://arxiv.org/abs/1412.6980>, in the form of its section 2 that puts both bias
//! corrections into the rate.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Effect, Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_graph::{DType, OpDef, dispatch};

use super::fused::{prepared, rate, update};
use crate::number::{Float, Number, Wide};

/// `m += (grad - m) (1 - beta1)`, `v += (grad^2 - v) (1 - beta2)`, and
/// `var -= m lr sqrt(1 - beta2_power) / ((1 - beta1_power) (sqrt(v) + epsilon))`; with
/// `use_nesterov`, `grad (1 - beta1) + beta1 m` stands for `m` in the last.
pub(crate) static ADAM: Op = Op {
    def: OpDef {
        name: "ResourceApplyAdam",
        summary: "Updates a variable by Adam.",
        inputs: &[
            arg_of("var", DType::Resource),
            arg_of("m", DType::Resource),
            arg_of("v", DType::Resource),
            arg("beta1_power", "T"),
            arg("beta2_power", "T"),
            arg("lr", "T"),
            arg("beta1", "T"),
            arg("beta2", "T"),
            arg("epsilon", "T"),
            arg("grad", "T"),
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
        |p| dispatch!(p.dtype(9), FLOATS, T => Ok(adam::<T>(p)), else Err(KernelError::DType(p.dtype(9)))),
    )
    .only(&[("T", DType::FLOATS)]), gpu(|p| crate::gpu::step(p, 9)).only(&[("T", DType::FLOATS)])],
};

fn adam<T: Float>(p: &Prepare<'_>) -> Prepared {
    let nesterov = p.node.attrs.bool("use_nesterov");
    prepared::<3>(p, 9, move |cx| {
        let rate = |i| rate::<T>(cx, i);
        let one = T::Wide::ONE;
        let (power1, power2) = (rate(3)?, rate(4)?);
        let (lr, beta1, beta2, epsilon) = (rate(5)?, rate(6)?, rate(7)?, rate(8)?);
        let alpha = lr * (one - power2).sqrt() / (one - power1);
        let (new1, new2) = (one - beta1, one - beta2);
        let moments =
            move |m: T::Wide, v: T::Wide, g: T::Wide| (m + (g - m) * new1, v + (g * g - v) * new2);
        if nesterov {
            return update::<T, 3>(cx, [0, 1, 2], 9, |[var, m, v], g| {
                let (m, v) = moments(m, v, g);
                let ahead = g * new1 + beta1 * m;
                [var - ahead * alpha / (v.sqrt() + epsilon), m, v]
            });
        }
        update::<T, 3>(cx, [0, 1, 2], 9, |[var, m, v], g| {
            let (m, v) = moments(m, v, g);
            [var - m * alpha / (v.sqrt() + epsilon), m, v]
        })
    })
}
