//! Packed: the parts of a sparse or ragged tensor as a variant, which is a component of dataset elements.

use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient};
use thalweg_tensor::{Nesting, Tensor};

/// The parts of a sparse or ragged tensor.
pub(crate) struct Packed(pub(crate) Vec<Tensor>);

pub(crate) fn packed(parts: Vec<Tensor>) -> Result<Tensor, KernelError> {
    let mut nesting = Nesting::default();
    parts.iter().try_for_each(|part| nesting.add(part))?;
    Ok(Tensor::variant(Arc::new(Packed(parts)), nesting)?)
}

/// The objects of a tensor of variants.
pub(crate) fn unpacked(tensor: &Tensor) -> Result<Vec<Arc<Packed>>, KernelError> {
    let object = |i| {
        tensor
            .handle_at(i)
            .and_then(|handle| handle.object::<Packed>())
    };
    let all: Option<Vec<_>> = (0..tensor.len()).map(object).collect();
    all.ok_or_else(|| {
        KernelError::Invalid("a variant of the input is no sparse or ragged tensor".to_owned())
    })
}

/// Base definition of an op on variants that hold tensors.
pub(crate) const PACKING_OP: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};
