//! Confusion matrices, and mean intersection over union.

use thalweg_graph::{Output, Reason, Value};
use thalweg_ops::{ArrayOps, MathOps, ReduceOps, SourceOps};
use thalweg_tensor::DType;

use super::metric::MetricBuilder;
use crate::shape_matching::{cast, check_same_shape, fit_weights, squeeze_last_dimension};

/// The number of times that each label (a row) was predicted as each class (a column): `[classes,
/// classes]`, as `i32`.
///
/// Labels and predictions are integers from 0 to before `classes`, of one shape, except for a last
/// dimension of 1. A number out of range ends the step with an error.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::metrics::confusion_matrix;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let matrix = confusion_matrix([0, 1, 1], g.constant([0, 0, 1]), 2);
/// assert_eq!(Session::new(&g)?.run::<Vec<i32>>(matrix, [])?, [1, 0, 1, 1]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn confusion_matrix<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
    classes: usize,
) -> Output<'g> {
    const SCOPE: &str = "confusion_matrix";
    let (labels, predictions) = (labels.into(), predictions.into());
    let graph = predictions.graph();
    let build = || {
        matrix(
            SCOPE,
            labels.on(graph),
            predictions,
            None,
            (classes, DType::I32),
        )
    };
    graph.at_caller(|| graph.name_scope(SCOPE, build))
}

/// The sum of [`confusion_matrix`] over batches, weighted, as `f64`. Its variable is
/// `total_confusion_matrix`.
#[track_caller]
pub fn streaming_confusion_matrix<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
    classes: usize,
) -> MetricBuilder<'g> {
    let name = "confusion_matrix";
    streaming(name, labels.into(), predictions.into(), classes, |total| {
        total
    })
}

/// The mean over the classes of their intersection over union, as `f32`: of all elements with the
/// label or the prediction of a class, the share with both. A class without labels and predictions
/// does not count; without any class it is 0. Labels and predictions are as for
/// [`confusion_matrix`], of any shape. The variable is `total_confusion_matrix`.
///
/// TensorFlow's `update_op` of this metric is the matrix; [`Metric::updated`](super::Metric::updated) is
/// the mean, as for all metrics.
#[track_caller]
pub fn mean_iou<'g>(
    labels: impl Into<Value<'g>>,
    predictions: impl Into<Output<'g>>,
    classes: usize,
) -> MetricBuilder<'g> {
    streaming(
        "mean_iou",
        labels.into(),
        predictions.into(),
        classes,
        |total| {
            let sum = |axis| total.reduce_sum(&[axis], false).cast(DType::F32);
            let both = total.graph().op("DiagPart").input(total).output();
            let both = both.cast(DType::F32);
            let either = sum(0) + sum(1) - both;
            let (zero, one) = (either.constant_like(0), either.constant_like(1.0));
            let counted = either.not_equal(zero).cast(DType::F32).sum();
            let shares = both / either.greater(zero).select(either, one);
            let some = counted.greater(zero);
            some.select(shares.sum() / counted, zero)
        },
    )
}

fn streaming<'g>(
    name: &str,
    labels: Value<'g>,
    predictions: Output<'g>,
    classes: usize,
    result: impl Fn(Output<'g>) -> Output<'g> + 'g,
) -> MetricBuilder<'g> {
    let graph = predictions.graph();
    let sums = move |name: &str, weights: Option<Output<'g>>| {
        let kind = (classes, DType::F64);
        let matrix = matrix(name, labels.on(graph), predictions, weights, kind);
        vec![("total_confusion_matrix", matrix)]
    };
    MetricBuilder::new(graph, name, sums, move |sums| result(sums[0]))
}

fn matrix<'g>(
    name: &str,
    labels: Output<'g>,
    predictions: Output<'g>,
    weights: Option<Output<'g>>,
    (classes, dtype): (usize, DType),
) -> Output<'g> {
    let graph = predictions.graph();
    let (labels, predictions) = squeeze_last_dimension(labels, predictions, 0);
    if !check_same_shape(name, labels, predictions) {
        return graph.invalid();
    }
    let Ok(classes) = i64::try_from(classes) else {
        let text = format!("{classes} classes are more than an index counts");
        return graph.fail(name, name, Reason::Argument(text));
    };
    let flat = |x: Output<'g>| cast(x, DType::I64).reshape([-1]);
    let places = graph.stack(&[flat(labels), flat(predictions)], 1);
    let ones = cast(predictions, dtype).ones_like();
    let counts = match weights {
        Some(weights) => ones * fit_weights(name, weights, ones, dtype),
        None => ones,
    };
    let node = graph
        .op("ScatterNd")
        .input(places)
        .input(counts.reshape([-1]));
    node.input(graph.constant([classes, classes])).output()
}
