//! Summary of a model: its layers, with their shapes and numbers of parameters.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use thalweg_graph::{Graph, NodeId, OutputId};
use thalweg_tensor::Shape;
use thalweg_tensor::text::grouped;

/// A layer of a [`ModelSummary`]: the variables of one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSummary {
    /// Its scope, or the name of a variable without one.
    pub name: String,
    /// The op and the shape of the node that stands last in the scope: what the layer gives. `None` if only variables
    /// stand there.
    pub output: Option<(String, Shape)>,
    /// The variables, by the rest of their names, with their shapes.
    pub variables: Vec<(String, Shape)>,
    /// Number of elements of the variables that are trained.
    pub trained: usize,
    /// Number of elements of its other variables, as moving averages.
    pub untrained: usize,
}

/// The layers that have variables, in the order in which they were built. [`Display`](fmt::Display) is a table.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Layer, ModelSummary, Weights, conv2d, dense};
/// use thalweg_ops::{ArrayOps, NewGraph, SourceOps};
/// use thalweg_tensor::DType;
///
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [-1, 8, 8, 3]);
/// let h = conv2d(16, 3).named("conv").on(x).reshape([-1, 6 * 6 * 16]);
/// dense(10).on(h);
/// let summary = ModelSummary::of(&g);
/// assert_eq!(
///     summary.to_string(),
///     "\
/// layer  output              parameters  variables
/// conv   BiasAdd [?,6,6,16]         448  kernel [3,3,3,16], bias [16]
/// dense  BiasAdd [?,10]           5,770  kernel [576,10], bias [10]
/// 6,218 parameters, 6,218 of them trained
/// "
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSummary {
    /// The layers.
    pub layers: Vec<LayerSummary>,
    /// Number of elements of the variables that training keeps beside the layers: those whose names continue another
    /// variable's (slots of optimizers), and untrained ones without a scope (the global step).
    pub training_state: usize,
}

impl ModelSummary {
    /// Reads the layers of a graph from its variables.
    pub fn of(graph: &Graph) -> ModelSummary {
        let data = graph.snapshot();
        let variables = data.variables();
        let mut summary = ModelSummary {
            layers: Vec::new(),
            training_state: 0,
        };
        let mut index: BTreeMap<&str, usize> = BTreeMap::new();
        for variable in variables {
            let name = &*variable.name;
            let shape = data
                .fact(variable.value)
                .map_or_else(Shape::unknown, |f| f.shape.clone());
            let elements = shape.to_dims().map_or(0, |dims| dims.iter().product());
            let owner = |other: &str| {
                let rest = name.strip_prefix(other);
                rest.is_some_and(|rest| rest.starts_with('/'))
            };
            let counts = !variable.trainable && !name.contains('/');
            if counts || variables.iter().any(|v| owner(&v.name)) {
                summary.training_state += elements;
                continue;
            }
            let (scope, rest) = name.rsplit_once('/').unwrap_or((name, name));
            let at = *index.entry(scope).or_insert_with(|| {
                summary.layers.push(LayerSummary {
                    name: scope.to_owned(),
                    output: None,
                    variables: Vec::new(),
                    trained: 0,
                    untrained: 0,
                });
                summary.layers.len() - 1
            });
            let layer = &mut summary.layers[at];
            layer.variables.push((rest.to_owned(), shape));
            match variable.trainable {
                true => layer.trained += elements,
                false => layer.untrained += elements,
            }
        }
        // A variable without a scope has no layer around it: what its name begins are its own nodes.
        index.retain(|scope, _| variables.iter().all(|v| v.name != *scope));
        let own: HashSet<NodeId> = variables.iter().map(|v| v.handle.node).collect();
        for (id, node) in data.nodes() {
            let scope = node.name.rsplit_once('/').map(|(scope, _)| scope);
            if let Some(&at) = scope.and_then(|s| index.get(s))
                && !own.contains(&id)
                && let Some(fact) = data.fact(OutputId { node: id, index: 0 })
            {
                summary.layers[at].output = Some((node.op.name.to_owned(), fact.shape.clone()));
            }
        }
        summary
    }

    /// Number of elements of the variables that are trained.
    pub fn trained(&self) -> usize {
        self.layers.iter().map(|l| l.trained).sum()
    }

    /// Number of elements of all variables of layers.
    pub fn parameters(&self) -> usize {
        self.layers.iter().map(|l| l.trained + l.untrained).sum()
    }
}

impl fmt::Display for ModelSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles = ["layer", "output", "parameters", "variables"].map(str::to_owned);
        let mut rows = vec![titles];
        for layer in &self.layers {
            let output = layer.output.as_ref();
            let variables = layer
                .variables
                .iter()
                .map(|(name, shape)| format!("{name} {shape}"));
            rows.push([
                layer.name.clone(),
                output.map_or_else(String::new, |(op, shape)| format!("{op} {shape}")),
                grouped(layer.trained + layer.untrained),
                variables.collect::<Vec<_>>().join(", "),
            ]);
        }
        let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max();
        let [name, output, number] = [0, 1, 2].map(|c| width(c).unwrap_or(0));
        for [a, b, c, d] in &rows {
            writeln!(f, "{a:name$}  {b:output$}  {c:>number$}  {d}")?;
        }
        let (all, trained) = (grouped(self.parameters()), grouped(self.trained()));
        write!(f, "{all} parameters, {trained} of them trained")?;
        if self.training_state > 0 {
            write!(
                f,
                "; {} numbers that training keeps",
                grouped(self.training_state)
            )?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use thalweg_ops::{MathOps, NewGraph, StateOps};

    use super::*;

    #[test]
    fn state_of_the_training_is_no_layer() {
        let g = Graph::new();
        let w = g.variable("w", [1.0f32; 1234]);
        let _ = w.square();
        let _ = g.variable("net/bias", [1.0f32; 2]);
        let _ = g.untrained_variable("net/average", [1.0f32; 3]);
        let _ = g.untrained_variable("w/Momentum", [1.0f32; 1234]);
        let _ = g.untrained_variable("global_step", 0i64);
        let summary = ModelSummary::of(&g);
        assert_eq!(
            summary.to_string(),
            "\
layer  output  parameters  variables
w                   1,234  w [1234]
net                     5  bias [2], average [3]
1,239 parameters, 1,236 of them trained; 1,235 numbers that training keeps
"
        );
    }
}
