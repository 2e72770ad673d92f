//! ResourceApplyRMSProp, ResourceApplyCenteredRMSProp, and their sparse variants.
//! RMSProp with momentum, plain and centered: <https://arxiv.org/abs/1308.0850>, equations 38 to 45.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};

use super::arithmetic::{dtype, square};
use super::define::{DENSE, FLOATS, INDICES, SPARSE, optimizer, t, var};
use super::optimizer_kernel::step;
use crate::support::elementwise::computed;
use thalweg_cpu::number::{Arithmetic, Float};

/// `ms += (grad^2 - ms) (1 - rho)`, `mom = mom momentum + lr grad / sqrt(ms + epsilon)`, and
/// `var -= mom`.
pub(crate) static RMS_PROP: Op = Op {
    def: optimizer(
        "ResourceApplyRMSProp",
        "Updates a variable by RMSProp.",
        &[
            var("var"),
            var("ms"),
            var("mom"),
            t("lr"),
            t("rho"),
            t("momentum"),
            t("epsilon"),
            t("grad"),
        ],
        DENSE,
    ),
    kernels: &[
        cpu(rms_prop).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`RMS_PROP`], for rows.
pub(crate) static SPARSE_RMS_PROP: Op = Op {
    def: optimizer(
        "ResourceSparseApplyRMSProp",
        "Updates rows of a variable by RMSProp.",
        &[
            var("var"),
            var("ms"),
            var("mom"),
            t("lr"),
            t("rho"),
            t("momentum"),
            t("epsilon"),
            t("grad"),
            INDICES,
        ],
        SPARSE,
    ),
    kernels: &[
        cpu(rms_prop).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyRMSProp")).only(FLOATS),
    ],
};

const RATES: [&str; 4] = ["lr", "rho", "momentum", "epsilon"];

fn rms_prop(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        step::<T, 3, 4, _>(p, RATES, |[lr, rho, momentum, epsilon]| {
            let new = <T as Float>::Wide::ONE - rho;
            move |[var, ms, mom], g| {
                let ms = ms + (square(g) - ms) * new;
                let mom = mom * momentum + lr * g / (ms + epsilon).sqrt();
                [var - mom, ms, mom]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

/// Like [`RMS_PROP`], with the variance of the gradient in place of its mean square:
/// `mg += (grad - mg) (1 - rho)`, and the root is that of `ms - mg^2`.
pub(crate) static CENTERED_RMS_PROP: Op = Op {
    def: optimizer(
        "ResourceApplyCenteredRMSProp",
        "Updates a variable by RMSProp on the gradient's variance.",
        &[
            var("var"),
            var("mg"),
            var("ms"),
            var("mom"),
            t("lr"),
            t("rho"),
            t("momentum"),
            t("epsilon"),
            t("grad"),
        ],
        DENSE,
    ),
    kernels: &[
        cpu(centered).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`CENTERED_RMS_PROP`], for rows.
pub(crate) static SPARSE_CENTERED_RMS_PROP: Op = Op {
    def: optimizer(
        "ResourceSparseApplyCenteredRMSProp",
        "Updates rows of a variable by RMSProp on the gradient's variance.",
        &[
            var("var"),
            var("mg"),
            var("ms"),
            var("mom"),
            t("lr"),
            t("rho"),
            t("momentum"),
            t("epsilon"),
            t("grad"),
            INDICES,
        ],
        SPARSE,
    ),
    kernels: &[
        cpu(centered).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyCenteredRMSProp")).only(FLOATS),
    ],
};

fn centered(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        step::<T, 4, 4, _>(p, RATES, |[lr, rho, momentum, epsilon]| {
            let new = <T as Float>::Wide::ONE - rho;
            move |[var, mg, ms, mom], g| {
                let ms = ms + (square(g) - ms) * new;
                let mg = mg + (g - mg) * new;
                let mom = mom * momentum + lr * g / (ms - mg * mg + epsilon).sqrt();
                [var - mom, mg, ms, mom]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}
