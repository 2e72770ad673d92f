//! SparseToDense.

use std::collections::HashMap;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg, bool_attr, type_attr};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::shape::{checked_elements, elements};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

/// A tensor with values at the given indices, and a default elsewhere.
pub(crate) static SPARSE_TO_DENSE: Op = Op {
    def: OpDef {
        name: "SparseToDense",
        summary: "A tensor of one value, with others in these places.",
        inputs: &[
            arg("sparse_indices", "Tindices"),
            arg("output_shape", "Tindices"),
            arg("sparse_values", "T"),
            arg("default_value", "T"),
        ],
        outputs: &[arg("dense", "T")],
        attrs: &[
            bool_attr("validate_indices", true),
            type_attr("T", &DType::ALL),
            type_attr("Tindices", DType::INDICES),
        ],
        shape: |cx| {
            if let Some(dims) = cx.ints(1) {
                let dims: Option<Vec<usize>> =
                    dims.iter().map(|&d| usize::try_from(d).ok()).collect();
                let dims = dims.filter(|d| checked_elements(d).is_some());
                let dims = dims.ok_or(InferError::Value {
                    input: 1,
                    reason: "it is no shape that a tensor can have".to_owned(),
                })?;
                cx.set(0, Shape::known(&dims));
            }
            Ok(())
        },
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| Ok(vec![dense(cx)?]))],
};

/// Row-major position of each value.
fn places(cx: &TensorCx<'_>, dims: &[usize]) -> Result<Vec<usize>, KernelError> {
    let indices = cx.ints(0)?;
    let width = match cx.tensor(0)?.dims() {
        [] | [_] => 1,
        [_, width] => *width,
        _ => 0,
    };
    if width != dims.len() {
        return Err(KernelError::Invalid(format!(
            "places of {} in a tensor of {}",
            counted(width, "number"),
            counted(dims.len(), "dimension")
        )));
    }
    let place = |(element, index): (usize, &[i64])| -> Result<usize, KernelError> {
        let mut at = 0;
        for (&i, &len) in index.iter().zip(dims) {
            let inside = usize::try_from(i).ok().filter(|&i| i < len);
            let inside = inside.ok_or_else(|| KernelError::Element {
                input: 0,
                element: element * width,
                reason: format!("index {i} is not within 0..{len}"),
            })?;
            at = at * len + inside;
        }
        Ok(at)
    };
    let places: Vec<usize> = indices
        .chunks(width.max(1))
        .enumerate()
        .map(place)
        .collect::<Result<_, _>>()?;
    if cx.attrs().bool("validate_indices") && !places.is_sorted_by(|a, b| a < b) {
        return Err(KernelError::Invalid(
            "places must ascend, each once: sort them, or set validate_indices to false".to_owned(),
        ));
    }
    Ok(places)
}

fn dense(cx: &TensorCx<'_>) -> Result<Tensor, KernelError> {
    let dims: Option<Vec<usize>> = cx
        .ints(1)?
        .iter()
        .map(|&d| usize::try_from(d).ok())
        .collect();
    let dims = dims.filter(|d| checked_elements(d).is_some());
    let dims = dims.ok_or_else(|| {
        KernelError::Invalid("output_shape is no shape that a tensor can have".to_owned())
    })?;
    let places = places(cx, &dims)?;
    let (values, default) = (cx.tensor(2)?, cx.tensor(3)?);
    if values.len() != 1 && values.len() != places.len() {
        return Err(KernelError::Invalid(format!(
            "{} for {}: give one for each, or one for all",
            counted(values.len(), "value"),
            counted(places.len(), "place")
        )));
    }
    let value = |k: usize| if values.len() == 1 { 0 } else { k };
    if values.dtype() == DType::String {
        let values = values.as_strings()?;
        let default = default.as_strings()?.first();
        let default = default.ok_or(KernelError::Argument("a default"))?;
        let given: HashMap<usize, usize> = places
            .iter()
            .enumerate()
            .map(|(k, &at)| (at, value(k)))
            .collect();
        let all = (0..elements(&dims)).map(|at| given.get(&at).map_or(default, |&k| &values[k]));
        return cx.strings_of(&dims, all);
    }
    let mut all = cx.zeros(values.dtype(), &dims)?;
    dispatch!(values.dtype(), PLAIN, T => {
        let (values, default) = (values.as_slice::<T>()?, default.to_scalar::<T>()?);
        let out = all.as_mut_slice::<T>()?;
        out.fill(default);
        for (k, &at) in places.iter().enumerate() {
            out[at] = values[value(k)];
        }
    }, else return Err(KernelError::DType(values.dtype())));
    Ok(all)
}
