//! SparseToDense.

use std::collections::HashMap;

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, InputGradients, arg, bool_attr, type_attr};
use thalweg_graph::{GradCx, InferError, OpDef, Output};
use thalweg_tensor::shape::{checked_elements, elements};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::sparse_input::{check_shape, invalid, listed, position, strides};
use crate::array::ArrayOps;
use crate::support::gradient_nodes::int_vector;

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
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| Ok(vec![dense(cx)?]))],
};

/// The gradients of the places of values, and of all other places.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, dy, indices) = (g.graph(), g.grad(), g.input(0));
    let vector = |values: &[i64]| int_vector(graph, DType::I32, values);
    let all = |x: Output<'g>| {
        let node = graph.op("Sum").input(x.reshape(vector(&[-1])));
        node.input(vector(&[0])).output()
    };
    // A vector of indices is of places in a vector.
    let indices = match indices.shape().rank() {
        Some(0 | 1) => indices.reshape(vector(&[-1, 1])),
        _ => indices,
    };
    let picked = graph.op("GatherNd").input(dy).input(indices).output();
    let values = match g.input(2).shape().rank() {
        Some(0) => all(picked),
        _ => picked,
    };
    smallvec![None, None, Some(values), Some(all(dy) - all(picked))]
}

/// Row-major position of each value.
fn places(cx: &TensorCx<'_>, shape: &[i64]) -> Result<Vec<usize>, KernelError> {
    let (given, indices) = (cx.tensor(0)?, cx.ints(0)?);
    let width = match given.dims() {
        [] | [_] => 1,
        [_, width] => *width,
        _ => {
            return Err(invalid(format!(
                "sparse_indices should be a scalar, vector, or matrix, got shape {}",
                given.shape()
            )));
        }
    };
    if width != shape.len() {
        return Err(invalid(format!(
            "output_shape has incorrect number of elements: {} should be: {width}",
            shape.len()
        )));
    }
    let strides = strides(shape);
    let ordered = cx.attrs().bool("validate_indices");
    let mut places: Vec<usize> = Vec::with_capacity(indices.len() / width.max(1));
    for (i, index) in indices.chunks(width.max(1)).enumerate() {
        let wrong = |why: &str| invalid(format!("indices[{i}] = {} {why}", listed(index)));
        let mut sides = index.iter().zip(shape);
        if !sides.all(|(i, size)| (0..*size).contains(i)) {
            let shape = listed(shape);
            return Err(wrong(&format!(
                "is out of bounds: need 0 <= index < {shape}"
            )));
        }
        let place = position(index, &strides);
        match places.last() {
            Some(&before) if ordered && before == place => return Err(wrong("is repeated")),
            Some(&before) if ordered && before > place => {
                return Err(wrong(
                    "is out of order. Many sparse ops require sorted indices.\n    Use `tf.sparse.reorder` to create a \
                     correctly ordered copy.\n\n",
                ));
            }
            _ => places.push(place),
        }
    }
    Ok(places)
}

fn dense(cx: &TensorCx<'_>) -> Result<Tensor, KernelError> {
    if cx.tensor(1)?.dims().len() != 1 {
        return Err(invalid(format!(
            "output_shape should be a vector, got shape {}",
            cx.tensor(1)?.shape()
        )));
    }
    let shape = cx.ints(1)?;
    check_shape(&shape)?;
    let dims: Vec<usize> = shape.iter().map(|&d| d as usize).collect();
    let places = places(cx, &shape)?;
    let (values, default) = (cx.tensor(2)?, cx.tensor(3)?);
    if !values.dims().is_empty() && values.dims() != [places.len()] {
        return Err(invalid(format!(
            "sparse_values has incorrect shape {}, should be [] or [{}]",
            values.shape(),
            places.len()
        )));
    }
    if !default.dims().is_empty() {
        return Err(invalid("default_value should be a scalar."));
    }
    let value = |k: usize| if values.dims().is_empty() { 0 } else { k };
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
    let is_zero = default.bytes().iter().all(|&byte| byte == 0);
    dispatch!(values.dtype(), PLAIN, T => {
        let (values, default) = (values.as_slice::<T>()?, default.to_scalar::<T>()?);
        let out = all.as_mut_slice::<T>()?;
        if !is_zero {
            out.fill(default);
        }
        for (k, &at) in places.iter().enumerate() {
            out[at] = values[value(k)];
        }
    }, else return Err(KernelError::DType(values.dtype())));
    Ok(all)
}
