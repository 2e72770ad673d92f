//! Mean pairwise squared error.

use thalweg_graph::{Output, Value};
use thalweg_ops::{ArrayOps, MathOps, ReduceOps, SourceOps};

use super::collections::LOSSES;
use super::loss::{loss_dtype, nonzero};
use crate::shape_matching::{cast, check_broadcastable, check_same_shape};

/// The mean square of `d[i] - d[j]` over all pairs of elements of an example, where `d` is
/// `predictions - labels`, weighted and summed over the examples: a constant offset of an example
/// costs nothing. Labels and predictions are `[examples, ..]`.
///
/// It is TensorFlow's in all of its details. Weights are as for
/// [`Loss::weights`](super::Loss::weights); one for each example multiplies its loss. Elements with
/// a weight of 0 are excluded from the number of pairs, but not from the sums. The weighted losses
/// are summed over the examples, not averaged: a scalar, which is added to the graph's collection
/// [`LOSSES`].
#[track_caller]
pub fn mean_pairwise_squared_error<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
    weights: impl Into<Value<'g>>,
) -> Output<'g> {
    const SCOPE: &str = "mean_pairwise_squared_error";
    let (labels, predictions, weights) = (labels.into(), predictions.into(), weights.into());
    let graph = predictions.graph();
    let build = || {
        let (labels, weights) = (labels.on(graph), weights.on(graph));
        if !check_same_shape(SCOPE, labels, predictions) {
            return graph.invalid();
        }
        let dtype = loss_dtype(predictions);
        let difference = cast(predictions, dtype) - cast(labels, dtype);
        let each = check_broadcastable(SCOPE, weights, difference, dtype);
        let present = of_examples(nonzero(each, difference));
        loss(difference, present, cast(weights, dtype)).named("value")
    };
    let value = graph.at_caller(|| graph.name_scope(SCOPE, build));
    if !value.is_invalid() {
        graph.add_to_collection(LOSSES, value);
    }
    value
}

/// For n numbers, the mean square of the differences of all pairs is `2 (sum of squares - square of
/// the sum / n) / (n - 1)`; here n is the number of elements that are `present`.
fn loss<'g>(difference: Output<'g>, present: Output<'g>, weights: Output<'g>) -> Output<'g> {
    let zero = difference.constant_like(0);
    let others = (present - 1.0).maximum(zero);
    let squares = of_examples(difference.square()).div_no_nan(others);
    let pairs = (present * (present - 1.0)).maximum(zero);
    let square = of_examples(difference).square().div_no_nan(pairs);
    let weighted = (2.0 * squares - 2.0 * square) * weights;
    let some = present.sum().greater(zero);
    some.select(weighted.sum(), zero)
}

/// The sum over all dimensions but the first, which stay with a length of 1.
fn of_examples(x: Output<'_>) -> Output<'_> {
    match x.shape().rank() {
        Some(rank) => x.reduce_sum(&(1..rank as i32).collect::<Vec<_>>(), true),
        None => {
            let graph = x.graph();
            let axes = graph.range(1, x.rank_tensor(), 1);
            let node = graph.op("Sum").input(x).input(axes);
            node.attr("keep_dims", true).output()
        }
    }
}
