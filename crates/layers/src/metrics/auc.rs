//! AUC: the area under a curve of two rates, over all thresholds.

use thalweg_graph::{Graph, Output, Value};
use thalweg_ops::{ArrayOps, MathOps, ReduceOps, SourceOps};
use thalweg_tensor::DType;

use super::metric::{MetricBuilder, Sums};
use crate::shape_matching::{cast, check_same_shape, fit_weights, squeeze_last_dimension};

/// The curve of [`auc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Curve {
    /// The receiver operating characteristic: the rate of true positives over that of false positives.
    #[default]
    Roc,
    /// Precision over recall. The trapezoidal rule, which is TensorFlow's default for both curves, is too
    /// optimistic for it (Davis and Goadrich, 2006).
    Pr,
}

/// TensorFlow's number of thresholds.
const THRESHOLDS: usize = 200;

/// The distance of the first and the last threshold below 0 and above 1.
const THRESHOLD_MARGIN: f64 = 1e-7;

/// Keeps rates from being divided by 0.
const EPSILON: f64 = 1e-6;

/// The approximate area under a [`Curve`] by the trapezoidal rule, with TensorFlow's 200 thresholds from 0
/// to 1.
///
/// Labels are bools, or numbers of which all but 0 are true. Predictions are probabilities: one
/// below 0 or above 1 ends the step with an error. Both have one shape, except for a last dimension
/// of 1. The variables are `true_positives`, `false_negatives`, `true_negatives` and
/// `false_positives`, with an element for each threshold.
#[track_caller]
pub fn auc<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
    curve: Curve,
) -> MetricBuilder<'g> {
    let (labels, predictions) = (labels.into(), predictions.into());
    let graph = predictions.graph();
    let sums = move |name: &str, weights: Option<Output<'g>>| {
        let labels = cast(labels.on(graph), DType::Bool);
        let predictions = probabilities(predictions);
        let (labels, predictions) = squeeze_last_dimension(labels, predictions, 0);
        if !check_same_shape(name, labels, predictions) {
            return vec![("true_positives", graph.invalid())];
        }
        let weights = weights.map(|w| {
            let weights = fit_weights(name, w, predictions, DType::F32);
            predictions.ones_like() * weights
        });
        counts(labels, predictions, weights)
    };
    MetricBuilder::new(graph, "auc", sums, move |sums| area(curve, sums))
}

/// The predictions as `f32`, after a check that they are from 0 to 1.
fn probabilities(predictions: Output<'_>) -> Output<'_> {
    let graph = predictions.graph();
    let predictions = cast(predictions, DType::F32);
    let number = |v| predictions.constant_like(v);
    let within = predictions
        .greater_equal(number(0.0))
        .logical_and(predictions.less_equal(number(1.0)));
    let all = graph.op("All").input(within.reshape([-1]));
    let check = graph
        .op("Assert")
        .input(all.input(graph.constant(0)).output())
        .input(graph.constant("predictions must be from 0 to 1"))
        .input(predictions)
        .build();
    graph.control_dependencies([check], || predictions.named("predictions"))
}

/// For each threshold, the number of elements of each combination of label and prediction above it.
fn counts<'g>(
    labels: Output<'g>,
    predictions: Output<'g>,
    weights: Option<Output<'g>>,
) -> Sums<'g> {
    let graph = predictions.graph();
    let row = |x: Output<'g>| x.reshape([1, -1]);
    let (labels, positive) = (row(labels), row(predictions).greater(thresholds(graph)));
    let (negative, weights) = (positive.logical_not(), weights.map(row));
    let count = |label: Output<'g>, prediction: Output<'g>| {
        let one = label.logical_and(prediction).cast(DType::F32);
        weights.map_or(one, |w| one * w).reduce_sum(&[1], false)
    };
    vec![
        ("true_positives", count(labels, positive)),
        ("false_negatives", count(labels, negative)),
        ("true_negatives", count(labels.logical_not(), negative)),
        ("false_positives", count(labels.logical_not(), positive)),
    ]
}

/// A column of thresholds, evenly from 0 to 1; the outer ones are beyond, so that all predictions
/// are above the first and none is above the last.
fn thresholds(graph: &Graph) -> Output<'_> {
    let last = THRESHOLDS - 1;
    let at = |i: usize| match i {
        0 => -THRESHOLD_MARGIN,
        i if i == last => 1.0 + THRESHOLD_MARGIN,
        i => i as f64 / last as f64,
    };
    let all: Vec<f32> = (0..THRESHOLDS).map(|i| at(i) as f32).collect();
    graph.constant(all).reshape([-1, 1])
}

fn area<'g>(curve: Curve, sums: &[Output<'g>]) -> Output<'g> {
    let [tp, fn_, tn, fp] = [0, 1, 2, 3].map(|i| sums[i]);
    let recall = (tp + EPSILON) / (tp + fn_ + EPSILON);
    let (x, y) = match curve {
        Curve::Roc => (fp / (fp + tn + EPSILON), recall),
        Curve::Pr => (recall, (tp + EPSILON) / (tp + fp + EPSILON)),
    };
    let ends = |of: Output<'g>| {
        let part = |from: i32| of.slice([from], [THRESHOLDS as i32 - 1]);
        (part(0), part(1))
    };
    let ((x, next_x), (y, next_y)) = (ends(x), ends(y));
    ((x - next_x) * ((y + next_y) / 2.0)).sum()
}
