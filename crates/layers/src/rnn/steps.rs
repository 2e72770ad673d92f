//! The steps of a recurrent layer: as nodes for each, or as the iterations of a loop.

use thalweg_graph::{Output, Reason, Value};
use thalweg_ops::{ArrayOps, FlowOps, MathOps, ReduceOps, SourceOps};
use thalweg_tensor::{DType, Tensor};

use super::cell::Cell;

/// The values shared by all steps.
pub(super) struct Steps<'c, 'g, C> {
    pub(super) cell: &'c C,
    /// The values of its weights.
    pub(super) weights: Vec<Output<'g>>,
    /// The number of steps of each sequence, `[batch, 1]`, if they differ.
    pub(super) lengths: Option<Output<'g>>,
}

impl<'g, C: Cell> Steps<'_, 'g, C> {
    /// The output of step `at`, and the state after it.
    fn step(
        &self,
        at: impl Into<Value<'g>>,
        x: Output<'g>,
        state: &[Output<'g>],
    ) -> (Output<'g>, Vec<Output<'g>>) {
        let graph = x.graph();
        let next = self.cell.step(&self.weights, x, state);
        let Some(&output) = next.last().filter(|_| next.len() == state.len()) else {
            let text = format!(
                "its cell makes {} of {} parts of a state: it must give what it takes",
                next.len(),
                state.len()
            );
            let wrong = graph.fail("rnn", "rnn", Reason::Argument(text));
            return (wrong, vec![wrong; state.len()]);
        };
        let Some(lengths) = self.lengths else {
            return (output, next);
        };
        let goes_on = lengths.greater(at);
        let parts = next.iter().zip(state);
        let kept = parts.map(|(&next, &before)| goes_on.select(next, before));
        let zero = output.constant_like(0.0);
        (goes_on.select(output, zero), kept.collect())
    }

    /// The outputs along `time_axis` of all `steps` of `x`, and the state after the last.
    pub(super) fn unrolled(
        &self,
        x: Output<'g>,
        time: usize,
        time_axis: i64,
        mut state: Vec<Output<'g>>,
    ) -> (Output<'g>, Vec<Output<'g>>) {
        let mut outputs = Vec::with_capacity(time);
        for (at, x) in x.unstack(time, time_axis).into_iter().enumerate() {
            let output;
            (output, state) = self.step(at as i32, x, &state);
            outputs.push(output);
        }
        (x.graph().stack(&outputs, time_axis), state)
    }

    /// The same for `x` of `[time, batch, features]`, in a loop; `output_shape` is that of one
    /// step's output. An iteration reads its part of `x` from a list, and writes its output to one,
    /// so that the gradient of an iteration is not as large as all of `x`.
    pub(super) fn looped(
        &self,
        x: Output<'g>,
        output_shape: Value<'g>,
        state: Vec<Output<'g>>,
    ) -> (Output<'g>, Vec<Output<'g>>) {
        let graph = x.graph();
        let output_shape = output_shape.on(graph);
        let row: Vec<i32> = x.shape().dims().map_or(Vec::new(), |dims| {
            let size = |d: &Option<usize>| d.and_then(|d| i32::try_from(d).ok()).unwrap_or(-1);
            dims.iter().skip(1).map(size).collect()
        });
        let row = Tensor::from(row);
        let list = |op: &str, inputs: &[Output<'g>], dtype: DType| {
            let node = graph.op(op).inputs(inputs.iter().copied());
            node.attr("element_dtype", dtype).output()
        };
        let dtype = x.dtype();
        let inputs = list(
            "TensorListFromTensor",
            &[x, graph.constant(row.clone())],
            dtype,
        );
        let time = x.shape_tensor().slice([0], [1]).reshape(Vec::<i32>::new());
        // Steps past the end of all sequences are skipped: unwritten outputs are zeros.
        let end = match self.lengths {
            Some(lengths) => time.minimum(lengths.reduce_max(&[0, 1], false)),
            None => time,
        };
        let outputs = list("TensorListReserve", &[output_shape, time], dtype);
        let mut values = vec![graph.constant(0i32), outputs];
        values.extend(state);
        let values = graph.while_loop(
            &values,
            |_, values| values[0].less(end),
            |graph, values| {
                let (at, outputs) = (values[0], values[1]);
                let row = graph.constant(row.clone());
                let x = list("TensorListGetItem", &[inputs, at, row], dtype);
                let (output, state) = self.step(at, x, &values[2..]);
                let outputs = list("TensorListSetItem", &[outputs, at, output], dtype);
                let mut next = vec![at + graph.constant(1i32), outputs];
                next.extend(state);
                next
            },
        );
        let outputs = list("TensorListStack", &[values[1], output_shape], dtype);
        (outputs, values[2..].to_vec())
    }
}
