//! Reductions over segments: sorted, unsorted and sparse.

mod segment_gradient;
mod segment_reductions;
mod sparse_segment;
mod sparse_segment_grad_rows;
mod unsorted_segment_sum;

use thalweg_device::Op;
pub(crate) use unsorted_segment_sum::shape as unsorted_shape;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &unsorted_segment_sum::UNSORTED_SEGMENT_SUM,
    &segment_reductions::SEGMENT_SUM,
    &segment_reductions::SEGMENT_MEAN,
    &segment_reductions::SEGMENT_PROD,
    &segment_reductions::SEGMENT_MAX,
    &segment_reductions::SEGMENT_MIN,
    &segment_reductions::UNSORTED_SEGMENT_MAX,
    &segment_reductions::UNSORTED_SEGMENT_MIN,
    &segment_reductions::UNSORTED_SEGMENT_PROD,
    &sparse_segment::SPARSE_SEGMENT_SUM,
    &sparse_segment::SPARSE_SEGMENT_SUM_COUNTED,
    &sparse_segment::SPARSE_SEGMENT_SUM_GRAD,
    &sparse_segment::SPARSE_SEGMENT_MEAN,
    &sparse_segment::SPARSE_SEGMENT_MEAN_COUNTED,
    &sparse_segment::SPARSE_SEGMENT_MEAN_GRAD,
    &sparse_segment::SPARSE_SEGMENT_SQRT_N,
    &sparse_segment::SPARSE_SEGMENT_SQRT_N_COUNTED,
    &sparse_segment::SPARSE_SEGMENT_SQRT_N_GRAD,
    &sparse_segment_grad_rows::SUM,
    &sparse_segment_grad_rows::MEAN,
    &sparse_segment_grad_rows::SQRT_N,
];
