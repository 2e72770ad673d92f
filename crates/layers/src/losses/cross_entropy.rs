//! Cross entropies of labels and logits: softmax, sigmoid, sparse softmax.

use thalweg_graph::{Output, Reason, Value};
use thalweg_ops::{ArrayOps, MathOps, NnOps, SourceOps};
use thalweg_tensor::Shape;

use super::loss::{Loss, Reduction, loss_dtype};
use crate::shape_matching::{cast, squeeze_last_dimension};

/// A cross entropy with optional label smoothing. The other options are those of [`Loss`].
#[derive(Debug)]
#[must_use = "CrossEntropy::value gives the loss and adds it to the graph's losses"]
pub struct CrossEntropy<'g> {
    kind: CrossEntropyKind,
    labels: Value<'g>,
    logits: Output<'g>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrossEntropyKind {
    Softmax,
    Sigmoid,
}

impl<'g> CrossEntropy<'g> {
    /// Moves the labels by this share, from 0 to 1, towards a uniform distribution: those of a
    /// softmax towards `1 / classes`, those of a sigmoid towards 1/2 (Szegedy et al., 2015).
    #[track_caller]
    pub fn label_smoothing(self, share: f64) -> Loss<'g> {
        let graph = self.logits.graph();
        let kind = self.kind;
        if !(0.0..=1.0).contains(&share) {
            let text = format!("a label smoothing of {share}: it must be from 0 to 1");
            graph.report(kind.scope(), kind.scope(), Reason::Argument(text));
            return Loss::scoped(graph, kind.scope(), || graph.invalid());
        }
        let loss = Loss::of_pair(kind.scope(), self.labels, self.logits, |labels, logits| {
            let labels = match share == 0.0 {
                true => labels,
                false => labels * (1.0 - share) + kind.flat(labels, share),
            };
            match kind {
                CrossEntropyKind::Softmax => softmax(labels.stop_gradient(), logits),
                CrossEntropyKind::Sigmoid => sigmoid(labels, logits),
            }
        });
        loss.with_dtype_of(self.logits)
    }

    /// See [`Loss::weights`].
    #[track_caller]
    pub fn weights(self, weights: impl Into<Value<'g>>) -> Loss<'g> {
        self.label_smoothing(0.0).weights(weights)
    }

    /// See [`Loss::reduction`].
    #[track_caller]
    pub fn reduction(self, reduction: Reduction) -> Loss<'g> {
        self.label_smoothing(0.0).reduction(reduction)
    }

    /// See [`Loss::value`].
    #[track_caller]
    pub fn value(self) -> Output<'g> {
        self.label_smoothing(0.0).value()
    }
}

impl CrossEntropyKind {
    fn scope(self) -> &'static str {
        match self {
            CrossEntropyKind::Softmax => "softmax_cross_entropy_loss",
            CrossEntropyKind::Sigmoid => "sigmoid_cross_entropy_loss",
        }
    }

    /// `share` times the uniform label.
    fn flat(self, labels: Output<'_>, share: f64) -> Output<'_> {
        let classes = labels
            .shape()
            .dims()
            .and_then(|d| d.last().copied().flatten());
        match (self, classes) {
            (CrossEntropyKind::Sigmoid, _) => labels.constant_like(share / 2.0),
            (CrossEntropyKind::Softmax, Some(classes)) => {
                labels.constant_like(share / classes as f64)
            }
            (CrossEntropyKind::Softmax, None) => {
                share / last_dimension(labels).cast(labels.dtype())
            }
        }
    }
}

/// The cross entropy of each row of logits with a row of labels, which are the probabilities of
/// classes: one-hot rows, or others that sum to 1. Both are `[.., classes]`, and the losses `[..]`.
/// No gradient reaches the labels.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::losses::softmax_cross_entropy;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_session::{Feeding, Session};
/// use thalweg_tensor::DType;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let labels = g.constant([[0.0f32, 1.0], [1.0, 0.0]]);
/// let logits = g.placeholder("logits", DType::F32, [2, 2]);
/// let loss = softmax_cross_entropy(labels, logits).label_smoothing(0.1).value();
///
/// let session = Session::new(&g)?;
/// let step = session.step(loss, [logits.feed([[0.0f32, 0.0], [0.0, 0.0]])])?;
/// assert!((step.scalar::<f32>(0)? - 2.0f32.ln()).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
pub fn softmax_cross_entropy<'g>(
    labels: impl Into<Value<'g>>,
    logits: impl Into<Output<'g>>,
) -> CrossEntropy<'g> {
    CrossEntropy {
        kind: CrossEntropyKind::Softmax,
        labels: labels.into(),
        logits: logits.into(),
    }
}

/// The cross entropy of each logit with a label from 0 to 1, for classes that do not exclude each other:
/// `max(x, 0) - x z + log(1 + exp(-|x|))`, which does not overflow. Labels and logits have one shape, and
/// so have the losses.
pub fn sigmoid_cross_entropy<'g>(
    labels: impl Into<Value<'g>>,
    logits: impl Into<Output<'g>>,
) -> CrossEntropy<'g> {
    CrossEntropy {
        kind: CrossEntropyKind::Sigmoid,
        labels: labels.into(),
        logits: logits.into(),
    }
}

/// The cross entropy of each row of logits (`[.., classes]`) with a class (`[..]`, or `[.., 1]`; `i32` or
/// `i64`, from 0): `[..]`. Weights may have a last dimension of 1 too.
#[track_caller]
pub fn sparse_softmax_cross_entropy<'g>(
    labels: impl Into<Value<'g>>,
    logits: impl Into<Output<'g>>,
) -> Loss<'g> {
    let (labels, logits) = (labels.into(), logits.into());
    let graph = logits.graph();
    let build = || {
        let (labels, logits) = squeeze_last_dimension(labels.on(graph), logits, 1);
        let logits = cast(logits, loss_dtype(logits));
        let one_dimensional = labels.shape().rank() == Some(1);
        match one_dimensional {
            true => logits.sparse_softmax_cross_entropy(labels),
            false => {
                let classes = labels.reshape([-1]);
                let losses = rows(logits).sparse_softmax_cross_entropy(classes);
                losses
                    .reshape(dims(&labels.shape()).unwrap_or_else(|| labels.shape_tensor().into()))
            }
        }
    };
    let loss = Loss::scoped(graph, "sparse_softmax_cross_entropy_loss", build);
    loss.with_columns().with_dtype_of(logits)
}

fn sigmoid<'g>(labels: Output<'g>, logits: Output<'g>) -> Output<'g> {
    let zero = logits.constant_like(0);
    // At 0 the terms that are not differentiable take one side, so that their gradients add up to
    // the sigmoid's.
    let positive = logits.greater_equal(zero);
    let above = positive.select(logits, zero);
    let minus = positive.select(-logits, logits);
    above - logits * labels + minus.exp().log1p()
}

fn softmax<'g>(labels: Output<'g>, logits: Output<'g>) -> Output<'g> {
    let shape = logits.shape();
    if shape.rank() == Some(2) {
        return logits.softmax_cross_entropy(labels);
    }
    let losses = rows(logits).softmax_cross_entropy(rows(labels));
    let leading = shape.dims().and_then(|dims| {
        let (_, leading) = dims.split_last()?;
        self::dims(&Shape::partial(leading.iter().copied()))
    });
    losses.reshape(leading.unwrap_or_else(|| {
        let all = logits.shape_tensor();
        all.strided_slice([0], [-1], [1]).into()
    }))
}

/// `[.., classes]` as `[rows, classes]`.
fn rows(x: Output<'_>) -> Output<'_> {
    let classes = x.shape().dims().and_then(|d| d.last().copied().flatten());
    match classes
        .filter(|&c| c > 0)
        .and_then(|c| i64::try_from(c).ok())
    {
        Some(classes) => x.reshape([-1, classes]),
        None => {
            let graph = x.graph();
            let classes = last_dimension(x).reshape([1]);
            x.reshape(graph.concat(&[graph.constant([-1]), classes], 0))
        }
    }
}

/// The length of the last dimension, computed in the step: a scalar.
fn last_dimension(x: Output<'_>) -> Output<'_> {
    let graph = x.graph();
    let at = |v: i32| graph.constant([v]);
    let node = graph.op("StridedSlice").input(x.shape_tensor());
    let node = node.input(at(-1)).input(at(0)).input(at(1));
    node.attr("shrink_axis_mask", 1i64).output()
}

/// A shape for a reshape; `None` if that needs more than the number of the step's elements.
fn dims<'g>(shape: &Shape) -> Option<Value<'g>> {
    let dims = shape.dims()?;
    let unknown = dims.iter().filter(|d| d.is_none()).count();
    if unknown > 1 || (unknown == 1 && dims.contains(&Some(0))) {
        return None;
    }
    let dims: Option<Vec<i64>> = dims
        .iter()
        .map(|d| d.map_or(Some(-1), |d| i64::try_from(d).ok()))
        .collect();
    dims.map(Value::from)
}
