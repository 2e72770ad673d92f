//! Helpers of all-reduce algorithms: the gradients of a tower, and the split of a tensor into even parts.

use thalweg_graph::Output;

/// The gradients of one tower, in the order of its variables.
pub(crate) type Gradients<'g> = Vec<Output<'g>>;

/// Number of elements of a value; 0 if its shape is unknown.
pub(super) fn elements(x: Output<'_>) -> usize {
    x.shape().to_dims().map_or(0, |dims| dims.iter().product())
}

/// Divides `total` elements into parts as even as possible: begin and length of each.
pub(super) fn parts(total: usize, count: usize) -> Vec<(usize, usize)> {
    let bound = |i: usize| total * i / count;
    let of = |i: usize| (bound(i), bound(i + 1) - bound(i));
    (0..count).map(of).collect()
}
