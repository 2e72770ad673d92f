//! StringJoin, ReduceJoin.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{Allowed, AttrDef, Gradient, arg_of, bool_attr, count_attr, str_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, StringTensorBuilder, Tensor};

/// Shape rule: all inputs that are not scalars have one shape, which is the output's.
fn join_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let mut shape = Shape::scalar();
    for i in 0..cx.inputs() {
        let own = cx.shape(i);
        shape = match (own.rank(), shape.rank()) {
            (Some(0), _) => continue,
            (None, _) => Shape::unknown(),
            (_, Some(0)) => own.clone(),
            _ => shape.merge(own).ok_or_else(|| InferError::Mismatch {
                what: format!("input {i} must be a scalar, or have the shape of those before it"),
                left: own.clone(),
                right: shape,
            })?,
        };
    }
    cx.set(0, shape);
    Ok(())
}

fn join(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let separator = cx.attrs().str("separator").as_bytes();
    let mut dims: &[usize] = &[];
    for i in 0..cx.inputs() {
        let own = cx.tensor(i)?.dims();
        if !own.is_empty() {
            dims = own;
        }
    }
    let mut inputs = Vec::with_capacity(cx.inputs());
    for i in 0..cx.inputs() {
        inputs.push(cx.strings(i)?);
    }
    let mut joined = cx.string_tensor(dims)?;
    let mut parts: Vec<&[u8]> = Vec::with_capacity(inputs.len());
    for element in 0..elements(dims) {
        parts.clear();
        for strings in &inputs {
            let own = if strings.len() == 1 { 0 } else { element };
            parts.push(strings.get(own).ok_or(KernelError::Argument("a string"))?);
        }
        append_joined(&mut joined, &parts, separator)?;
    }
    Ok(vec![joined.finish()?])
}

/// Appends one string: the parts, with a separator between.
fn append_joined(
    to: &mut StringTensorBuilder,
    parts: &[&[u8]],
    separator: &[u8],
) -> Result<(), KernelError> {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            to.extend(separator)?;
        }
        to.extend(part)?;
    }
    to.end();
    Ok(())
}

/// Joins the strings of several tensors, element by element.
pub(crate) static JOIN: Op = Op {
    def: OpDef {
        name: "StringJoin",
        summary: "The strings of the inputs joined element by element, with a separator; scalars broadcast.",
        inputs: &[arg_of("inputs", DType::String).list("N")],
        outputs: &[arg_of("output", DType::String)],
        attrs: &[
            AttrDef {
                allowed: Allowed::AtLeast(0),
                ..count_attr("N")
            },
            str_attr("separator", "", &[]),
        ],
        shape: join_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(join)],
};

/// The axes, in the order given, as indices.
fn axes(values: &[i64], rank: usize) -> Result<Vec<usize>, String> {
    let mut axes = Vec::new();
    for &axis in values {
        let axis = resolve_axis(axis, rank).ok_or(format!(
            "axis {axis} is not one of a tensor with {}",
            counted(rank, "dimension")
        ))?;
        if axes.contains(&axis) {
            return Err(format!("axis {axis} is named twice"));
        }
        axes.push(axis);
    }
    Ok(axes)
}

fn reduce_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (Some(dims), Some(values)) = (cx.shape(0).dims(), cx.ints(1)) else {
        return Ok(());
    };
    let axes = axes(&values, dims.len());
    let axes = axes.map_err(|reason| InferError::Value { input: 1, reason })?;
    let keep = cx.attrs().bool("keep_dims");
    let kept = dims
        .iter()
        .enumerate()
        .filter_map(|(i, &d)| match axes.contains(&i) {
            true if keep => Some(Some(1)),
            true => None,
            false => Some(d),
        });
    let shape = Shape::partial(kept);
    cx.set(0, shape);
    Ok(())
}

fn reduce(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let input = cx.tensor(0)?;
    let axes = axes(&cx.ints(1)?, input.dims().len()).map_err(KernelError::Invalid)?;
    let separator = cx.attrs().str("separator").as_bytes();
    let mut dims = input.dims().to_vec();
    let mut strings = input.clone();
    // Reduces one axis after the other: the first one varies fastest.
    for &axis in &axes {
        let (outer, len) = (elements(&dims[..axis]), dims[axis]);
        let inner = elements(&dims[axis + 1..]);
        dims[axis] = 1;
        let mut joined = cx.string_tensor(&dims)?;
        let from = strings.as_strings()?;
        let mut parts: Vec<&[u8]> = Vec::new();
        for place in 0..outer * inner {
            let (o, i) = (place / inner, place % inner);
            let along = (0..len).filter_map(|at| from.get((o * len + at) * inner + i));
            parts.clear();
            parts.extend(along);
            append_joined(&mut joined, &parts, separator)?;
        }
        strings = joined.finish()?;
    }
    if !cx.attrs().bool("keep_dims") {
        let mut at = 0..;
        dims.retain(|_| !at.next().is_some_and(|i: usize| axes.contains(&i)));
    }
    Ok(vec![strings.reshaped(&dims)?])
}

/// Joins strings along some dimensions.
pub(crate) static REDUCE_JOIN: Op = Op {
    def: OpDef {
        name: "ReduceJoin",
        summary: "The strings along some dimensions joined, with a separator; the first of these dimensions varies fastest.",
        inputs: &[
            arg_of("inputs", DType::String),
            arg_of("reduction_indices", DType::I32).host(),
        ],
        outputs: &[arg_of("output", DType::String)],
        attrs: &[
            bool_attr("keep_dims", false),
            str_attr("separator", "", &[]),
        ],
        shape: reduce_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(reduce)],
};
