//! Reductions over axes: sums, means, products, norms, extremes and their indices, logical ones; scans along an axis.

mod all_any;
mod arg_max_min;
mod axes;
mod cumsum_cumprod;
mod fold;
mod gradient;
mod l2_loss;
mod layout;
mod max_min;
mod norm;
mod product;
mod sum_mean;
#[cfg(test)]
mod tests;

use thalweg_device::Op;
use thalweg_graph::Output;
use thalweg_tensor::Tensor;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &sum_mean::SUM,
    &sum_mean::MEAN,
    &product::PROD,
    &max_min::MAX,
    &max_min::MIN,
    &all_any::ALL,
    &all_any::ANY,
    &arg_max_min::ARG_MAX,
    &arg_max_min::ARG_MIN,
    &l2_loss::L2_LOSS,
    &norm::EUCLIDEAN_NORM,
    &cumsum_cumprod::CUMSUM,
    &cumsum_cumprod::CUMPROD,
    &cumsum_cumprod::CUMULATIVE_LOGSUMEXP,
];

/// Builder methods for reductions.
///
/// Negative axes count from the end. Reduced dimensions are 1 in the result with `keep_dims`, and removed without.
pub trait ReduceOps<'g>: Sized {
    /// The sum over `axes`.
    fn reduce_sum(self, axes: &[i32], keep_dims: bool) -> Output<'g>;
    /// The mean over `axes`; of integers, rounded towards zero.
    fn reduce_mean(self, axes: &[i32], keep_dims: bool) -> Output<'g>;
    /// The product over `axes`.
    fn reduce_prod(self, axes: &[i32], keep_dims: bool) -> Output<'g>;
    /// The largest element over `axes`.
    fn reduce_max(self, axes: &[i32], keep_dims: bool) -> Output<'g>;
    /// The smallest element over `axes`.
    fn reduce_min(self, axes: &[i32], keep_dims: bool) -> Output<'g>;
    /// `true` if all bools over `axes` are true.
    fn reduce_all(self, axes: &[i32], keep_dims: bool) -> Output<'g>;
    /// `true` if any bool over `axes` is true.
    fn reduce_any(self, axes: &[i32], keep_dims: bool) -> Output<'g>;
    /// The sum of all elements: a scalar.
    fn sum(self) -> Output<'g>;
    /// The mean of all elements: a scalar.
    fn mean(self) -> Output<'g>;
    /// The index of the first largest element along `axis`, as `i64`; the dimension is removed.
    #[doc(alias = "argmax")]
    fn arg_max(self, axis: i32) -> Output<'g>;
    /// The index of the first smallest element along `axis`, as `i64`; the dimension is removed.
    fn arg_min(self, axis: i32) -> Output<'g>;
    /// Half the sum of the squares of all elements: a scalar.
    fn l2_loss(self) -> Output<'g>;
}

#[track_caller]
fn constant<'g>(x: Output<'g>, value: impl Into<Tensor>) -> Output<'g> {
    gradient::constant(x.graph(), value)
}

#[track_caller]
fn reduce<'g>(op: &str, x: Output<'g>, axes: Output<'g>, keep_dims: bool) -> Output<'g> {
    let op = x.graph().op(op).input(x).input(axes);
    op.attr("keep_dims", keep_dims).output()
}

/// All axes; computed in the step if the rank is not known.
#[track_caller]
fn all_axes(x: Output<'_>) -> Output<'_> {
    if let Some(rank) = x.shape().rank() {
        return constant(x, (0..rank as i32).collect::<Vec<i32>>());
    }
    let rank = x.graph().op("Rank").input(x).output();
    let range = x.graph().op("Range").input(constant(x, 0)).input(rank);
    range.input(constant(x, 1)).output()
}

impl<'g> ReduceOps<'g> for Output<'g> {
    #[track_caller]
    fn reduce_sum(self, axes: &[i32], keep_dims: bool) -> Output<'g> {
        reduce("Sum", self, constant(self, axes), keep_dims)
    }

    #[track_caller]
    fn reduce_mean(self, axes: &[i32], keep_dims: bool) -> Output<'g> {
        reduce("Mean", self, constant(self, axes), keep_dims)
    }

    #[track_caller]
    fn reduce_prod(self, axes: &[i32], keep_dims: bool) -> Output<'g> {
        reduce("Prod", self, constant(self, axes), keep_dims)
    }

    #[track_caller]
    fn reduce_max(self, axes: &[i32], keep_dims: bool) -> Output<'g> {
        reduce("Max", self, constant(self, axes), keep_dims)
    }

    #[track_caller]
    fn reduce_min(self, axes: &[i32], keep_dims: bool) -> Output<'g> {
        reduce("Min", self, constant(self, axes), keep_dims)
    }

    #[track_caller]
    fn reduce_all(self, axes: &[i32], keep_dims: bool) -> Output<'g> {
        reduce("All", self, constant(self, axes), keep_dims)
    }

    #[track_caller]
    fn reduce_any(self, axes: &[i32], keep_dims: bool) -> Output<'g> {
        reduce("Any", self, constant(self, axes), keep_dims)
    }

    #[track_caller]
    fn sum(self) -> Output<'g> {
        reduce("Sum", self, all_axes(self), false)
    }

    #[track_caller]
    fn mean(self) -> Output<'g> {
        reduce("Mean", self, all_axes(self), false)
    }

    #[track_caller]
    fn arg_max(self, axis: i32) -> Output<'g> {
        let op = self.graph().op("ArgMax").input(self);
        op.input(constant(self, axis)).output()
    }

    #[track_caller]
    fn arg_min(self, axis: i32) -> Output<'g> {
        let op = self.graph().op("ArgMin").input(self);
        op.input(constant(self, axis)).output()
    }

    #[track_caller]
    fn l2_loss(self) -> Output<'g> {
        self.graph().op("L2Loss").input(self).output()
    }
}
