//! SparseReduceSum, SparseReduceMax, SparseReduceSumSparse, SparseReduceMaxSparse.

use smallvec::smallvec;
use thalweg_cpu::number::{Arithmetic, Number};
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{
    Arg, AttrDef, Gradient, InputGradients, arg, arg_of, bool_attr, type_attr,
};
use thalweg_graph::{GradCx, Infer, InferError, OpDef};
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::sparse_input::{
    SparseInput, index_tensor, infer_sparse, invalid, set_sparse, shape_tensor, strides,
};
use crate::array::ArrayOps;
use crate::math::MathOps;
use crate::support::gradient_nodes::{int_scalar, int_vector};
use crate::support::tensors::AccountedVec;

const INPUTS: &[Arg] = &[
    arg_of("input_indices", DType::I64),
    arg("input_values", "T"),
    arg_of("input_shape", DType::I64),
    arg_of("reduction_axes", DType::I32),
];
const ATTRS: &[AttrDef] = &[
    bool_attr("keep_dims", false),
    type_attr("T", DType::ALL_NUMBERS),
];
const REAL_ATTRS: &[AttrDef] = &[
    bool_attr("keep_dims", false),
    type_attr("T", DType::NUMBERS),
];
const SPARSE_RESULT: &[Arg] = &[
    arg_of("output_indices", DType::I64),
    arg("output_values", "T"),
    arg_of("output_shape", DType::I64),
];

/// The larger of two numbers.
fn larger<T: Number>(a: T, b: T) -> T {
    if a < b { b } else { a }
}

/// Dimensions that a reduction keeps, ascending.
fn kept_axes(axes: &[i64], rank: usize) -> Result<Vec<usize>, i64> {
    let mut reduced = vec![false; rank];
    for &axis in axes {
        reduced[resolve_axis(axis, rank).ok_or(axis)?] = true;
    }
    Ok((0..rank).filter(|&axis| !reduced[axis]).collect())
}

/// A sparse tensor, the dimensions that it keeps, and the shape of the result.
struct Reduced<'a> {
    sparse: SparseInput<'a>,
    kept: Vec<usize>,
    shape: Vec<i64>,
}

impl<'a> Reduced<'a> {
    fn of(cx: &TensorCx<'a>) -> Result<Reduced<'a>, KernelError> {
        let sparse = SparseInput::of(cx, 0)?;
        sparse.check_inside(cx)?;
        let rank = sparse.rank();
        let kept = kept_axes(&cx.ints(3)?, rank).map_err(|axis| {
            invalid(format!(
                "Invalid reduction dimension {axis}, for input with {rank} dimensions."
            ))
        })?;
        let shape = match cx.attrs().bool("keep_dims") {
            true => (0..rank)
                .map(|axis| {
                    if kept.contains(&axis) {
                        sparse.shape[axis]
                    } else {
                        1
                    }
                })
                .collect(),
            false => kept.iter().map(|&axis| sparse.shape[axis]).collect(),
        };
        Ok(Reduced {
            sparse,
            kept,
            shape,
        })
    }

    /// The kept part of the index of an entry.
    fn group(&self, entry: usize) -> impl Iterator<Item = i64> + '_ {
        let index = self.sparse.index(entry);
        self.kept.iter().map(|&axis| index[axis])
    }
}

/// The reduction as a dense tensor, which is 0 where there is no entry.
fn dense<T: Arithmetic>(
    cx: &TensorCx<'_>,
    join: fn(T, T) -> T,
) -> Result<Vec<Tensor>, KernelError> {
    let reduced = Reduced::of(cx)?;
    let dims: Vec<usize> = reduced.shape.iter().map(|&d| d as usize).collect();
    let mut out = cx.zeros(T::DTYPE, &dims)?;
    let to = out.as_mut_slice::<T>()?;
    let mut is_written = AccountedVec::filled(to.len(), false, cx.memory())?;
    let sizes: Vec<i64> = reduced
        .kept
        .iter()
        .map(|&axis| reduced.sparse.shape[axis])
        .collect();
    let strides = strides(&sizes);
    let mut stop = cx.stop_check();
    for (entry, &x) in reduced.sparse.values.as_slice::<T>()?.iter().enumerate() {
        stop.tick()?;
        let terms = reduced
            .group(entry)
            .zip(&strides)
            .map(|(i, stride)| i * stride);
        let at = terms.sum::<i64>() as usize;
        to[at] = match std::mem::replace(&mut is_written[at], true) {
            true => join(to[at], x),
            false => x,
        };
    }
    Ok(vec![out])
}

/// The reduction as a sparse tensor, with an entry for each group.
fn sparse<T: Arithmetic>(
    cx: &TensorCx<'_>,
    join: fn(T, T) -> T,
) -> Result<Vec<Tensor>, KernelError> {
    let reduced = Reduced::of(cx)?;
    let sparse = &reduced.sparse;
    let values = sparse.values.as_slice::<T>()?;
    let mut order = AccountedVec::filled(sparse.len(), 0, cx.memory())?;
    order.iter_mut().enumerate().for_each(|(i, to)| *to = i);
    order.sort_unstable_by(|&a, &b| reduced.group(a).cmp(reduced.group(b)).then(a.cmp(&b)));
    // The first entry of each group, and the reduced value.
    let mut groups = AccountedVec::filled(sparse.len(), (0usize, T::ZERO), cx.memory())?;
    let mut count = 0;
    for &entry in order.iter() {
        match groups[..count].last_mut() {
            Some((first, value)) if reduced.group(*first).eq(reduced.group(entry)) => {
                *value = join(*value, values[entry]);
            }
            _ => {
                groups[count] = (entry, values[entry]);
                count += 1;
            }
        }
    }
    let keeps = cx.attrs().bool("keep_dims");
    let indices = index_tensor(cx, reduced.shape.len(), count, |i, to| {
        let group = reduced.group(groups[i].0).zip(&reduced.kept).enumerate();
        group.for_each(|(k, (index, &axis))| to[if keeps { axis } else { k }] = index);
    })?;
    let mut out = cx.zeros(T::DTYPE, &[count])?;
    let to = out.as_mut_slice::<T>()?.iter_mut();
    to.zip(groups.iter())
        .for_each(|(to, (_, value))| *to = *value);
    Ok(vec![indices, out, shape_tensor(cx, &reduced.shape)?])
}

/// Shape of the result, if the axes and the number of dimensions are known.
fn reduced_shape(cx: &Infer<'_>) -> Result<Shape, InferError> {
    let rank = infer_sparse(cx, 0)?;
    let (Some(rank), Some(axes)) = (rank, cx.ints(3)) else {
        return Ok(Shape::unknown());
    };
    let kept = kept_axes(&axes, rank).map_err(|axis| InferError::Value {
        input: 3,
        reason: format!("Invalid reduction dimension {axis}, for input with {rank} dimensions."),
    })?;
    let sizes = cx.ints(2);
    let size = |axis: usize| {
        let size = sizes.as_ref().and_then(|sizes| sizes.get(axis).copied());
        size.and_then(|size| usize::try_from(size).ok())
    };
    let all = (0..rank).map(|axis| (axis, kept.contains(&axis)));
    let shape = Shape::partial(match cx.attrs().bool("keep_dims") {
        true => all
            .map(|(axis, keep)| if keep { size(axis) } else { Some(1) })
            .collect::<Vec<_>>(),
        false => kept.iter().map(|&axis| size(axis)).collect(),
    });
    let known = shape.to_dims();
    match known.is_some_and(|dims| checked_elements(&dims).is_none()) {
        true => Ok(Shape::of_rank(shape.rank().unwrap_or(0))),
        false => Ok(shape),
    }
}

const SUM_DEF: OpDef = OpDef {
    name: "SparseReduceSum",
    summary: "The sums of a sparse tensor over dimensions, as a dense one.",
    inputs: INPUTS,
    outputs: &[arg("output", "T")],
    attrs: ATTRS,
    shape: |cx| {
        let shape = reduced_shape(cx)?;
        cx.set(0, shape);
        Ok(())
    },
    gradient: Gradient::Rule(sum_gradient),
    ..OpDef::EMPTY
};

/// The gradient of the sum that each entry is in.
fn sum_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, shape) = (g.graph(), g.input(2));
    let int = |value| int_scalar(graph, DType::I64, value);
    let rank = shape.size_tensor();
    let axes = g.input(3).reshape(int_vector(graph, DType::I32, &[-1]));
    let marks = graph.op("OneHot").input(axes.floor_mod(rank)).input(rank);
    let marks = marks.input(int(1)).input(int(0)).output();
    let reduced = graph
        .op("Max")
        .input(marks)
        .input(int_vector(graph, DType::I32, &[0]));
    // Without axes there is no mark, and the maximum of none is the least number.
    let reduced = reduced.output().maximum(int(0));
    let kept_shape = shape - shape * reduced + reduced;
    let dy = g.grad().reshape(kept_shape);
    let scale = shape.floor_div(kept_shape);
    let at = g.input(0).floor_div(scale);
    let picked = graph.op("GatherNd").input(dy).input(at);
    smallvec![None, Some(picked.output())]
}

/// Sums as a dense tensor.
pub(crate) static SUM: Op = Op {
    def: SUM_DEF,
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        dispatch!(dtype, ALL_NUMBERS, T => dense::<T>(cx, T::add), else Err(KernelError::DType(dtype)))
    })],
};

/// Maxima as a dense tensor.
pub(crate) static MAX: Op = Op {
    def: OpDef {
        name: "SparseReduceMax",
        summary: "The largest entries of a sparse tensor over dimensions, as a dense one; 0 where there is no entry.",
        attrs: REAL_ATTRS,
        gradient: Gradient::Missing,
        ..SUM_DEF
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        dispatch!(dtype, NUMBERS, T => dense::<T>(cx, larger), else Err(KernelError::DType(dtype)))
    })],
};

const SUM_SPARSE_DEF: OpDef = OpDef {
    name: "SparseReduceSumSparse",
    summary: "The sums of a sparse tensor over dimensions, as a sparse one.",
    outputs: SPARSE_RESULT,
    shape: |cx| {
        let rank = reduced_shape(cx)?.rank();
        set_sparse(cx, 0, None, rank);
        Ok(())
    },
    gradient: Gradient::Missing,
    ..SUM_DEF
};

/// Sums as a sparse tensor.
pub(crate) static SUM_SPARSE: Op = Op {
    def: SUM_SPARSE_DEF,
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        dispatch!(dtype, ALL_NUMBERS, T => sparse::<T>(cx, T::add), else Err(KernelError::DType(dtype)))
    })],
};

/// Maxima as a sparse tensor.
pub(crate) static MAX_SPARSE: Op = Op {
    def: OpDef {
        name: "SparseReduceMaxSparse",
        summary: "The largest entries of a sparse tensor over dimensions, as a sparse one.",
        attrs: REAL_ATTRS,
        ..SUM_SPARSE_DEF
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        dispatch!(dtype, NUMBERS, T => sparse::<T>(cx, larger), else Err(KernelError::DType(dtype)))
    })],
};
