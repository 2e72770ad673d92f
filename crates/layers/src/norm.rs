//! Helpers of normalization layers: moments, and the formula.

use thalweg_graph::Output;
use thalweg_ops::{ArrayOps, MathOps, ReduceOps};
use thalweg_tensor::DType;

/// The dtype of the means and variances of `dtype`: narrow floats are too imprecise.
pub(crate) fn statistics(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// `x` cast to `dtype`.
pub(crate) fn as_dtype(x: Output<'_>, dtype: DType) -> Output<'_> {
    match x.dtype() == dtype {
        true => x,
        false => x.cast(dtype),
    }
}

/// The mean and the variance over `axes`, which stay as dimensions of 1 with `keep_dims`.
pub(crate) fn moments<'g>(x: Output<'g>, axes: &[i32], keep_dims: bool) -> [Output<'g>; 2] {
    let mean = x.reduce_mean(axes, true);
    // The mean's contribution to the gradient of the variance is 0.
    let spread = x.squared_difference(mean.stop_gradient());
    let moments = [mean, spread.reduce_mean(axes, true)];
    let axes: Vec<i64> = axes.iter().map(|&a| i64::from(a)).collect();
    match keep_dims {
        true => moments,
        false => moments.map(|m| m.squeeze(&axes)),
    }
}

/// `gamma * (x - mean) / sqrt(variance + epsilon) + beta`.
pub(crate) fn normalized<'g>(
    x: Output<'g>,
    [mean, variance]: [Output<'g>; 2],
    [gamma, beta]: [Option<Output<'g>>; 2],
    epsilon: f64,
) -> Output<'g> {
    let factor = (variance + epsilon).rsqrt();
    let factor = gamma.map_or(factor, |gamma| factor * gamma);
    // `x * factor - mean * factor` would lose digits for a large mean.
    let y = (x - mean) * factor;
    beta.map_or(y, |beta| y + beta)
}
