//! Trust ratios of LAMB and LARS: rates that follow the norms of a layer.

use thalweg_graph::Output;
use thalweg_ops::{ArrayOps, MathOps, ReduceOps};
use thalweg_tensor::DType;

/// L2 norm of all elements, a scalar; for 16-bit floats in `f32`, as their square would overflow.
#[track_caller]
pub(super) fn norm(x: Output<'_>) -> Output<'_> {
    let wide = match x.dtype() {
        DType::F16 | DType::BF16 => x.cast(DType::F32),
        _ => x,
    };
    (wide.l2_loss() * 2.0).sqrt()
}

/// `ratio` in the dtype of `like`; 1 if one of its two norms is 0.
#[track_caller]
pub(super) fn ratio_or_one<'g>(
    norms: [Output<'g>; 2],
    ratio: Output<'g>,
    like: Output<'g>,
) -> Output<'g> {
    let [a, b] = norms.map(|norm| norm.greater(norm.constant_like(0)));
    let ratio = a.logical_and(b).select(ratio, ratio.constant_like(1));
    match ratio.dtype() == like.dtype() {
        true => ratio,
        false => ratio.cast(like.dtype()),
    }
}
