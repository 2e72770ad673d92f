//! The trait of recurrent cells.

use thalweg_graph::{Graph, Output};
use thalweg_tensor::DType;

use crate::layer::WeightOptions;

/// One step of a recurrent layer, which [`rnn`](crate::rnn) repeats.
///
/// A custom cell, whose state is the sum of its inputs so far:
///
/// ```
/// use thalweg_graph::{Graph, Output};
/// use thalweg_layers::{Cell, rnn};
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_session::Session;
/// use thalweg_tensor::DType;
///
/// struct Sum(usize);
///
/// impl Cell for Sum {
///     fn widths(&self) -> Vec<usize> {
///         vec![self.0]
///     }
///
///     fn weights<'g>(&self, _: &'g Graph, _: usize, _: DType) -> Vec<Output<'g>> {
///         Vec::new()
///     }
///
///     fn step<'g>(&self, _: &[Output<'g>], x: Output<'g>, state: &[Output<'g>]) -> Vec<Output<'g>> {
///         vec![state[0] + x]
///     }
/// }
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let sums = rnn(Sum(1)).over(g.constant([[[1.0f32], [2.0], [3.0]]]));
/// let session = Session::new(&g)?;
/// assert_eq!(session.run::<Vec<f32>>(sums.outputs, [])?, [1.0, 3.0, 6.0]);
/// assert_eq!(session.run::<Vec<f32>>(sums.state[0], [])?, [6.0]);
/// # Ok(())
/// # }
/// ```
pub trait Cell {
    /// The widths of the parts of its state. The last part is its output.
    fn widths(&self) -> Vec<usize>;

    /// Makes its variables, in the current variable scope, for inputs of this many features;
    /// returns their values. It is called once, before the first step.
    #[track_caller]
    fn weights<'g>(&self, graph: &'g Graph, features: usize, dtype: DType) -> Vec<Output<'g>>;

    /// The parts of the state after a step: `x` is `[batch, features]`, each part `[batch, width]`.
    /// It may be called in the body of a loop, and makes no variables.
    fn step<'g>(
        &self,
        weights: &[Output<'g>],
        x: Output<'g>,
        state: &[Output<'g>],
    ) -> Vec<Output<'g>>;
}

/// The kernel of these lengths and the bias of a cell, in the variable scope `scope`.
#[track_caller]
pub(super) fn weights<'g>(
    options: &WeightOptions,
    graph: &'g Graph,
    scope: &str,
    [of, to]: [usize; 2],
    dtype: DType,
) -> Vec<Output<'g>> {
    graph.at_caller(|| {
        options.scope(graph, scope, || {
            let kernel = options.kernel(graph, "kernel", &[of, to], dtype);
            let bias = options.bias(graph, "bias", &[to], dtype);
            let all = [kernel].into_iter().chain(bias);
            all.map(|variable| variable.value()).collect()
        })
    })
}

/// `[left, right] kernel + bias`, for rows of both; without a bias if there is none.
pub(super) fn sums<'g>(
    left: Output<'g>,
    right: Output<'g>,
    kernel: Output<'g>,
    bias: Option<&Output<'g>>,
) -> Output<'g> {
    use thalweg_ops::{DataFormat, LinalgOps, NnOps, SourceOps};
    let y = left.graph().concat(&[left, right], 1).matmul(kernel);
    match bias {
        Some(&bias) => y.bias_add(bias, DataFormat::Nhwc),
        None => y,
    }
}
