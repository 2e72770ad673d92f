//! `Metric`: variables that accumulate over batches, and the result computed from them.

use std::fmt;

use thalweg_graph::{Graph, Operation, Output, Reason, Value};
use thalweg_ops::{StateOps, Variable};
use thalweg_tensor::Tensor;

/// The collection of the variables of metrics: TensorFlow's `GraphKeys.METRIC_VARIABLES`.
pub const METRIC_VARIABLES: &str = "metric_variables";

/// A result over all batches added so far.
///
/// In a step that runs the update too, [`Metric::value`] is the result without that step's batch,
/// and [`Metric::updated`] the one with it.
#[derive(Clone, Copy, Debug)]
pub struct Metric<'g> {
    value: Output<'g>,
    updated: Output<'g>,
    update: Operation<'g>,
    reset: Operation<'g>,
}

impl<'g> Metric<'g> {
    /// The result of the batches that earlier steps have added.
    pub fn value(self) -> Output<'g> {
        self.value
    }

    /// Adds a batch.
    pub fn update(self) -> Operation<'g> {
        self.update
    }

    /// Adds a batch and returns the result with it: TensorFlow's `update_op`.
    pub fn updated(self) -> Output<'g> {
        self.updated
    }

    /// Resets the metric. It must not run in a step with the update.
    pub fn reset(self) -> Operation<'g> {
        self.reset
    }
}

/// The sums of a metric over batches: the name of each variable and the summand of a batch.
pub(super) type Sums<'g> = Vec<(&'static str, Output<'g>)>;

/// Builds the sums of a batch from the metric's name and its weights.
type Summing<'g> = dyn FnOnce(&str, Option<Output<'g>>) -> Sums<'g> + 'g;

/// Builds the result from the sums over all batches, which are in the order of a batch's.
type Resulting<'g> = dyn Fn(&[Output<'g>]) -> Output<'g> + 'g;

/// A metric that may be weighted and named before it is built.
#[must_use = "MetricBuilder::build gives the metric"]
pub struct MetricBuilder<'g> {
    graph: &'g Graph,
    name: String,
    weights: Option<Value<'g>>,
    sums: Box<Summing<'g>>,
    result: Box<Resulting<'g>>,
}

impl<'g> MetricBuilder<'g> {
    /// Both functions build in the metric's name scope; `result` is called twice.
    pub(super) fn new(
        graph: &'g Graph,
        name: &str,
        sums: impl FnOnce(&str, Option<Output<'g>>) -> Sums<'g> + 'g,
        result: impl Fn(&[Output<'g>]) -> Output<'g> + 'g,
    ) -> MetricBuilder<'g> {
        MetricBuilder {
            graph,
            name: name.to_owned(),
            weights: None,
            sums: Box::new(sums),
            result: Box::new(result),
        }
    }

    /// Sets the weight of each element: a number for all, or a tensor of the rank of the elements
    /// whose dimensions are 1 or theirs. A last dimension of 1 may be missing, or be additional.
    /// Without weights each element counts 1.
    pub fn weights(self, weights: impl Into<Value<'g>>) -> MetricBuilder<'g> {
        let weights = Some(weights.into());
        MetricBuilder { weights, ..self }
    }

    /// Sets the name of the scope of the metric and its variables. If taken it is made unique
    /// (`accuracy_1`).
    pub fn named(self, name: &str) -> MetricBuilder<'g> {
        let name = name.to_owned();
        MetricBuilder { name, ..self }
    }

    /// Builds the metric. Its variables are in the collection [`METRIC_VARIABLES`], as their
    /// values; they are not trainable.
    #[track_caller]
    pub fn build(self) -> Metric<'g> {
        let graph = self.graph;
        let name = self.name.clone();
        graph.at_caller(|| graph.name_scope(&name, || self.parts()))
    }

    fn parts(self) -> Metric<'g> {
        let (graph, result) = (self.graph, self.result);
        let weights = self.weights.map(|w| w.on(graph));
        let sums = (self.sums)(&self.name, weights);
        let zeros = sums.iter().map(|(name, sum)| (*name, *sum, zeros(*sum)));
        let zeros: Vec<_> = zeros.collect();
        let mut variables: Vec<Variable<'g>> = Vec::new();
        for (name, sum, zeros) in zeros {
            let Some(zeros) = zeros else {
                return none(graph, name, sum);
            };
            let variable = graph.untrained_variable(name, zeros);
            graph.add_to_collection(METRIC_VARIABLES, variable.value());
            variables.push(variable);
        }
        let values: Vec<_> = variables.iter().map(|v| v.value()).collect();
        let value = result(&values).named("value");
        let updates = variables.iter().zip(&sums);
        let updates: Vec<_> = updates.map(|(v, (_, sum))| v.assign_add(*sum)).collect();
        let updated = graph.control_dependencies(updates.iter().copied(), || {
            let values: Vec<_> = variables.iter().map(|v| v.read()).collect();
            result(&values).named("update_op")
        });
        Metric {
            value,
            updated,
            update: graph.group("update", updates),
            reset: graph.group("reset", variables.iter().map(|v| v.initializer())),
        }
    }
}

impl fmt::Debug for MetricBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricBuilder")
            .field("name", &self.name)
            .field("weights", &self.weights)
            .finish_non_exhaustive()
    }
}

/// The initial value of a variable that sums up outputs like this one.
fn zeros(sum: Output<'_>) -> Option<Tensor> {
    let dims = sum.shape().to_dims()?;
    Tensor::zeros(sum.dtype(), &dims).ok()
}

/// Stand-in for a metric that could not be built.
fn none<'g>(graph: &'g Graph, name: &str, sum: Output<'g>) -> Metric<'g> {
    if !sum.is_invalid() {
        let text = format!(
            "a sum of shape {}: a variable needs a known one",
            sum.shape()
        );
        graph.report(name, "VarHandleOp", Reason::Argument(text));
    }
    let invalid = graph.invalid();
    Metric {
        value: invalid,
        updated: invalid,
        update: invalid.operation(),
        reset: invalid.operation(),
    }
}
