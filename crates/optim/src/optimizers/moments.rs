//! First and second moments of a gradient, for updates that no op of TensorFlow computes.

use thalweg_graph::{Operation, Output};
use thalweg_ops::{MathOps, Variable};
use thalweg_tensor::DType;

use super::updates::Updates;

/// Means of the gradient of a variable and of its square, after this step.
pub(super) struct Moments<'g> {
    /// Mean of the gradient.
    pub(super) m: Output<'g>,
    /// Mean of its square.
    pub(super) v: Output<'g>,
    /// Assign both to their slots.
    pub(super) keep: [Operation<'g>; 2],
}

impl<'g> Moments<'g> {
    /// Builds the means in slots of this name, from 0: `m += (gradient - m) * (1 - beta1)` and `v += (gradient^2 - v) *
    /// (1 - beta2)`.
    #[track_caller]
    pub(super) fn new(
        updates: &Updates<'g>,
        slot: &str,
        [beta1, beta2]: [f32; 2],
        (gradient, variable): (Output<'g>, Variable<'g>),
    ) -> Moments<'g> {
        let [mean, mean_square] = [(); 2].map(|()| updates.slot(variable, slot, 0.0));
        updates.colocate(variable, || {
            let moved = |mean: Variable<'g>, to: Output<'g>, beta: f32| {
                or_zero(
                    mean + (to - mean) * (1.0 - f64::from(beta)),
                    least(to.dtype()),
                )
            };
            // A square is zero if it would be subnormal, as in the kernels of other optimizers.
            let square = or_zero(gradient, least(gradient.dtype()).sqrt()).square();
            let m = moved(mean, gradient, beta1);
            let v = moved(mean_square, square, beta2);
            let keep = [mean.assign(m), mean_square.assign(v)];
            Moments { m, v, keep }
        })
    }
}

/// Smallest positive normal number of the type in which elements of a dtype are computed.
fn least(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

/// Replaces elements of `x` that are nearer to 0 than `bound` by 0.
#[track_caller]
fn or_zero(x: Output<'_>, bound: f64) -> Output<'_> {
    let small = x.abs().less(x.constant_like(bound));
    small.select(x.constant_like(0), x)
}
