//! The LSTM cell.

use thalweg_graph::{Graph, Output};
use thalweg_ops::{ArrayOps, MathOps};
use thalweg_tensor::DType;

use super::cell::{Cell, sums, weights};
use crate::layer::{WeightOptions, Weights};

/// A cell with long short-term memory: see [`lstm_cell`].
#[derive(Clone, Debug)]
#[must_use = "a cell is repeated by `rnn`"]
pub struct LstmCell {
    units: usize,
    forget_bias: f64,
    options: WeightOptions,
}

/// A cell with long short-term memory (Hochreiter and Schmidhuber, 1997), with a forget gate and
/// without peepholes (`tf.compat.v1.nn.rnn_cell.LSTMCell`).
///
/// Its state has two parts of this many units: the memory `c`, and the output `h`. With `[i, j, f,
/// o] = [x, h] kernel + bias`, a step computes
///
/// ```text
/// c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j)
/// h' = sigmoid(o) tanh(c')
/// ```
///
/// Its variables are `lstm_cell/kernel`, of shape `[features + units, 4 units]`, and
/// `lstm_cell/bias`, initially 0.
pub fn lstm_cell(units: usize) -> LstmCell {
    LstmCell {
        units,
        forget_bias: 1.0,
        options: WeightOptions::default(),
    }
}

impl LstmCell {
    /// Sets the number added to the forget gate, so that the cell remembers initially; 1 by
    /// default.
    pub fn forget_bias(mut self, forget_bias: f64) -> Self {
        self.forget_bias = forget_bias;
        self
    }
}

impl Weights for LstmCell {
    fn options(&mut self) -> &mut WeightOptions {
        &mut self.options
    }
}

impl Cell for LstmCell {
    fn widths(&self) -> Vec<usize> {
        vec![self.units; 2]
    }

    #[track_caller]
    fn weights<'g>(&self, graph: &'g Graph, features: usize, dtype: DType) -> Vec<Output<'g>> {
        let of = features.saturating_add(self.units);
        let dims = [of, self.units.saturating_mul(4)];
        weights(&self.options, graph, "lstm_cell", dims, dtype)
    }

    fn step<'g>(
        &self,
        weights: &[Output<'g>],
        x: Output<'g>,
        state: &[Output<'g>],
    ) -> Vec<Output<'g>> {
        let (memory, output) = (state[0], state[1]);
        let parts = sums(x, output, weights[0], weights.get(1)).split(4, 1);
        let (enter, new, forget, leave) = (parts[0], parts[1], parts[2], parts[3]);
        let kept = (forget + self.forget_bias).sigmoid() * memory;
        let memory = kept + enter.sigmoid() * new.tanh();
        vec![memory, leave.sigmoid() * memory.tanh()]
    }
}
