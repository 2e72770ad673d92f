//! Values given to builder functions: an output, or a tensor that becomes a constant.

use crate::graph::Graph;
use crate::output::Output;
use thalweg_tensor::Tensor;

/// An output, or a tensor that becomes a constant.
#[derive(Clone, Debug)]
pub enum Value<'g> {
    /// An output of the graph.
    Output(Output<'g>),
    /// A tensor.
    Tensor(Tensor),
}

impl<'g> Value<'g> {
    /// As an output of `graph`.
    #[track_caller]
    pub fn on(self, graph: &'g Graph) -> Output<'g> {
        match self {
            Value::Output(output) => output,
            Value::Tensor(tensor) => {
                let dtype = tensor.dtype();
                graph
                    .op("Const")
                    .attr("value", tensor)
                    .attr("dtype", dtype)
                    .output()
            }
        }
    }
}

impl<'g> From<Output<'g>> for Value<'g> {
    fn from(output: Output<'g>) -> Value<'g> {
        Value::Output(output)
    }
}

impl<T: Into<Tensor>> From<T> for Value<'_> {
    fn from(tensor: T) -> Self {
        Value::Tensor(tensor.into())
    }
}
