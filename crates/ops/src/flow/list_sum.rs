//! Zeros like a list, and sums of lists, for gradients: the gradient of a list is a list. An absent element
//! counts as zeros, and costs no copy.

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{DType, Tensor};

use super::list_items::Items;
use super::tensor_list::TensorList;
use crate::support::tensors::sum;

/// Zeros in the shapes of a variant's elements: of a list, or of a list of lists.
pub(crate) fn zeros_like(cx: &TensorCx<'_>, of: &Tensor) -> Result<Tensor, KernelError> {
    if of.dtype() != DType::Variant {
        return cx.zeros(of.dtype(), of.dims());
    }
    let Some(list) = of.object::<TensorList>() else {
        // A variant that is no list has no zeros.
        return Ok(of.clone());
    };
    let items = match list.dtype != DType::Variant && list.shape.to_dims().is_some() {
        true => Items::absent(list.items.len()),
        false => list.items.map(&mut |item| zeros_like(cx, item))?,
    };
    let zeros = TensorList {
        items,
        shape: list.shape.clone(),
        ..*list
    };
    zeros.value()
}

/// Sum of two variants: of two lists, element by element.
pub(crate) fn added(a: &Tensor, b: &Tensor) -> Result<Tensor, KernelError> {
    if a.dtype() != DType::Variant {
        return sum(a.clone(), b);
    }
    let (Some(one), Some(other)) = (a.object::<TensorList>(), b.object::<TensorList>()) else {
        return Err(KernelError::Invalid(
            "what is no list cannot be added".to_owned(),
        ));
    };
    if one.items.len() != other.items.len() {
        return Err(KernelError::Invalid(format!(
            "lists of {} and of {} elements cannot be added",
            one.items.len(),
            other.items.len()
        )));
    }
    let shape = one.shape.merge(&other.shape).ok_or_else(|| {
        KernelError::Invalid(format!(
            "lists of elements of shape {} and {} cannot be added",
            one.shape, other.shape
        ))
    })?;
    let sums = TensorList {
        items: one.items.merge(&other.items, &mut added)?,
        shape,
        ..*one
    };
    sums.value()
}
