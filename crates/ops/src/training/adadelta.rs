//! ResourceApplyAdadelta, ResourceSparseApplyAdadelta: <https://arxiv.org/abs/1212.5701>.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};

use super::arithmetic::{dtype, square};
use super::define::{DENSE, FLOATS, INDICES, SPARSE, optimizer, t, var};
use super::optimizer_kernel::step;
use crate::support::elementwise::computed;
use thalweg_cpu::number::{Arithmetic, Float};

/// `accum = accum rho + grad^2 (1 - rho)`, `u = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) grad`,
/// `var -= lr u`, and `accum_update = accum_update rho + u^2 (1 - rho)`.
pub(crate) static ADADELTA: Op = Op {
    def: optimizer(
        "ResourceApplyAdadelta",
        "Updates a variable by Adadelta.",
        &[
            var("var"),
            var("accum"),
            var("accum_update"),
            t("lr"),
            t("rho"),
            t("epsilon"),
            t("grad"),
        ],
        DENSE,
    ),
    kernels: &[
        cpu(adadelta).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`ADADELTA`], for rows.
pub(crate) static SPARSE_ADADELTA: Op = Op {
    def: optimizer(
        "ResourceSparseApplyAdadelta",
        "Updates rows of a variable by Adadelta.",
        &[
            var("var"),
            var("accum"),
            var("accum_update"),
            t("lr"),
            t("rho"),
            t("epsilon"),
            t("grad"),
            INDICES,
        ],
        SPARSE,
    ),
    kernels: &[
        cpu(adadelta).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyAdadelta")).only(FLOATS),
    ],
};

fn adadelta(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        step::<T, 3, 3, _>(p, ["lr", "rho", "epsilon"], |[lr, rho, epsilon]| {
            let fresh = <T as Float>::Wide::ONE - rho;
            move |[var, accum, updates], g| {
                let accum = accum * rho + square(g) * fresh;
                let update = (updates + epsilon).sqrt() / (accum + epsilon).sqrt() * g;
                [var - update * lr, accum, updates * rho + update * update * fresh]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}
