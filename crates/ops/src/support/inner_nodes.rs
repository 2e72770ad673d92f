//! Nodes of other ops that a kernel runs on tensors.

use thalweg_device::{Argument, KernelError, Op, TensorCx, evaluate_for};
use thalweg_graph::{Attr, Attrs};
use thalweg_tensor::Tensor;

/// Runs `op` with these attributes, and the defaults of the others, on these inputs.
pub(crate) fn run_inner(
    cx: &TensorCx<'_>,
    op: &'static Op,
    attrs: &[(&'static str, Attr)],
    inputs: &[&Tensor],
) -> Result<Vec<Tensor>, KernelError> {
    let mut node = cx.node().clone();
    node.op = &op.def;
    node.attrs = Attrs::default();
    for attr in op.def.attrs {
        if let Some(value) = attr.default.value() {
            node.attrs.set(attr.name, value);
        }
    }
    for (name, value) in attrs {
        node.attrs.set(*name, value.clone());
    }
    let arguments: Vec<Argument<'_>> = inputs.iter().map(|t| Argument::Value(t)).collect();
    evaluate_for(cx, op, &node, &arguments)
}
