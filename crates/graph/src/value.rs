//! `Value`: an argument of builder functions that is an output, or a tensor that becomes a
//! constant.

use crate::graph::Graph;
use crate::literal::Literal;
use crate::output::Output;
use thalweg_tensor::Tensor;

/// An output, or a tensor that becomes a constant.
///
/// Arguments of type `impl Into<Value>` may be an output, a number, an array or a tensor.
///
/// ```
/// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
/// use thalweg_graph::{Output, Value};
///
/// fn offset<'g>(x: Output<'g>, by: impl Into<Value<'g>>) -> Output<'g> {
///     x + by.into().on(x.graph())
/// }
///
/// let g = ops::graph();
/// let x = ops::placeholder(&g, "x", [2]);
/// let y = offset(x, [1.0f32, 2.0]);
/// let z = offset(y, y);
/// assert_eq!(z.shape(), x.shape());
/// // The array became a constant of the graph.
/// assert!(g.find("Const").is_some());
/// ```
#[derive(Clone, Debug)]
pub enum Value<'g> {
    /// An output of the graph.
    Output(Output<'g>),
    /// A tensor.
    Tensor(Tensor),
}

impl<'g> Value<'g> {
    /// The value as an output of `graph`.
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

impl<'g> Value<'g> {
    /// The value as an operand beside `other`: a plain number takes the dtype of `other`, as a
    /// [`Literal`].
    #[track_caller]
    pub fn beside(self, other: Output<'g>) -> Output<'g> {
        if let Value::Tensor(tensor) = &self
            && let Some(literal) = Literal::from_scalar(tensor)
            && tensor.dtype() != other.dtype()
            && !other.is_invalid()
        {
            return other.constant_like(literal);
        }
        self.on(other.graph())
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
