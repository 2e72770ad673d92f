//! ResourceApplyAdagrad, ResourceApplyAdagradV2, ResourceApplyProximalAdagrad, ResourceApplyAdagradDA, and their sparse
//! variants.
//! Adagrad: <https://jmlr.org/papers/v12/duchi11a.html>, with and without an epsilon, with the
//! shrinkage of FOBOS, and by dual averaging.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::arg_of;
use thalweg_tensor::DType;

use super::arithmetic::{dtype, max, shrink, sign, square};
use super::define::{DENSE, DENSE_SLOTS, FLOATS, INDICES, SPARSE, SPARSE_SLOTS, optimizer, t, var};
use super::optimizer_kernel::step;
use crate::support::elementwise::computed;
use thalweg_cpu::number::{Arithmetic, Float, Wide};

/// `accum += grad^2` (if `update_slots`), and `var -= lr grad / sqrt(accum)`.
pub(crate) static ADAGRAD: Op = Op {
    def: optimizer(
        "ResourceApplyAdagrad",
        "Updates a variable by Adagrad.",
        &[var("var"), var("accum"), t("lr"), t("grad")],
        DENSE_SLOTS,
    ),
    kernels: &[
        cpu(adagrad).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`ADAGRAD`], for rows.
pub(crate) static SPARSE_ADAGRAD: Op = Op {
    def: optimizer(
        "ResourceSparseApplyAdagrad",
        "Updates rows of a variable by Adagrad.",
        &[var("var"), var("accum"), t("lr"), t("grad"), INDICES],
        SPARSE_SLOTS,
    ),
    kernels: &[
        cpu(adagrad).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyAdagrad")).only(FLOATS),
    ],
};

fn adagrad(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let grow = p.node.attrs.bool("update_slots");
        step::<T, 2, 1, _>(p, ["lr"], move |[lr]| {
            move |[var, accum], g| {
                let accum = if grow { accum + square(g) } else { accum };
                [var - lr * g / accum.sqrt(), accum]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

/// `accum += grad^2` (if `update_slots`), and `var -= lr grad / (sqrt(accum) + epsilon)`.
pub(crate) static ADAGRAD_V2: Op = Op {
    def: optimizer(
        "ResourceApplyAdagradV2",
        "Updates a variable by Adagrad, with an epsilon added to the root.",
        &[var("var"), var("accum"), t("lr"), t("epsilon"), t("grad")],
        DENSE_SLOTS,
    ),
    kernels: &[
        cpu(adagrad_v2).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`ADAGRAD_V2`], for rows.
pub(crate) static SPARSE_ADAGRAD_V2: Op = Op {
    def: optimizer(
        "ResourceSparseApplyAdagradV2",
        "Updates rows of a variable by Adagrad, with an epsilon added to the root.",
        &[
            var("var"),
            var("accum"),
            t("lr"),
            t("epsilon"),
            t("grad"),
            INDICES,
        ],
        SPARSE_SLOTS,
    ),
    kernels: &[
        cpu(adagrad_v2).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyAdagradV2")).only(FLOATS),
    ],
};

fn adagrad_v2(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let grow = p.node.attrs.bool("update_slots");
        step::<T, 2, 2, _>(p, ["lr", "epsilon"], move |[lr, epsilon]| {
            move |[var, accum], g| {
                let accum = if grow { accum + square(g) } else { accum };
                [var - lr * g / (accum.sqrt() + epsilon), accum]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

/// `accum += grad^2`; then a step of FOBOS at the rate `lr / sqrt(accum)`.
pub(crate) static PROXIMAL_ADAGRAD: Op = Op {
    def: optimizer(
        "ResourceApplyProximalAdagrad",
        "Updates a variable by Adagrad, then shrinks it towards zero.",
        &[
            var("var"),
            var("accum"),
            t("lr"),
            t("l1"),
            t("l2"),
            t("grad"),
        ],
        DENSE,
    ),
    kernels: &[
        cpu(proximal_adagrad).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`PROXIMAL_ADAGRAD`], for rows.
pub(crate) static SPARSE_PROXIMAL_ADAGRAD: Op = Op {
    def: optimizer(
        "ResourceSparseApplyProximalAdagrad",
        "Updates rows of a variable by Adagrad, then shrinks them towards zero.",
        &[
            var("var"),
            var("accum"),
            t("lr"),
            t("l1"),
            t("l2"),
            t("grad"),
            INDICES,
        ],
        SPARSE,
    ),
    kernels: &[
        cpu(proximal_adagrad).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyProximalAdagrad")).only(FLOATS),
    ],
};

fn proximal_adagrad(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        step::<T, 2, 3, _>(p, ["lr", "l1", "l2"], |[lr, l1, l2]| {
            move |[var, accum], g| {
                let accum = accum + square(g);
                let rate = lr / accum.sqrt();
                [shrink(var - g * rate, rate, l1, l2), accum]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

/// With the sums `s` of the gradients and `ss` of their squares,
/// `var = -lr sign(s) max(|s| - l1 global_step, 0) / (l2 global_step lr + sqrt(ss))`.
pub(crate) static ADAGRAD_DA: Op = Op {
    def: optimizer(
        "ResourceApplyAdagradDA",
        "Updates a variable by Adagrad's dual averaging.",
        &[
            var("var"),
            var("gradient_accumulator"),
            var("gradient_squared_accumulator"),
            t("grad"),
            t("lr"),
            t("l1"),
            t("l2"),
            arg_of("global_step", DType::I64),
        ],
        DENSE,
    ),
    kernels: &[
        cpu(adagrad_da).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`ADAGRAD_DA`], for rows.
pub(crate) static SPARSE_ADAGRAD_DA: Op = Op {
    def: optimizer(
        "ResourceSparseApplyAdagradDA",
        "Updates rows of a variable by Adagrad's dual averaging.",
        &[
            var("var"),
            var("gradient_accumulator"),
            var("gradient_squared_accumulator"),
            t("grad"),
            INDICES,
            t("lr"),
            t("l1"),
            t("l2"),
            arg_of("global_step", DType::I64),
        ],
        SPARSE,
    ),
    kernels: &[
        cpu(adagrad_da).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyAdagradDA")).only(FLOATS),
    ],
};

fn adagrad_da(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let rates = ["lr", "l1", "l2", "global_step"];
        step::<T, 3, 4, _>(p, rates, |[lr, l1, l2, global_step]| {
            let zero = <T as Float>::Wide::ZERO;
            move |[_, sum, squares], g| {
                let (sum, squares) = (sum + g, squares + square(g));
                let kept = match l1 > zero {
                    true => sign(sum) * max(Wide::abs(sum) - l1 * global_step, zero),
                    false => sum,
                };
                let below = l2 * global_step * lr + squares.sqrt();
                [-(lr * kept) / below, sum, squares]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}
