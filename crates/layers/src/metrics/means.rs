//! Metrics that are means over elements: mean, accuracy, mean squared error, top-k.

use thalweg_graph::{Graph, Output, Value};
use thalweg_ops::{ArrayOps, MathOps, ReduceOps, SourceOps};
use thalweg_tensor::DType;

use super::metric::MetricBuilder;
use crate::shape_matching::{cast, check_same_shape, fit_weights, squeeze_last_dimension};

/// The mean of `values`, of any shape: their weighted sum over the sum of their weights, or 0 if
/// that is not positive. An `f32`, as its variables `total` and `count` are.
#[track_caller]
pub fn mean<'g>(values: impl Into<Output<'g>>) -> MetricBuilder<'g> {
    let values = values.into();
    of("mean", values.graph(), move |_| values)
}

/// The share of predictions that equal their labels. Both have one shape, except for a last
/// dimension of 1; predictions are cast to the dtype of the labels.
#[track_caller]
pub fn accuracy<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
) -> MetricBuilder<'g> {
    let (labels, predictions) = (labels.into(), predictions.into());
    let graph = predictions.graph();
    of("accuracy", graph, move |name| {
        let (labels, predictions) = squeeze_last_dimension(labels.on(graph), predictions, 0);
        match check_same_shape(name, labels, predictions) {
            true => cast(predictions, labels.dtype()).equal(labels),
            false => graph.invalid(),
        }
    })
}

/// The mean of `(predictions - labels)²`. Both have one shape, except for a last dimension of 1.
#[track_caller]
pub fn mean_squared_error<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
) -> MetricBuilder<'g> {
    let (labels, predictions) = (labels.into(), predictions.into());
    let graph = predictions.graph();
    of("mean_squared_error", graph, move |name| {
        let (labels, predictions) = squeeze_last_dimension(labels.on(graph), predictions, 0);
        match check_same_shape(name, labels, predictions) {
            true => cast(labels, predictions.dtype()).squared_difference(predictions),
            false => graph.invalid(),
        }
    })
}

/// The share of rows of predictions (`[rows, classes]`) whose label (`[rows]`, `i32` or `i64`) is
/// among the classes of the `k` largest predictions, as `tf.nn.in_top_k` finds them: a prediction
/// that equals the smallest of them counts, and a row with a prediction that is not finite does
/// not.
#[track_caller]
pub fn top_k<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
    k: i32,
) -> MetricBuilder<'g> {
    let (labels, predictions) = (labels.into(), predictions.into());
    let graph = predictions.graph();
    of("top_k", graph, move |_| {
        let labels = labels.on(graph);
        let node = graph.op("InTopKV2").input(cast(predictions, DType::F32));
        let k = cast(graph.constant(k), labels.dtype());
        node.input(labels).input(k).output()
    })
}

/// The mean of the elements that `values` builds, which gets the metric's name.
fn of<'g>(
    name: &str,
    graph: &'g Graph,
    values: impl FnOnce(&str) -> Output<'g> + 'g,
) -> MetricBuilder<'g> {
    let sums = |name: &str, weights: Option<Output<'g>>| {
        let values = cast(values(name), DType::F32);
        let Some(weights) = weights else {
            let count = values.size_tensor().cast(DType::F32);
            return vec![("total", values.sum()), ("count", count)];
        };
        let weights = fit_weights(name, weights, values, DType::F32);
        let count = (values.ones_like() * weights).sum();
        vec![("total", (values * weights).sum()), ("count", count)]
    };
    MetricBuilder::new(graph, name, sums, |sums| {
        let count = sums[1].maximum(sums[1].constant_like(0));
        sums[0].div_no_nan(count)
    })
}
