//! Weighting and reduction of losses to one number.

use thalweg_graph::{Graph, Output, Value};
use thalweg_ops::{ArrayOps, MathOps, ReduceOps};
use thalweg_tensor::DType;

use super::collections::LOSSES;
use crate::shape_matching::{cast, check_broadcastable, check_same_shape};

/// The reduction of weighted losses: TensorFlow's `losses.Reduction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reduction {
    /// None: they keep their shape.
    None,
    /// Their sum.
    Sum,
    /// Their sum, divided by the number of losses. (TensorFlow's name refers to the batch size, but
    /// it counts all losses.)
    SumOverBatchSize,
    /// Their sum, divided by the number of losses whose weight is not 0; TensorFlow calls it
    /// `SUM_BY_NONZERO_WEIGHTS` too.
    #[default]
    SumOverNonzeroWeights,
    /// Their sum, divided by the sum of the weights, of which each loss has one.
    Mean,
}

/// Losses of elements or examples before weighting and reduction.
///
/// Only the losses themselves are in the graph before [`Loss::value`].
#[derive(Debug)]
#[must_use = "Loss::value gives the loss and adds it to the graph's losses"]
pub struct Loss<'g> {
    losses: Output<'g>,
    /// The name scope of the result.
    scope: String,
    weights: Option<Value<'g>>,
    /// `true` if weights may have a last dimension of 1 that the losses do not have.
    columns: bool,
    reduction: Reduction,
    /// The dtype of the value; `None` for that of the losses.
    dtype: Option<DType>,
}

impl<'g> Loss<'g> {
    /// Builds losses with `build` in a name scope of its own.
    #[track_caller]
    pub(super) fn scoped(
        graph: &'g Graph,
        scope: &str,
        build: impl FnOnce() -> Output<'g>,
    ) -> Loss<'g> {
        let losses = graph.at_caller(|| graph.name_scope(scope, build));
        let name = losses.operation().name();
        // The result is beside the losses.
        let scope = match name.rsplit_once('/') {
            Some((scope, _)) => format!("{scope}/"),
            None => scope.to_owned(),
        };
        Loss {
            losses,
            scope,
            weights: None,
            columns: false,
            reduction: Reduction::default(),
            dtype: None,
        }
    }

    /// Builds losses with `unreduced` from labels and predictions of one shape, in that order and
    /// in the dtype of the losses.
    #[track_caller]
    pub(super) fn of_pair(
        scope: &str,
        labels: Value<'g>,
        predictions: Output<'g>,
        unreduced: impl FnOnce(Output<'g>, Output<'g>) -> Output<'g>,
    ) -> Loss<'g> {
        let graph = predictions.graph();
        Loss::scoped(graph, scope, || {
            let labels = labels.on(graph);
            if !check_same_shape(scope, labels, predictions) {
                return graph.invalid();
            }
            let dtype = loss_dtype(predictions);
            unreduced(cast(labels, dtype), cast(predictions, dtype))
        })
    }

    /// Gives its value the dtype of the logits, as TensorFlow's cross entropies do.
    pub(super) fn with_dtype_of(self, logits: Output<'g>) -> Loss<'g> {
        let dtype = (!logits.is_invalid()).then(|| logits.dtype());
        Loss { dtype, ..self }
    }

    /// Accepts weights with a last dimension of 1 that the losses do not have.
    pub(super) fn with_columns(self) -> Loss<'g> {
        Loss {
            columns: true,
            ..self
        }
    }

    /// Multiplies each loss by its weight: a number for all, or a tensor of the rank of the losses whose
    /// dimensions are 1 or theirs. Without weights all are 1.
    ///
    /// Gradients reach weights that depend on variables; `stop_gradient` keeps them away.
    pub fn weights(self, weights: impl Into<Value<'g>>) -> Loss<'g> {
        let weights = Some(weights.into());
        Loss { weights, ..self }
    }

    /// Sets the reduction of the weighted losses; [`Reduction::SumOverNonzeroWeights`] by default.
    pub fn reduction(self, reduction: Reduction) -> Loss<'g> {
        Loss { reduction, ..self }
    }

    /// The weighted and reduced loss: a scalar, or of the shape of the losses for
    /// [`Reduction::None`]. It is added to the graph's collection [`LOSSES`].
    ///
    /// A quotient with a divisor of 0 is 0. Weights that do not fit are a mistake, which the graph
    /// keeps.
    #[track_caller]
    pub fn value(self) -> Output<'g> {
        let graph = self.losses.graph();
        let scope = self.scope.clone();
        let dtype = self.dtype;
        let reduced = || {
            let reduced = self.reduced();
            let value = dtype.filter(|_| !reduced.is_invalid());
            value.map_or(reduced, |d| cast(reduced, d)).named("value")
        };
        let value = graph.at_caller(|| graph.name_scope(&scope, reduced));
        if !value.is_invalid() {
            graph.add_to_collection(LOSSES, value);
        }
        value
    }

    fn reduced(self) -> Output<'g> {
        let (losses, reduction) = (self.losses, self.reduction);
        let weights = self.weights.map(|weights| {
            let mut weights = weights.on(losses.graph());
            let ranks = (weights.shape().rank(), losses.shape().rank());
            if let (Some(own), Some(rank)) = ranks
                && self.columns
                && own == rank + 1
            {
                weights = weights.squeeze(&[-1]);
            }
            check_broadcastable(
                self.scope.trim_end_matches('/'),
                weights,
                losses,
                losses.dtype(),
            )
        });
        let weighted = weights.map_or(losses, |weights| losses * weights);
        let number = || losses.size_tensor().cast(losses.dtype());
        match reduction {
            Reduction::None => weighted,
            Reduction::Sum => weighted.sum(),
            Reduction::SumOverBatchSize => weighted.sum().div_no_nan(number()),
            Reduction::SumOverNonzeroWeights => {
                let present = weights.map_or_else(number, |w| nonzero(w, losses).sum());
                weighted.sum().div_no_nan(present)
            }
            Reduction::Mean => {
                let weight = weights.map_or_else(number, |w| (losses.ones_like() * w).sum());
                weighted.sum().div_no_nan(weight)
            }
        }
    }
}

/// 1 for each of `losses` with a weight other than 0, and 0 for the others.
#[track_caller]
pub(super) fn nonzero<'g>(weights: Output<'g>, losses: Output<'g>) -> Output<'g> {
    let present = weights.not_equal(weights.constant_like(0));
    let present = present.cast(losses.dtype());
    present.broadcast_to(losses.shape_tensor())
}

/// The dtype in which the losses of these predictions are computed.
pub(super) fn loss_dtype(predictions: Output<'_>) -> DType {
    match predictions.dtype() {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// Losses computed by the caller, one number for each element or example, of any shape
/// (`tf.compat.v1.losses.compute_weighted_loss`).
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::losses::{Reduction, compute_weighted_loss};
/// use thalweg_ops::{MathOps, NewGraph, SourceOps};
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let errors = g.constant([[1.0f32, 2.0], [3.0, 4.0]]);
/// // One weight for each row.
/// let loss = compute_weighted_loss(errors.square())
///     .weights([[1.0f32], [0.5]])
///     .reduction(Reduction::Sum)
///     .value();
/// assert_eq!(Session::new(&g)?.run::<f32>(loss, [])?, 17.5);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn compute_weighted_loss<'g>(losses: impl Into<Output<'g>>) -> Loss<'g> {
    let losses = losses.into();
    Loss {
        losses: cast(losses, loss_dtype(losses)),
        scope: "weighted_loss".to_owned(),
        weights: None,
        columns: false,
        reduction: Reduction::default(),
        dtype: (!losses.is_invalid()).then(|| losses.dtype()),
    }
}
