//! Rate: a scalar hyperparameter of an update.

use thalweg_graph::scalar_of;
use thalweg_graph::{Graph, Output, Reason};
use thalweg_ops::{ArrayOps, Variable};
use thalweg_tensor::DType;

/// A learning rate, or another scalar hyperparameter: a number, or an output that each step computes (of a schedule,
/// for example) or that is fed.
///
/// A number is an `f32`, as in TensorFlow: an `f64` variable sees that value, widened. An output is
/// cast to the variable's dtype.
#[derive(Clone, Copy, Debug)]
pub enum Rate<'g> {
    /// A number.
    Number(f32),
    /// A scalar output.
    Output(Output<'g>),
}

impl<'g> Rate<'g> {
    /// Builds the rate as an output of `graph` with this dtype. `name` is the name of the constant if the rate is a
    /// number. A dtype that cannot hold the number is a mistake that the graph keeps.
    #[track_caller]
    pub fn on(self, graph: &'g Graph, name: &str, dtype: DType) -> Output<'g> {
        match self {
            Rate::Number(number) => match scalar_of(dtype, f64::from(number)) {
                Some(value) => graph
                    .op("Const")
                    .attr("value", value)
                    .attr("dtype", dtype)
                    .name(name)
                    .output(),
                None => {
                    let text = format!("{number} is no value of {dtype}");
                    graph.fail(name, "Const", Reason::Argument(text))
                }
            },
            Rate::Output(output) if output.dtype() == dtype => output,
            Rate::Output(output) => output.cast(dtype),
        }
    }
}

impl From<f32> for Rate<'_> {
    fn from(number: f32) -> Self {
        Rate::Number(number)
    }
}

impl<'g> From<Output<'g>> for Rate<'g> {
    fn from(output: Output<'g>) -> Rate<'g> {
        Rate::Output(output)
    }
}

impl<'g> From<Variable<'g>> for Rate<'g> {
    fn from(variable: Variable<'g>) -> Rate<'g> {
        Rate::Output(variable.value())
    }
}
