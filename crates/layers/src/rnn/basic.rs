//! The plain recurrent cell.

use thalweg_graph::{Graph, Output};
use thalweg_ops::MathOps;
use thalweg_tensor::DType;

use super::cell::{Cell, sums, weights};
use crate::layer::{WeightOptions, Weights};

/// A plain recurrent cell: see [`rnn_cell`].
#[derive(Clone, Debug)]
#[must_use = "a cell is repeated by `rnn`"]
pub struct BasicCell {
    units: usize,
    options: WeightOptions,
}

/// A plain recurrent cell (`tf.compat.v1.nn.rnn_cell.BasicRNNCell`): a step computes `h' = tanh([x,
/// h] kernel + bias)`, and its state is its output `h`, of this many units.
///
/// Its variables are `basic_rnn_cell/kernel`, of shape `[features + units, units]`, and
/// `basic_rnn_cell/bias`, initially 0.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{rnn, rnn_cell};
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let words = g.placeholder("words", DType::F32, [-1, 20, 8]);
/// let sequence = rnn(rnn_cell(16)).over(words);
/// assert_eq!(sequence.last().shape(), Shape::from([-1, 16]));
/// assert_eq!(g.variables()[0].name, "rnn/basic_rnn_cell/kernel");
/// ```
pub fn rnn_cell(units: usize) -> BasicCell {
    BasicCell {
        units,
        options: WeightOptions::default(),
    }
}

impl Weights for BasicCell {
    fn options(&mut self) -> &mut WeightOptions {
        &mut self.options
    }
}

impl Cell for BasicCell {
    fn widths(&self) -> Vec<usize> {
        vec![self.units]
    }

    #[track_caller]
    fn weights<'g>(&self, graph: &'g Graph, features: usize, dtype: DType) -> Vec<Output<'g>> {
        let dims = [features.saturating_add(self.units), self.units];
        weights(&self.options, graph, "basic_rnn_cell", dims, dtype)
    }

    fn step<'g>(
        &self,
        weights: &[Output<'g>],
        x: Output<'g>,
        state: &[Output<'g>],
    ) -> Vec<Output<'g>> {
        vec![sums(x, state[0], weights[0], weights.get(1)).tanh()]
    }
}
