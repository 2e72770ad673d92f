//! ResourceApplyFtrl, ResourceApplyFtrlV2, and their sparse variants.
//! FTRL-proximal: <https://research.google/pubs/pub41159>, with TensorFlow's exponent of the learning
//! rate and, in the second version, a shrinkage that only the gradient sees.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};

use super::arithmetic::{dtype, sign, square};
use super::define::{DENSE_BY_LR, FLOATS, INDICES, SPARSE_BY_LR, optimizer, t, var};
use super::optimizer_kernel::step;
use crate::support::elementwise::computed;
use thalweg_cpu::number::Wide;

/// With `new = accum + grad^2` and `r(x) = x^-lr_power / lr`:
/// `linear += grad - (r(new) - r(accum)) var`,
/// `var = (clip(linear, -l1, l1) - linear) / (r(new) + 2 l2)`, and `accum = new`. With
/// `multiply_linear_by_lr`, `linear` holds `lr` times as much.
pub(crate) static FTRL: Op = Op {
    def: optimizer(
        "ResourceApplyFtrl",
        "Updates a variable by FTRL-proximal.",
        &[
            var("var"),
            var("accum"),
            var("linear"),
            t("grad"),
            t("lr"),
            t("l1"),
            t("l2"),
            t("lr_power"),
        ],
        DENSE_BY_LR,
    ),
    kernels: &[cpu(ftrl).only(FLOATS), gpu(crate::gpu::step).only(FLOATS)],
};

/// Like [`FTRL`], for rows.
pub(crate) static SPARSE_FTRL: Op = Op {
    def: optimizer(
        "ResourceSparseApplyFtrl",
        "Updates rows of a variable by FTRL-proximal.",
        &[
            var("var"),
            var("accum"),
            var("linear"),
            t("grad"),
            INDICES,
            t("lr"),
            t("l1"),
            t("l2"),
            t("lr_power"),
        ],
        SPARSE_BY_LR,
    ),
    kernels: &[
        cpu(ftrl).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyFtrl")).only(FLOATS),
    ],
};

fn ftrl(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let by_lr = p.node.attrs.bool("multiply_linear_by_lr");
        step::<T, 3, 4, _>(p, ["lr", "l1", "l2", "lr_power"], move |[lr, l1, l2, power]| {
            move |[var, accum, linear], g| {
                let rates = FtrlRates { lr, l1, l2, power };
                rates.step([var, accum, linear], g, g, by_lr)
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

/// Like [`FTRL`], but adds `grad + 2 l2_shrinkage var` to `linear` in place of `grad`.
pub(crate) static FTRL_V2: Op = Op {
    def: optimizer(
        "ResourceApplyFtrlV2",
        "Updates a variable by FTRL-proximal with shrinkage.",
        &[
            var("var"),
            var("accum"),
            var("linear"),
            t("grad"),
            t("lr"),
            t("l1"),
            t("l2"),
            t("l2_shrinkage"),
            t("lr_power"),
        ],
        DENSE_BY_LR,
    ),
    kernels: &[
        cpu(ftrl_v2).only(FLOATS),
        gpu(crate::gpu::step).only(FLOATS),
    ],
};

/// Like [`FTRL_V2`], for rows.
pub(crate) static SPARSE_FTRL_V2: Op = Op {
    def: optimizer(
        "ResourceSparseApplyFtrlV2",
        "Updates rows of a variable by FTRL-proximal with shrinkage.",
        &[
            var("var"),
            var("accum"),
            var("linear"),
            t("grad"),
            INDICES,
            t("lr"),
            t("l1"),
            t("l2"),
            t("l2_shrinkage"),
            t("lr_power"),
        ],
        SPARSE_BY_LR,
    ),
    kernels: &[
        cpu(ftrl_v2).only(FLOATS),
        gpu(|p| crate::gpu::sparse_step(p, "ResourceApplyFtrlV2")).only(FLOATS),
    ],
};

fn ftrl_v2(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    computed!(dtype(p), FLOATS, T => {
        let by_lr = p.node.attrs.bool("multiply_linear_by_lr");
        let names = ["lr", "l1", "l2", "l2_shrinkage", "lr_power"];
        step::<T, 3, 5, _>(p, names, move |[lr, l1, l2, shrinkage, power]| {
            let twice = shrinkage + shrinkage;
            move |[var, accum, linear], g| {
                let rates = FtrlRates { lr, l1, l2, power };
                rates.step([var, accum, linear], g, g + twice * var, by_lr)
            }
        })
    }, else Err(KernelError::DType(dtype(p))))
}

/// Settings of a step.
struct FtrlRates<W> {
    lr: W,
    l1: W,
    l2: W,
    power: W,
}

impl<W: Wide> FtrlRates<W> {
    /// `x^-power`.
    #[inline(always)]
    fn to_minus_power(&self, x: W) -> W {
        // The usual power is a square root, which is cheaper and more accurate.
        match self.power == W::from_f64(-0.5) {
            true => x.sqrt(),
            false => x.powf(-self.power),
        }
    }

    /// New values of `var`, `accum` and `linear`; `added` is added to `linear`.
    #[inline(always)]
    fn step(&self, [var, accum, linear]: [W; 3], g: W, added: W, by_lr: bool) -> [W; 3] {
        let lr = if by_lr { W::ONE } else { self.lr };
        let scale = if by_lr { self.lr } else { W::ONE };
        let new = accum + square(g);
        let (old_rate, new_rate) = (self.to_minus_power(accum), self.to_minus_power(new));
        let linear = linear + added * scale - (new_rate - old_rate) / lr * var;
        let l1 = self.l1 * scale;
        let var = match Wide::abs(linear) > l1 {
            true => {
                let above = l1 * sign(linear) - linear;
                above / (new_rate / lr + (self.l2 + self.l2) * scale)
            }
            false => W::ZERO,
        };
        [var, new, linear]
    }
}
