//! Recurrent layers: a cell that is applied to sequences, step by step.

mod basic;
mod cell;
mod gru;
mod lstm;
mod steps;

use thalweg_graph::{Output, Value};
use thalweg_ops::{ArrayOps, SourceOps};
use thalweg_tensor::{DType, Shape};

use crate::layer::{Layer, channels, of_shape, report_mistake, sizes};
use crate::scope::{VariableScope, VariableScopes};
use steps::Steps;

pub use basic::{BasicCell, rnn_cell};
pub use cell::Cell;
pub use gru::{GruCell, gru_cell};
pub use lstm::{LstmCell, lstm_cell};

/// A recurrent layer: see [`rnn`].
#[derive(Clone, Debug)]
#[must_use = "a layer is put on a tensor by `on` or `over`"]
pub struct Rnn<'g, C> {
    cell: C,
    name: Option<String>,
    unrolled: bool,
    time_major: bool,
    lengths: Option<Value<'g>>,
    initial: Option<Vec<Output<'g>>>,
}

/// The output of a recurrent layer for sequences.
#[derive(Clone, Debug)]
pub struct Sequence<'g> {
    /// The output of each step, `[batch, time, units]`.
    pub outputs: Output<'g>,
    /// The parts of the state after the last step of each sequence, `[batch, width]` each. The last
    /// part is the last output.
    pub state: Vec<Output<'g>>,
}

impl<'g> Sequence<'g> {
    /// The output of the last step of each sequence, `[batch, units]`: the last part of the state.
    pub fn last(&self) -> Output<'g> {
        self.state.last().copied().unwrap_or(self.outputs)
    }
}

/// Applies a cell to sequences `[batch, time, features]`, step by step
/// (`tf.compat.v1.nn.dynamic_rnn`, and `static_rnn` if it is [unrolled](Rnn::unrolled)).
///
/// [`Layer::on`] returns the outputs of all steps, `[batch, time, units]`; [`Rnn::over`] also
/// returns the last state. The steps are iterations of a loop, so that the number of steps may
/// differ from run to run, and the graph stays small. Gradients go through the loop: their time
/// grows linearly with the number of steps.
///
/// The variables are those of the cell, in the variable scope `rnn`.
///
/// ```
/// use thalweg_graph::{Graph, gradients};
/// use thalweg_layers::{Layer, dense, lstm_cell, rnn};
/// use thalweg_ops::{NewGraph, ReduceOps, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// // Any number of sentences of any number of words.
/// let words = g.placeholder("words", DType::F32, [-1, -1, 64]);
/// let lengths = g.placeholder("lengths", DType::I32, [-1]);
/// let sentences = rnn(lstm_cell(32)).lengths(lengths).over(words);
/// assert_eq!(sentences.outputs.shape(), Shape::from([-1, -1, 32]));
///
/// let scores = dense(5).on(sentences.state[1]);
/// let names: Vec<_> = g.variables().into_iter().map(|v| v.name).collect();
/// let own = ["rnn/lstm_cell/kernel", "rnn/lstm_cell/bias", "dense/kernel", "dense/bias"];
/// assert_eq!(names, own);
/// let kernel = g.output(g.variables()[0].handle);
/// assert!(gradients(&[scores.sum()], &[kernel])[0].is_some());
/// assert!(g.errors().is_empty());
/// ```
pub fn rnn<'g, C: Cell>(cell: C) -> Rnn<'g, C> {
    Rnn {
        cell,
        name: None,
        unrolled: false,
        time_major: false,
        lengths: None,
        initial: None,
    }
}

impl<'g, C: Cell> Rnn<'g, C> {
    /// Sets the name of its variable scope; by default `rnn`, made unique.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Builds nodes for each step in place of a loop. The number of steps must be known. This
    /// avoids the overhead of loop iterations, so it is faster for a few small steps.
    pub fn unrolled(mut self) -> Self {
        self.unrolled = true;
        self
    }

    /// Sets the number of steps of each sequence: integers, `[batch]`. Outputs past the end are
    /// zeros, and the state keeps its value at the end.
    pub fn lengths(mut self, lengths: impl Into<Value<'g>>) -> Self {
        self.lengths = Some(lengths.into());
        self
    }

    /// Sets the state before the first step: its parts, `[batch, width]` each. Zeros by default.
    pub fn initial_state(mut self, parts: impl IntoIterator<Item = Output<'g>>) -> Self {
        self.initial = Some(parts.into_iter().collect());
        self
    }

    /// Takes sequences as `[time, batch, features]`, and returns outputs as `[time, batch, units]`.
    pub fn time_major(mut self) -> Self {
        self.time_major = true;
        self
    }

    /// The outputs of all steps, and the state after the last one.
    ///
    /// The graph keeps a mistake if the input does not have three dimensions, its number of
    /// features is not known, or lengths or initial state do not fit it; and if the layer is
    /// unrolled, but the number of steps is not known.
    #[track_caller]
    pub fn over(self, x: impl Into<Output<'g>>) -> Sequence<'g> {
        let x = x.into();
        let graph = x.graph();
        let parts = self.cell.widths().len();
        let all = |outputs: Output<'g>| Sequence {
            outputs,
            state: vec![outputs; parts],
        };
        if x.is_invalid() {
            return all(x);
        }
        let scope = match &self.name {
            Some(name) => VariableScope::new(name),
            None => VariableScope::unique("rnn"),
        };
        graph.at_caller(|| {
            graph.variable_scope(scope, || {
                let made = self.build(x);
                made.unwrap_or_else(|text| all(report_mistake(graph, "rnn", text)))
            })
        })
    }

    fn build(self, x: Output<'g>) -> Result<Sequence<'g>, String> {
        let (dims, features) = channels(x, 3..=3, |_| 2)?;
        let (time_axis, batch_axis) = if self.time_major { (0, 1) } else { (1, 0) };
        let (time, batch) = (dims[time_axis], dims[batch_axis]);
        let weights = self.cell.weights(x.graph(), features, x.dtype());
        let lengths = self.lengths.clone();
        let steps = Steps {
            cell: &self.cell,
            weights,
            lengths: lengths.map(|l| column(x, l, batch)).transpose()?,
        };
        let rows = |width: usize| {
            sizes(x, &[batch, Some(width)], |_, _| {
                x.shape_tensor().slice([batch_axis as i32], [1])
            })
        };
        let state = self.first_state(x, batch, rows)?;
        let (outputs, state) = match (self.unrolled, time) {
            (true, Some(time)) => steps.unrolled(x, time, time_axis as i64, state),
            (true, None) => {
                return Err(format!(
                    "it is unrolled, but its input has shape {}: without a known number of steps \
                     it has to be a loop",
                    x.shape()
                ));
            }
            (false, _) => {
                let turned = |y: Output<'g>| match self.time_major {
                    true => y,
                    false => y.transpose([1, 0, 2]),
                };
                let units = self.cell.widths().last().copied().unwrap_or(0);
                let (outputs, state) = steps.looped(turned(x), rows(units), state);
                (turned(outputs), state)
            }
        };
        let mut dims = dims;
        dims[2] = self.cell.widths().last().copied();
        Ok(Sequence {
            outputs: of_shape(outputs, Shape::partial(dims)),
            state,
        })
    }

    /// The state before the first step; `rows` returns the shape of a part for its width.
    fn first_state(
        &self,
        x: Output<'g>,
        batch: Option<usize>,
        rows: impl Fn(usize) -> Value<'g>,
    ) -> Result<Vec<Output<'g>>, String> {
        let graph = x.graph();
        let widths = self.cell.widths();
        let shape = |width: usize| Shape::partial([batch, Some(width)]);
        let Some(given) = &self.initial else {
            let zeros = |&width: &usize| {
                let zeros = graph.fill(rows(width), x.constant_like(0.0));
                of_shape(zeros, shape(width))
            };
            return Ok(widths.iter().map(zeros).collect());
        };
        if given.len() != widths.len() {
            return Err(format!(
                "its initial state has {} parts, but the state of its cell has {}",
                given.len(),
                widths.len()
            ));
        }
        let part = |(part, &width): (&Output<'g>, &usize)| {
            let fits = part.dtype() == x.dtype() && part.shape().merge(&shape(width)).is_some();
            match fits || part.is_invalid() {
                true => Ok(of_shape(*part, shape(width))),
                false => Err(format!(
                    "a part of its initial state is {}{}, but must be {}{}",
                    part.dtype(),
                    part.shape(),
                    x.dtype(),
                    shape(width)
                )),
            }
        };
        given.iter().zip(&widths).map(part).collect()
    }
}

impl<'g, C: Cell> Layer<'g> for Rnn<'g, C> {
    #[track_caller]
    fn on(self, x: impl Into<Output<'g>>) -> Output<'g> {
        self.over(x).outputs
    }
}

/// The lengths of sequences as a column of `i32`.
fn column<'g>(
    x: Output<'g>,
    lengths: Value<'g>,
    batch: Option<usize>,
) -> Result<Output<'g>, String> {
    let lengths = lengths.on(x.graph());
    let (dtype, shape) = (lengths.dtype(), lengths.shape());
    let expected = Shape::partial([batch]);
    if lengths.is_invalid() {
        return Ok(lengths);
    }
    if !DType::INDICES.contains(&dtype) || shape.merge(&expected).is_none() {
        return Err(format!(
            "its lengths are {dtype}{shape}, but must be i32 or i64 of shape {expected}"
        ));
    }
    Ok(lengths.cast(DType::I32).expand_dims(1))
}
