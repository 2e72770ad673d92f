//! ResourceApplyGradientDescent, ResourceApplyMomentum, ResourceApplyKerasMomentum,
//! ResourceApplyProximalGradientDescent, and sparse variants: gradient descent, plain, with momentum, and with the
//! shrinkage of FOBOS (<https://jmlr.org/papers/v10/duchi09a.html>).

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};

use super::arithmetic::{dtype, shrink};
use super::define::{
    DENSE, DENSE_NESTEROV, FLOATS, INDICES, SPARSE, SPARSE_NESTEROV, optimizer, t, var,
};
use super::optimizer_kernel::step;
use crate::support::elementwise::computed;

/// `var -= alpha * delta`.
pub(crate) static GRADIENT_DESCENT: Op = Op {
    def: optimizer(
        "ResourceApplyGradientDescent",
        "Subtracts a multiple of the gradient from a variable.",
        &[var("var"), t("alpha"), t("delta")],
        DENSE,
    ),
    kernels: &[
        cpu(gradient_descent).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

fn gradient_descent(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        step::<T, 1, 1, _>(p, ["alpha"], |[alpha]| move |[var], g| [var - alpha * g])
    }, else Err(KernelError::DType(dtype(p))))
}

/// `accum = accum * momentum + grad`, and `var -= lr * accum`; with `use_nesterov`,
/// `var -= lr * (grad + accum * momentum)`.
pub(crate) static MOMENTUM: Op = Op {
    def: optimizer(
        "ResourceApplyMomentum",
        "Subtracts a multiple of a decaying sum of gradients from a variable.",
        &[var("var"), var("accum"), t("lr"), t("grad"), t("momentum")],
        DENSE_NESTEROV,
    ),
    kernels: &[
        cpu(momentum).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`MOMENTUM`], for rows.
pub(crate) static SPARSE_MOMENTUM: Op = Op {
    def: optimizer(
        "ResourceSparseApplyMomentum",
        "Subtracts a multiple of a decaying sum of gradients from rows of a variable.",
        &[
            var("var"),
            var("accum"),
            t("lr"),
            t("grad"),
            INDICES,
            t("momentum"),
        ],
        SPARSE_NESTEROV,
    ),
    kernels: &[
        cpu(momentum).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyMomentum")).only(FLOATS),
    ],
};

fn momentum(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        if p.node.attrs.bool("use_nesterov") {
            return step::<T, 2, 2, _>(p, ["lr", "momentum"], |[lr, momentum]| {
                move |[var, accum], g| {
                    let accum = accum * momentum + g;
                    [var - (g * lr + accum * momentum * lr), accum]
                }
            });
        }
        step::<T, 2, 2, _>(p, ["lr", "momentum"], |[lr, momentum]| {
            move |[var, accum], g| {
                let accum = accum * momentum + g;
                [var - accum * lr, accum]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

/// `accum = accum * momentum - lr * grad`, and `var += accum`; with `use_nesterov`,
/// `var += accum * momentum - lr * grad`.
pub(crate) static KERAS_MOMENTUM: Op = Op {
    def: optimizer(
        "ResourceApplyKerasMomentum",
        "Adds a decaying sum of multiples of the gradient to a variable.",
        &[var("var"), var("accum"), t("lr"), t("grad"), t("momentum")],
        DENSE_NESTEROV,
    ),
    kernels: &[
        cpu(keras_momentum).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`KERAS_MOMENTUM`], for rows.
pub(crate) static SPARSE_KERAS_MOMENTUM: Op = Op {
    def: optimizer(
        "ResourceSparseApplyKerasMomentum",
        "Adds a decaying sum of multiples of the gradient to rows of a variable.",
        &[
            var("var"),
            var("accum"),
            t("lr"),
            t("grad"),
            INDICES,
            t("momentum"),
        ],
        SPARSE_NESTEROV,
    ),
    kernels: &[
        cpu(keras_momentum).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyKerasMomentum")).only(FLOATS),
    ],
};

fn keras_momentum(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let nesterov = p.node.attrs.bool("use_nesterov");
        step::<T, 2, 2, _>(p, ["lr", "momentum"], move |[lr, momentum]| {
            move |[var, accum], g| {
                let accum = accum * momentum - g * lr;
                let ahead = if nesterov { accum * momentum - g * lr } else { accum };
                [var + ahead, accum]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

/// `x = var - alpha * delta`, and `var = sign(x) max(|x| - alpha l1, 0) / (1 + alpha l2)`.
pub(crate) static PROXIMAL_GRADIENT_DESCENT: Op = Op {
    def: optimizer(
        "ResourceApplyProximalGradientDescent",
        "Updates a variable by FOBOS: a step down the gradient, then one towards zero.",
        &[var("var"), t("alpha"), t("l1"), t("l2"), t("delta")],
        DENSE,
    ),
    kernels: &[
        cpu(proximal_descent).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`PROXIMAL_GRADIENT_DESCENT`], for rows.
pub(crate) static SPARSE_PROXIMAL_GRADIENT_DESCENT: Op = Op {
    def: optimizer(
        "ResourceSparseApplyProximalGradientDescent",
        "Updates rows of a variable by FOBOS: a step down the gradient, then one towards zero.",
        &[var("var"), t("alpha"), t("l1"), t("l2"), t("grad"), INDICES],
        SPARSE,
    ),
    kernels: &[
        cpu(proximal_descent).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyProximalGradientDescent")).only(FLOATS),
    ],
};

fn proximal_descent(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        step::<T, 1, 3, _>(p, ["alpha", "l1", "l2"], |[alpha, l1, l2]| {
            move |[var], g| [shrink(var - g * alpha, alpha, l1, l2)]
        })
    }, else Err(KernelError::DType(dtype(p))))
}
