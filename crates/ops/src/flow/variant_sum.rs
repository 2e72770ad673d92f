//! Zeros like a variant, and sums of variants, for gradients: the gradient of a list is a list, and that of an optional is
//! an optional. An absent element of a list counts as zeros, and costs no copy.

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{DType, Tensor};

use super::list_items::Items;
use super::optional::Optional;
use super::tensor_list::TensorList;
use super::tensor_map::TensorMap;
use crate::support::sparse_sum;
use crate::support::tensors::sum;

/// Zeros in the shapes of a variant's elements: of a list or an optional, and of those within; an empty map.
pub(crate) fn zeros_like(cx: &TensorCx<'_>, of: &Tensor) -> Result<Tensor, KernelError> {
    if of.dtype() != DType::Variant {
        return cx.zeros(of.dtype(), of.dims());
    }
    if let Some(list) = of.object::<TensorList>() {
        return zeros_like_list(cx, &list);
    }
    if of.object::<TensorMap>().is_some() {
        // An absent entry counts as zeros in a sum of maps.
        return TensorMap::empty(cx.memory());
    }
    if let Some(zeros) = sparse_sum::zeros_like(cx, of)? {
        return Ok(zeros);
    }
    let Some(optional) = of.object::<Optional>() else {
        return Err(no_sum("have zeros"));
    };
    let zeros = |values: &Vec<Tensor>| values.iter().map(|v| zeros_like(cx, v)).collect();
    Optional(optional.0.as_ref().map(zeros).transpose()?).value()
}

fn zeros_like_list(cx: &TensorCx<'_>, list: &TensorList) -> Result<Tensor, KernelError> {
    let items = match list.dtype != DType::Variant && list.shape.to_dims().is_some() {
        true => Items::absent(list.items.len(), cx.memory())?,
        false => list.items.map(&mut |item| zeros_like(cx, item))?,
    };
    let zeros = TensorList {
        items,
        shape: list.shape.clone(),
        ..*list
    };
    zeros.value()
}

fn no_sum(what: &str) -> KernelError {
    KernelError::Invalid(format!(
        "only lists, maps, optionals and sparse matrices {what}, of all variants"
    ))
}

/// Sum of two values: of two lists element by element, of two optionals value by value, of two maps key by key.
pub(crate) fn added(a: &Tensor, b: &Tensor) -> Result<Tensor, KernelError> {
    if a.dtype() != DType::Variant {
        return sum(a.clone(), b);
    }
    if let (Some(one), Some(other)) = (a.object::<TensorList>(), b.object::<TensorList>()) {
        return added_lists(&one, &other);
    }
    if let (Some(one), Some(other)) = (a.object::<TensorMap>(), b.object::<TensorMap>()) {
        return one.merge(&other, added);
    }
    match (a.object::<Optional>(), b.object::<Optional>()) {
        (Some(one), Some(other)) => added_optionals(&one, &other),
        _ => Err(no_sum("are added, to others of their kind")),
    }
}

/// The rules are those of `OptionalBinaryAdd` in TensorFlow's `optional_ops_util.h`.
fn added_optionals(one: &Optional, other: &Optional) -> Result<Tensor, KernelError> {
    let sums = match (&one.0, &other.0) {
        (None, None) => None,
        (Some(one), Some(other)) if one.len() == other.len() => {
            let sums = one.iter().zip(other).map(|(a, b)| added(a, b));
            Some(sums.collect::<Result<Vec<_>, _>>()?)
        }
        (Some(one), Some(other)) => {
            return Err(KernelError::Invalid(format!(
                "optionals of {} and of {} values cannot be added",
                one.len(),
                other.len()
            )));
        }
        _ => {
            return Err(KernelError::Invalid(
                "an optional with values and one without cannot be added".to_owned(),
            ));
        }
    };
    Optional(sums).value()
}

fn added_lists(one: &TensorList, other: &TensorList) -> Result<Tensor, KernelError> {
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
