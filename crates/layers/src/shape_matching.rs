//! Matching of labels, predictions and weights: dtypes, and TensorFlow's rules for shapes that
//! differ by a last dimension of 1.

use thalweg_graph::{Output, Reason};
use thalweg_ops::ArrayOps;
use thalweg_tensor::{DType, Shape};

/// `x` cast to `dtype`; without a node if it has that dtype.
#[track_caller]
pub(crate) fn cast(x: Output<'_>, dtype: DType) -> Output<'_> {
    match x.dtype() == dtype {
        true => x,
        false => x.cast(dtype),
    }
}

/// Checks that both can have one shape; otherwise records a mistake for a node `name`.
#[track_caller]
pub(crate) fn check_same_shape(name: &str, labels: Output<'_>, predictions: Output<'_>) -> bool {
    let (of_labels, of_predictions) = (labels.shape(), predictions.shape());
    let fit = of_labels.merge(&of_predictions).is_some();
    if !fit {
        let text = format!(
            "the labels have shape {of_labels} and the predictions {of_predictions}: both must have the same shape"
        );
        let graph = predictions.graph();
        graph.report(&format!("{name}/labels"), name, Reason::Argument(text));
    }
    fit
}

/// Labels and predictions, with a last dimension of 1 removed from either if only that keeps the
/// rank of the predictions from being `more` above that of the labels
/// (`remove_squeezable_dimensions`).
#[track_caller]
pub(crate) fn squeeze_last_dimension<'g>(
    labels: Output<'g>,
    predictions: Output<'g>,
    more: usize,
) -> (Output<'g>, Output<'g>) {
    let ranks = (labels.shape().rank(), predictions.shape().rank());
    let (Some(rank), Some(rank_of_predictions)) = ranks else {
        return (labels, predictions);
    };
    if rank_of_predictions == rank + more + 1 && may_end_in_one(&predictions.shape()) {
        (labels, predictions.squeeze(&[-1]))
    } else if rank_of_predictions + 1 == rank + more && may_end_in_one(&labels.shape()) {
        (labels.squeeze(&[-1]), predictions)
    } else {
        (labels, predictions)
    }
}

fn may_end_in_one(shape: &Shape) -> bool {
    let dims = shape.dims().unwrap_or_default();
    dims.last().is_some_and(|d| d.is_none_or(|d| d == 1))
}

/// Weights for `values`, cast to `dtype`: a scalar, or of the same rank, with dimensions that are 1
/// or those of the values (`assert_broadcastable`). Other shapes are a mistake, recorded for a node
/// `name`; an unknown dimension is checked in the step.
#[track_caller]
pub(crate) fn check_broadcastable<'g>(
    name: &str,
    weights: Output<'g>,
    values: Output<'g>,
    dtype: DType,
) -> Output<'g> {
    let (of_weights, of_values) = (weights.shape(), values.shape());
    if weights.is_invalid() || values.is_invalid() {
        return weights.graph().invalid();
    }
    let fail = |why: &str| {
        let text =
            format!("weights of shape {of_weights} do not fit values of shape {of_values}: {why}");
        let graph = values.graph();
        graph.fail(&format!("{name}/weights"), name, Reason::Argument(text))
    };
    let (Some(own), Some(dims)) = (of_weights.dims(), of_values.dims()) else {
        return match of_weights.rank() {
            Some(0) => cast(weights, dtype),
            _ => fail("both ranks must be known: reshape them"),
        };
    };
    if own.is_empty() {
        return cast(weights, dtype);
    }
    if own.len() != dims.len() {
        return fail(
            "give a scalar, or weights of the same rank, with dimensions of 1 where all have one weight",
        );
    }
    let differ = |(w, v): (&Option<usize>, &Option<usize>)| {
        w.is_some_and(|w| w != 1 && v.is_some_and(|v| v != w))
    };
    if own.iter().zip(dims).any(differ) {
        return fail("each dimension must be 1 or that of the values");
    }
    let weights = cast(weights, dtype);
    let sure = |(w, v): (&Option<usize>, &Option<usize>)| *w == Some(1) || (w.is_some() && w == v);
    match own.iter().zip(dims).all(sure) {
        true => weights,
        // A product would broadcast values of one element to weights of several.
        false => weights.broadcast_to(values.shape_tensor()),
    }
}

/// As [`check_broadcastable`], for weights whose rank may also be one above or below that of `values`:
/// without or with a last dimension of 1.
#[track_caller]
pub(crate) fn fit_weights<'g>(
    name: &str,
    weights: Output<'g>,
    values: Output<'g>,
    dtype: DType,
) -> Output<'g> {
    let weights = match (weights.shape().rank(), values.shape().rank()) {
        (Some(0) | None, _) | (_, None) => weights,
        (Some(own), Some(rank)) if own == rank + 1 => weights.squeeze(&[-1]),
        (Some(own), Some(rank)) if own + 1 == rank => weights.expand_dims(-1),
        _ => weights,
    };
    check_broadcastable(name, weights, values, dtype)
}
