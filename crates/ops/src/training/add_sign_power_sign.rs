//! ResourceApplyAddSign, ResourceApplyPowerSign: <https://arxiv.org/abs/1709.07417>.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};

use super::arithmetic::{dtype, sign};
use super::define::{DENSE, FLOATS, optimizer, t, var};
use super::optimizer_kernel::step;
use crate::support::elementwise::computed;
use thalweg_cpu::number::{Arithmetic, Float};

/// `m = m beta + grad (1 - beta)`, and
/// `var -= lr (alpha + sign_decay sign(grad) sign(m)) grad`.
pub(crate) static ADD_SIGN: Op = Op {
    def: optimizer(
        "ResourceApplyAddSign",
        "Updates a variable by AddSign.",
        &[
            var("var"),
            var("m"),
            t("lr"),
            t("alpha"),
            t("sign_decay"),
            t("beta"),
            t("grad"),
        ],
        DENSE,
    ),
    kernels: &[
        cpu(add_sign).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

fn add_sign(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let rates = ["lr", "alpha", "sign_decay", "beta"];
        step::<T, 2, 4, _>(p, rates, |[lr, alpha, decay, beta]| {
            let new = <T as Float>::Wide::ONE - beta;
            move |[var, m], g| {
                let m = m * beta + g * new;
                [var - lr * (alpha + decay * sign(g) * sign(m)) * g, m]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

/// `m = m beta + grad (1 - beta)`, and
/// `var -= lr e^(logbase sign_decay sign(grad) sign(m)) grad`.
pub(crate) static POWER_SIGN: Op = Op {
    def: optimizer(
        "ResourceApplyPowerSign",
        "Updates a variable by PowerSign.",
        &[
            var("var"),
            var("m"),
            t("lr"),
            t("logbase"),
            t("sign_decay"),
            t("beta"),
            t("grad"),
        ],
        DENSE,
    ),
    kernels: &[
        cpu(power_sign).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

fn power_sign(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let rates = ["lr", "logbase", "sign_decay", "beta"];
        step::<T, 2, 4, _>(p, rates, |[lr, base, decay, beta]| {
            let new = <T as Float>::Wide::ONE - beta;
            move |[var, m], g| {
                let m = m * beta + g * new;
                [var - lr * (base * decay * sign(g) * sign(m)).exp() * g, m]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}
