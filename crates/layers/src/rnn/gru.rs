//! The gated recurrent unit.

use thalweg_graph::{Graph, Output};
use thalweg_ops::{ArrayOps, MathOps, Variable};
use thalweg_tensor::DType;

use super::cell::{Cell, sums};
use crate::initializers::Initializer;
use crate::layer::{WeightOptions, Weights};

/// A cell of gated recurrent units: see [`gru_cell`].
#[derive(Clone, Debug)]
#[must_use = "a cell is repeated by `rnn`"]
pub struct GruCell {
    units: usize,
    options: WeightOptions,
    gates_bias: Initializer,
}

/// A cell of gated recurrent units (Cho et al., 2014; `tf.compat.v1.nn.rnn_cell.GRUCell`).
///
/// Its state is its output `h`, of this many units. With `[r, u] = sigmoid([x, h] kernel + bias)`
/// of the gates, a step computes, with kernel and bias of the candidate,
///
/// ```text
/// h' = u h + (1 - u) tanh([x, r h] kernel + bias)
/// ```
///
/// Its variables are `gru_cell/gates/kernel`, of shape `[features + units, 2 units]`,
/// `gru_cell/gates/bias`, initially 1, so that the cell remembers, `gru_cell/candidate/kernel`, of
/// shape `[features + units, units]`, and `gru_cell/candidate/bias`, initially 0. The options of
/// [`Weights`] apply to both kernels, and to both biases.
pub fn gru_cell(units: usize) -> GruCell {
    GruCell {
        units,
        options: WeightOptions::default(),
        gates_bias: Initializer::Ones,
    }
}

impl Weights for GruCell {
    fn options(&mut self) -> &mut WeightOptions {
        &mut self.options
    }

    fn bias_initializer(mut self, initializer: Initializer) -> Self {
        self.gates_bias = initializer.clone();
        self.options = self.options.bias_initializer(initializer);
        self
    }
}

impl Cell for GruCell {
    fn widths(&self) -> Vec<usize> {
        vec![self.units]
    }

    #[track_caller]
    fn weights<'g>(&self, graph: &'g Graph, features: usize, dtype: DType) -> Vec<Output<'g>> {
        let of = features.saturating_add(self.units);
        let gates = self.options.clone();
        let gates = gates.bias_initializer(self.gates_bias.clone());
        let pair = |options: &WeightOptions, part: &str, to: usize| {
            let kernel = options.kernel(graph, &format!("{part}/kernel"), &[of, to], dtype);
            let bias = options.bias(graph, &format!("{part}/bias"), &[to], dtype);
            (kernel, bias)
        };
        let (gates, candidate) = graph.at_caller(|| {
            self.options.scope(graph, "gru_cell", || {
                let gates = pair(&gates, "gates", self.units.saturating_mul(2));
                (gates, pair(&self.options, "candidate", self.units))
            })
        });
        // The biases come last: they may be missing.
        let kernels = [gates.0, candidate.0].into_iter();
        let all = kernels.chain(gates.1).chain(candidate.1);
        all.map(Variable::value).collect()
    }

    fn step<'g>(
        &self,
        weights: &[Output<'g>],
        x: Output<'g>,
        state: &[Output<'g>],
    ) -> Vec<Output<'g>> {
        let before = state[0];
        let gates = sums(x, before, weights[0], weights.get(2)).sigmoid();
        let gates = gates.split(2, 1);
        let (reset, update) = (gates[0], gates[1]);
        let candidate = sums(x, reset * before, weights[1], weights.get(3)).tanh();
        vec![update * before + (1.0 - update) * candidate]
    }
}
