//! Whether a network learns, or is used: known while the graph is built, or in each step.

use thalweg_graph::{Graph, Output, Value};
use thalweg_ops::FlowOps;
use thalweg_tensor::{DType, Shape};

/// Whether a network learns.
#[derive(Clone, Debug, Default)]
pub(crate) enum Training<'g> {
    /// No.
    #[default]
    Never,
    /// Yes.
    Always,
    /// As this scalar says in each step.
    Says(Output<'g>),
    /// What was given is no bool: this.
    Wrong(DType, Shape),
}

impl<'g> Training<'g> {
    pub(crate) fn new(value: Value<'g>) -> Training<'g> {
        let (dtype, shape, known) = match &value {
            // What is built on a mistake adds none.
            Value::Output(output) if output.is_invalid() => return Training::Says(*output),
            Value::Output(output) => (output.dtype(), output.shape(), output.fact().value),
            Value::Tensor(tensor) => (tensor.dtype(), tensor.shape(), Some(tensor.clone())),
        };
        if dtype != DType::Bool || shape.merge(&Shape::scalar()).is_none() {
            return Training::Wrong(dtype, shape);
        }
        let known = known.and_then(|tensor| tensor.as_slice::<bool>().ok()?.first().copied());
        match (value, known) {
            (_, Some(true)) => Training::Always,
            (Value::Output(says), None) => Training::Says(says),
            _ => Training::Never,
        }
    }

    /// What `yes` gives where the network learns, and `no` where it does not; both give as many.
    pub(crate) fn choose(
        &self,
        graph: &'g Graph,
        yes: impl FnOnce() -> Vec<Output<'g>>,
        no: impl FnOnce() -> Vec<Output<'g>>,
    ) -> Result<Vec<Output<'g>>, String> {
        match self {
            Training::Never => Ok(no()),
            Training::Always => Ok(yes()),
            Training::Says(says) => Ok(graph.cond(*says, |_| yes(), |_| no())),
            Training::Wrong(dtype, shape) => Err(format!(
                "training is {dtype} of shape {shape}: it must be a bool, or a scalar of bool"
            )),
        }
    }
}
