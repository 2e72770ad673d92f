//! Metrics of two classes: precision, recall.

use thalweg_graph::{Output, Value};
use thalweg_ops::{ArrayOps, MathOps, ReduceOps};
use thalweg_tensor::DType;

use super::metric::MetricBuilder;
use crate::shape_matching::{cast, check_same_shape, fit_weights, squeeze_last_dimension};

/// The share of true predictions whose label is true; 0 if there are none.
///
/// Labels and predictions have one shape, except for a last dimension of 1. They are bools, or
/// numbers of which all but 0 are true. The variables are `true_positives/count` and
/// `false_positives/count`.
#[track_caller]
pub fn precision<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
) -> MetricBuilder<'g> {
    let wrong = ("false_positives/count", Misclassified::Predicted);
    share("precision", labels.into(), predictions.into(), wrong)
}

/// The share of true labels whose prediction is true; 0 if there are none.
///
/// Labels and predictions are as for [`precision`]. The variables are `true_positives/count` and
/// `false_negatives/count`.
#[track_caller]
pub fn recall<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
) -> MetricBuilder<'g> {
    let wrong = ("false_negatives/count", Misclassified::Missed);
    share("recall", labels.into(), predictions.into(), wrong)
}

/// The kind of mistakes that are counted.
#[derive(Clone, Copy)]
enum Misclassified {
    /// False positives: the prediction alone is true.
    Predicted,
    /// False negatives: the label alone is true.
    Missed,
}

/// The share of true positives among these and the mistakes of a kind.
fn share<'g>(
    name: &str,
    labels: Value<'g>,
    predictions: Output<'g>,
    (variable, wrong): (&'static str, Misclassified),
) -> MetricBuilder<'g> {
    let graph = predictions.graph();
    let sums = move |name: &str, weights: Option<Output<'g>>| {
        let (labels, predictions) = squeeze_last_dimension(labels.on(graph), predictions, 0);
        if !check_same_shape(name, labels, predictions) {
            return vec![("true_positives/count", graph.invalid())];
        }
        let (labels, predictions) = (cast(labels, DType::Bool), cast(predictions, DType::Bool));
        let weights = weights.map(|w| fit_weights(name, w, labels, DType::F32));
        let count = |of: Output<'g>| {
            let one = of.cast(DType::F32);
            weights.map_or(one, |w| one * w).sum()
        };
        let wrong = match wrong {
            Misclassified::Predicted => predictions.logical_and(labels.logical_not()),
            Misclassified::Missed => labels.logical_and(predictions.logical_not()),
        };
        vec![
            (
                "true_positives/count",
                count(labels.logical_and(predictions)),
            ),
            (variable, count(wrong)),
        ]
    };
    MetricBuilder::new(graph, name, sums, |sums| {
        let all = sums[0] + sums[1];
        let zero = all.constant_like(0);
        all.greater(zero).select(sums[0] / all, zero)
    })
}
