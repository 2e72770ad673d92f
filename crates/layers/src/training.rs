//! The training flag: constant, or computed in each step.

use thalweg_graph::{Graph, Output, Value};
use thalweg_ops::FlowOps;
use thalweg_tensor::{DType, Shape};

/// The training flag.
#[derive(Clone, Debug, Default)]
pub(crate) enum Training<'g> {
    /// Inference.
    #[default]
    Never,
    /// Training.
    Always,
    /// This scalar in each step.
    PerStep(Output<'g>),
    /// A mistake: a value of this dtype and shape, which is not a bool.
    Invalid(DType, Shape),
}

impl<'g> Training<'g> {
    pub(crate) fn new(value: Value<'g>) -> Training<'g> {
        let (dtype, shape, known) = match &value {
            // Nodes built on a mistake add none.
            Value::Output(output) if output.is_invalid() => return Training::PerStep(*output),
            Value::Output(output) => (output.dtype(), output.shape(), output.fact().value),
            Value::Tensor(tensor) => (tensor.dtype(), tensor.shape(), Some(tensor.clone())),
        };
        if dtype != DType::Bool || shape.merge(&Shape::scalar()).is_none() {
            return Training::Invalid(dtype, shape);
        }
        let known = known.and_then(|tensor| tensor.as_slice::<bool>().ok()?.first().copied());
        match (value, known) {
            (_, Some(true)) => Training::Always,
            (Value::Output(says), None) => Training::PerStep(says),
            _ => Training::Never,
        }
    }

    /// The outputs of `yes` during training, and of `no` during inference; both return as many.
    pub(crate) fn choose(
        &self,
        graph: &'g Graph,
        yes: impl FnOnce() -> Vec<Output<'g>>,
        no: impl FnOnce() -> Vec<Output<'g>>,
    ) -> Result<Vec<Output<'g>>, String> {
        match self {
            Training::Never => Ok(no()),
            Training::Always => Ok(yes()),
            Training::PerStep(says) => Ok(graph.cond(*says, |_| yes(), |_| no())),
            Training::Invalid(dtype, shape) => Err(format!(
                "training is {dtype} of shape {shape}: it must be a bool, or a scalar of bool"
            )),
        }
    }
}
