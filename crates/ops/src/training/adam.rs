//! ResourceApplyAdam, ResourceApplyAdamWithAmsgrad, ResourceApplyAdaMax.
//! Adam: <https://arxiv.org/abs/1412.6980>, in the form of its section 2 that puts both bias
//! corrections into the rate; AdaMax, its section 7; and AMSGrad.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};

use super::arithmetic::{dtype, max, square};
use super::define::{DENSE, DENSE_NESTEROV, FLOATS, optimizer, t, var};
use super::optimizer_kernel::step;
use crate::support::elementwise::computed;
use thalweg_cpu::number::{Arithmetic, Float, Wide};

/// `m += (grad - m) (1 - beta1)`, `v += (grad^2 - v) (1 - beta2)`, and
/// `var -= m lr sqrt(1 - beta2_power) / ((1 - beta1_power) (sqrt(v) + epsilon))`; with
/// `use_nesterov`, `grad (1 - beta1) + beta1 m` replaces `m` in the last.
pub(crate) static ADAM: Op = Op {
    def: optimizer(
        "ResourceApplyAdam",
        "Updates a variable by Adam.",
        &[
            var("var"),
            var("m"),
            var("v"),
            t("beta1_power"),
            t("beta2_power"),
            t("lr"),
            t("beta1"),
            t("beta2"),
            t("epsilon"),
            t("grad"),
        ],
        DENSE_NESTEROV,
    ),
    kernels: &[cpu(adam).only(FLOATS), gpu(crate::gpu::step).only(FLOATS)],
};

fn adam(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let one = <T as Float>::Wide::ONE;
        if p.node.attrs.bool("use_nesterov") {
            return step::<T, 3, 6, _>(p, ADAM_RATES, move |[power1, power2, lr, beta1, beta2, epsilon]| {
                let alpha = lr * (one - power2).sqrt() / (one - power1);
                let (new1, new2) = (one - beta1, one - beta2);
                move |[var, m, v], g| {
                    let (m, v) = (m + (g - m) * new1, v + (square(g) - v) * new2);
                    let ahead = g * new1 + beta1 * m;
                    [var - ahead * alpha / (v.sqrt() + epsilon), m, v]
                }
            });
        }
        step::<T, 3, 6, _>(p, ADAM_RATES, move |[power1, power2, lr, beta1, beta2, epsilon]| {
            let alpha = lr * (one - power2).sqrt() / (one - power1);
            let (new1, new2) = (one - beta1, one - beta2);
            move |[var, m, v], g| {
                let (m, v) = (m + (g - m) * new1, v + (square(g) - v) * new2);
                [var - m * alpha / (v.sqrt() + epsilon), m, v]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

const ADAM_RATES: [&str; 6] = [
    "beta1_power",
    "beta2_power",
    "lr",
    "beta1",
    "beta2",
    "epsilon",
];

/// Like [`ADAM`], with the largest `v` so far, `vhat`, under the root:
/// <https://openreview.net/forum?id=ryQu7f-RZ>.
pub(crate) static AMSGRAD: Op = Op {
    def: optimizer(
        "ResourceApplyAdamWithAmsgrad",
        "Updates a variable by Adam, with the largest second moment so far.",
        &[
            var("var"),
            var("m"),
            var("v"),
            var("vhat"),
            t("beta1_power"),
            t("beta2_power"),
            t("lr"),
            t("beta1"),
            t("beta2"),
            t("epsilon"),
            t("grad"),
        ],
        DENSE,
    ),
    kernels: &[
        cpu(amsgrad).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

fn amsgrad(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let one = <T as Float>::Wide::ONE;
        step::<T, 4, 6, _>(p, ADAM_RATES, move |[power1, power2, lr, beta1, beta2, epsilon]| {
            let alpha = lr * (one - power2).sqrt() / (one - power1);
            let (new1, new2) = (one - beta1, one - beta2);
            move |[var, m, v, max_v], g| {
                let (m, v) = (m + (g - m) * new1, v + (square(g) - v) * new2);
                let max_v = max(max_v, v);
                [var - m * alpha / (max_v.sqrt() + epsilon), m, v, max_v]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

/// `m += (grad - m) (1 - beta1)`, `v = max(beta2 v, |grad|)`, and
/// `var -= lr / (1 - beta1_power) m / (v + epsilon)`.
pub(crate) static ADA_MAX: Op = Op {
    def: optimizer(
        "ResourceApplyAdaMax",
        "Updates a variable by AdaMax.",
        &[
            var("var"),
            var("m"),
            var("v"),
            t("beta1_power"),
            t("lr"),
            t("beta1"),
            t("beta2"),
            t("epsilon"),
            t("grad"),
        ],
        DENSE,
    ),
    kernels: &[
        cpu(ada_max).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

fn ada_max(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let one = <T as Float>::Wide::ONE;
        let rates = ["beta1_power", "lr", "beta1", "beta2", "epsilon"];
        step::<T, 3, 5, _>(p, rates, move |[power1, lr, beta1, beta2, epsilon]| {
            let (alpha, new1) = (lr / (one - power1), one - beta1);
            move |[var, m, v], g| {
                let (m, v) = (m + (g - m) * new1, max(beta2 * v, Wide::abs(g)));
                [var - alpha * (m / (v + epsilon)), m, v]
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}
