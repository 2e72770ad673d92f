//! SparseReorder, SparseReshape.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, InputGradients, arg, arg_of, type_attr};
use thalweg_graph::{GradCx, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::sparse_input::{
    SparseInput, check_shape, element_count, expect_rank, index_tensor, infer_sparse, invalid,
    listed, position, shape_tensor, strides,
};
use crate::support::gradient_nodes::{first_size, gather_rows, int_scalar};

/// Sorts the entries of a sparse tensor.
pub(crate) static REORDER: Op = Op {
    def: OpDef {
        name: "SparseReorder",
        summary: "The entries of a sparse tensor in ascending order of their indices.",
        inputs: &[
            arg_of("input_indices", DType::I64),
            arg("input_values", "T"),
            arg_of("input_shape", DType::I64),
        ],
        outputs: &[
            arg_of("output_indices", DType::I64),
            arg("output_values", "T"),
        ],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: |cx| {
            infer_sparse(cx, 0)?;
            cx.set(0, cx.shape(0).clone());
            cx.set(1, cx.shape(1).clone());
            Ok(())
        },
        gradient: Gradient::Rule(reorder_gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let sparse = SparseInput::of(cx, 0)?;
        if sparse.is_sorted() {
            return Ok(vec![cx.value(0)?, cx.value(1)?]);
        }
        let order = sparse.sorted_by(cx, |index| index)?;
        Ok(vec![
            sparse.indices_of(cx, &order)?,
            sparse.values_of(cx, &order)?,
        ])
    })],
};

/// The gradient of each value, taken from its place after the sort.
fn reorder_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let Some(dy) = g.dy(1) else {
        return smallvec![];
    };
    let graph = g.graph();
    let int = |value| int_scalar(graph, DType::I32, value);
    let numbers = graph.op("Range").input(int(0));
    let numbers = numbers
        .input(first_size(g.input(0), DType::I32))
        .input(int(1));
    let sorted = graph.op("SparseReorder").input(g.input(0));
    let sorted = sorted.input(numbers.output()).input(g.input(2)).build();
    let places = graph.op("InvertPermutation").input(sorted.output(1));
    smallvec![None, Some(gather_rows(dy, places.output()))]
}

/// Gives a sparse tensor another shape.
pub(crate) static RESHAPE: Op = Op {
    def: OpDef {
        name: "SparseReshape",
        summary: "The indices of a sparse tensor in another shape with as many elements; -1 stands for the size that is left.",
        inputs: &[
            arg_of("input_indices", DType::I64),
            arg_of("input_shape", DType::I64),
            arg_of("new_shape", DType::I64),
        ],
        outputs: &[
            arg_of("output_indices", DType::I64),
            arg_of("output_shape", DType::I64),
        ],
        shape: |cx| {
            let indices = cx.ranked(0, 2)?;
            cx.ranked(1, 1)?;
            let new = cx.ranked(2, 1)?;
            cx.set(0, Shape::partial([indices.dim(0), new.dim(0)]));
            cx.set(1, new);
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(reshape)],
};

/// The target shape with the size in place of -1.
fn target_shape(shape: &[i64], target: &[i64]) -> Result<Vec<i64>, KernelError> {
    let mut unknown = None;
    let mut product = 1i64;
    for (axis, &size) in target.iter().enumerate() {
        match size {
            -1 if unknown.is_none() => unknown = Some(axis),
            -1 => {
                return Err(invalid(format!(
                    "only one output dimension may be -1, not both {} and {axis}",
                    unknown.unwrap_or(0)
                )));
            }
            size if size < 0 => {
                return Err(invalid(format!(
                    "size {axis} must be non-negative, not {size}"
                )));
            }
            size => {
                let next = product.checked_mul(size);
                product = next.ok_or_else(|| {
                    invalid(format!(
                        "the shape {} has too many elements",
                        listed(target)
                    ))
                })?;
            }
        }
    }
    let count = element_count(shape);
    let mut sizes = target.to_vec();
    if let Some(axis) = unknown {
        if product == 0 {
            return Err(invalid(
                "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are \
                 non-zero",
            ));
        }
        if count % product != 0 {
            return Err(invalid(format!(
                "Input to reshape is a SparseTensor with {count} dense values, but the requested shape requires a \
                 multiple of {product}. input_shape={} output_shape={}",
                listed(shape),
                listed(target)
            )));
        }
        sizes[axis] = count / product;
        product = count;
    }
    if product != count {
        return Err(invalid(format!(
            "Input to reshape is a tensor with {count} dense values, but the requested shape has {product}. input_shape={} \
             output_shape={}",
            listed(shape),
            listed(&sizes)
        )));
    }
    Ok(sizes)
}

fn reshape(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    expect_rank(cx, 0, "indices", 2)?;
    expect_rank(cx, 1, "shape", 1)?;
    expect_rank(cx, 2, "new shape", 1)?;
    let (indices, shape) = (cx.slice::<i64>(0)?, cx.slice::<i64>(1)?);
    let (count, rank) = (cx.tensor(0)?.dims()[0], cx.tensor(0)?.dims()[1]);
    if rank != shape.len() {
        return Err(invalid(format!(
            "Input tensor rank must match input shape length: the indices have {rank} columns, the shape is {}",
            listed(shape)
        )));
    }
    check_shape(shape)?;
    let target = target_shape(shape, cx.slice::<i64>(2)?)?;
    if shape == target {
        return Ok(vec![cx.value(0)?, cx.value(1)?]);
    }
    let inside = |row: &[i64]| {
        row.iter()
            .zip(shape)
            .all(|(i, size)| (0..*size).contains(i))
    };
    if rank > 0
        && let Some(row) = indices.chunks_exact(rank).position(|row| !inside(row))
    {
        return Err(invalid(format!(
            "indices[{row}] = {} is out of bounds: need 0 <= index < {}",
            listed(&indices[row * rank..][..rank]),
            listed(shape)
        )));
    }
    let (from, to) = (strides(shape), strides(&target));
    let moved = index_tensor(cx, target.len(), count, |row, index| {
        let mut rest = position(&indices[row * rank..][..rank], &from) as i64;
        for (i, stride) in index.iter_mut().zip(&to) {
            *i = rest / stride;
            rest %= stride;
        }
    })?;
    Ok(vec![moved, shape_tensor(cx, &target)?])
}
