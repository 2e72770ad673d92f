//! Means of a gradient and of its square, for updates that no op of TensorFlow's computes.

use thalweg_graph::{Operation, Output};
use thalweg_ops::{MathOps, Variable};
use thalweg_tensor::DType;

use super::updates::Updates;

/// The means of the gradient of a variable and of its square, as this step leaves them.
pub(super) struct Moments<'g> {
    /// The mean of the gradient.
    pub(super) m: Output<'g>,
    /// The mean of its square.
    pub(super) v: Output<'g>,
    /// Keeps both in their slots.
    pub(super) keep: [Operation<'g>; 2],
}

impl<'g> Moments<'g> {
    /// With slots of this name, which are 0 at first: `m += (gradient - m) * (1 - beta1)` and
    /// `v += (gradient^2 - v) * (1 - beta2)`.
    #[track_caller]
    pub(super) fn new(
        updates: &Updates<'g>,
        slot: &str,
        [beta1, beta2]: [f32; 2],
        (gradient, variable): (Output<'g>, Variable<'g>),
    ) -> Moments<'g> {
        let [mean, mean_square] = [(); 2].map(|()| updates.slot(variable, slot, 0.0));
        updates.beside(variable, || {
            let moved = |mean: Variable<'g>, to: Output<'g>, beta: f32| {
                or_zero(
                    mean + (to - mean) * (1.0 - f64::from(beta)),
                    least(to.dtype()),
                )
            };
            // A square is zero where it would be subnormal, as in the kernels of other optimizers.
            let square = or_zero(gradient, least(gradient.dtype()).sqrt()).square();
            let m = moved(mean, gradient, beta1);
            let v = moved(mean_square, square, beta2);
            let keep = [mean.assign(m), mean_square.assign(v)];
            Moments { m, v, keep }
        })
    }
}

/// The smallest positive number that is not subnormal in what elements of a dtype are computed in.
fn least(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

/// `x`, and 0 where it is nearer to 0 than `bound`.
#[track_caller]
fn or_zero(x: Output<'_>, bound: f64) -> Output<'_> {
    let small = x.abs().less(x.constant_like(bound));
    small.select(x.constant_like(0), x)
}
