//! Elementwise losses of predictions: absolute difference, squared error, Huber, hinge, cosine
//! distance, log loss.

use thalweg_graph::{Output, Value};
use thalweg_ops::{MathOps, NnOps, ReduceOps};

use super::loss::Loss;

/// `|predictions - labels|`. Labels and predictions have one shape, and so have the losses.
#[track_caller]
pub fn absolute_difference<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
) -> Loss<'g> {
    let (labels, predictions) = (labels.into(), predictions.into());
    Loss::of_pair(
        "absolute_difference",
        labels,
        predictions,
        |labels, predictions| (predictions - labels).abs(),
    )
}

/// `(predictions - labels)²`. Labels and predictions have one shape, and so have the losses.
#[track_caller]
pub fn mean_squared_error<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
) -> Loss<'g> {
    let (labels, predictions) = (labels.into(), predictions.into());
    Loss::of_pair(
        "mean_squared_error",
        labels,
        predictions,
        |labels, predictions| predictions.squared_difference(labels),
    )
}

/// Half the square of a difference of at most `delta`, and linear beyond: `delta |d| - delta² / 2`
/// (Huber, 1964). TensorFlow's default `delta` is 1. Labels and predictions have one shape, and so
/// have the losses.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::losses::{Reduction, huber_loss};
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let predictions = g.constant([1.0f32, 10.0]);
/// let loss = huber_loss([0.0f32, 0.0], predictions, 2.0);
/// let losses = loss.reduction(Reduction::None).value();
/// assert_eq!(Session::new(&g)?.run::<Vec<f32>>(losses, [])?, [0.5, 18.0]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn huber_loss<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
    delta: f64,
) -> Loss<'g> {
    let (labels, predictions) = (labels.into(), predictions.into());
    Loss::of_pair("huber_loss", labels, predictions, |labels, predictions| {
        let error = (predictions - labels).abs();
        let quadratic = error.minimum(error.constant_like(delta));
        // This has no gradient at an error of `delta`: the square has it already.
        let linear = error - quadratic;
        0.5 * (quadratic * quadratic) + delta * linear
    })
}

/// `max(0, 1 - y logits)`, where `y` is -1 for a label of 0 and 1 for a label of 1. Labels and logits
/// have one shape, and so have the losses.
#[track_caller]
pub fn hinge_loss<'g>(labels: impl Into<Value<'g>>, logits: impl Into<Output<'g>>) -> Loss<'g> {
    let (labels, logits) = (labels.into(), logits.into());
    Loss::of_pair("hinge_loss", labels, logits, |labels, logits| {
        (1.0 - (2.0 * labels - 1.0) * logits).relu()
    })
}

/// One minus the sum of the products of labels and predictions along `axis`: for vectors of length
/// 1, their cosine distance. Vectors are not normalized here. A negative `axis` counts from the
/// end. Along it the losses have a length of 1.
#[track_caller]
pub fn cosine_distance<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
    axis: i32,
) -> Loss<'g> {
    let (labels, predictions) = (labels.into(), predictions.into());
    Loss::of_pair(
        "cosine_distance_loss",
        labels,
        predictions,
        |labels, predictions| 1.0 - (predictions * labels).reduce_sum(&[axis], true),
    )
}

/// `-labels log(predictions + epsilon) - (1 - labels) log(1 - predictions + epsilon)`: the cross
/// entropy of probabilities. TensorFlow's default `epsilon` is 1e-7. Labels and predictions have
/// one shape, and so have the losses.
///
/// For logits, [`sigmoid_cross_entropy`](super::sigmoid_cross_entropy) returns the same and is
/// exact for large ones.
#[track_caller]
pub fn log_loss<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
    epsilon: f64,
) -> Loss<'g> {
    let (labels, predictions) = (labels.into(), predictions.into());
    Loss::of_pair("log_loss", labels, predictions, |labels, predictions| {
        let yes = -(labels * (predictions + epsilon).log());
        yes - (1.0 - labels) * (1.0 - predictions + epsilon).log()
    })
}
