//! Unique, UniqueV2, UniqueWithCounts, UniqueWithCountsV2, ListDiff.

use std::collections::{HashMap, HashSet};

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Element, Shape, Tensor, dispatch};

use crate::support::shape_inputs::invalid_value;
use crate::support::tensors::{AccountedVec, integers, take_slices};

/// An element with a key for equality.
trait EqualityKey: Element {
    /// A number that equal elements share; `None` for a NaN, which equals nothing.
    fn key(self) -> Option<u64>;
}

macro_rules! keys {
    ($($int:ty)*; $($float:ty)*) => {
        $(impl EqualityKey for $int {
            fn key(self) -> Option<u64> { Some(self as u64) }
        })*
        $(impl EqualityKey for $float {
            fn key(self) -> Option<u64> {
                // -0 equals 0.
                let zero = self == Self::default();
                (!self.is_nan()).then_some(if zero { 0 } else { self.to_bits().into() })
            }
        })*
    };
}

keys! { i8 i16 i32 i64 u8 u16 u32 u64 bool; half::f16 half::bf16 f32 f64 }

/// Keys of the elements of a tensor of any dtype: equal elements have equal keys.
fn keys(tensor: &Tensor) -> Result<Vec<Option<u64>>, KernelError> {
    if tensor.dtype() == DType::String {
        let mut seen: HashMap<&[u8], u64> = HashMap::new();
        let strings = tensor.as_strings()?.iter();
        return Ok(strings
            .map(|s| {
                let next = seen.len() as u64;
                Some(*seen.entry(s).or_insert(next))
            })
            .collect());
    }
    dispatch!(tensor.dtype(), PLAIN, T => {
        Ok(tensor.as_slice::<T>()?.iter().map(|x| x.key()).collect())
    }, else Err(KernelError::DType(tensor.dtype())))
}

/// Indices as a tensor of dtype `out_idx`.
fn indices(cx: &TensorCx<'_>, values: &[usize]) -> Result<Tensor, KernelError> {
    integers(cx, "out_idx", values.iter().map(|&v| v as i64))
}

const X: &[Arg] = &[arg("x", "T")];
const X_AXIS: &[Arg] = &[arg("x", "T"), arg("axis", "Taxis")];
const Y_IDX: &[Arg] = &[arg("y", "T"), arg("idx", "out_idx")];
const Y_IDX_COUNT: &[Arg] = &[
    arg("y", "T"),
    arg("idx", "out_idx"),
    arg("count", "out_idx"),
];
const ANY: AttrDef = type_attr("T", DType::ELEMENTS);
const AXIS: AttrDef = type_attr_or("Taxis", DType::INDICES, DType::I64);
const OUT_IDX: AttrDef = type_attr_or("out_idx", DType::INDICES, DType::I32);

/// Axis of the V2 ops, from a vector of one or no element.
fn axis_of(cx: &Infer<'_>, rank: usize) -> Result<Option<usize>, InferError> {
    if cx.inputs() == 1 {
        return match rank {
            1 => Ok(Some(0)),
            _ => Err(invalid_value(
                0,
                format!("{rank} dimensions: it must be a vector"),
            )),
        };
    }
    let Some(axis) = cx.ints(1) else {
        return Ok(None);
    };
    match axis[..] {
        [axis] => cx.axis(1, axis, rank).map(Some),
        [] if rank == 1 => Ok(Some(0)),
        [] => Err(invalid_value(
            1,
            format!("no axis for {rank} dimensions: only a vector needs none"),
        )),
        _ => Err(invalid_value(
            1,
            format!("it lists {}: give one", counted(axis.len(), "number")),
        )),
    }
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = cx.shape(0);
    let Some(dims) = shape.dims() else {
        return Ok(());
    };
    let axis = axis_of(cx, dims.len())?;
    let part = |i: usize, d: Option<usize>| match axis {
        // The number of distinct slices is unknown.
        Some(axis) if i != axis => d,
        _ => None,
    };
    let all = dims.iter().enumerate().map(|(i, d)| part(i, *d));
    cx.set(0, Shape::partial(all));
    cx.set(1, Shape::partial([axis.and_then(|a| dims[a])]));
    cx.set(2, Shape::of_rank(1));
    Ok(())
}

fn unique(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let x = cx.tensor(0)?;
    let axis = match cx.inputs() {
        1 => 0,
        _ => cx.ints(1)?.first().copied().unwrap_or(0),
    };
    let dims = x.dims();
    let axis = thalweg_graph::infer::resolve_axis(axis, dims.len());
    let axis = axis.ok_or(KernelError::Argument("an axis"))?;
    let (outer, len, inner) = (
        elements(&dims[..axis]),
        dims[axis],
        elements(&dims[axis + 1..]),
    );
    let keys = keys(x)?;
    // The key of a slice: the keys of its elements along the other axes.
    let slice = |i: usize| -> Option<Vec<u64>> {
        let outer = if inner == 0 { 0 } else { outer };
        let rows = (0..outer).map(|o| (o * len + i) * inner);
        rows.flat_map(|at| &keys[at..at + inner]).copied().collect()
    };
    let mut seen: HashMap<Vec<u64>, usize> = HashMap::new();
    // The axis of a tensor without elements may be long.
    let mut found = AccountedVec::filled(len, 0, cx.memory())?;
    let (mut first, mut counts) = (Vec::new(), Vec::new());
    for (i, found) in found.iter_mut().enumerate() {
        let next = first.len();
        let place = slice(i).map_or(next, |key| *seen.entry(key).or_insert(next));
        if place == next {
            first.push(i);
            counts.push(0);
        }
        counts[place] += 1;
        *found = place;
    }
    let mut to = dims.to_vec();
    to[axis] = first.len();
    let rows: Vec<usize> = (0..if x.is_empty() { 0 } else { outer })
        .flat_map(|o| first.iter().map(move |i| o * len + i))
        .collect();
    let mut outputs = vec![take_slices(cx, x, &rows, inner, &to)?, indices(cx, &found)?];
    if cx.node().outputs.len() > 2 {
        outputs.push(indices(cx, &counts)?);
    }
    Ok(outputs)
}

const UNIQUE_DEF: OpDef = OpDef {
    name: "Unique",
    summary: "The different elements of a vector in the order of their first, and for each element which it is.",
    inputs: X,
    outputs: Y_IDX,
    attrs: &[ANY, OUT_IDX],
    shape,
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

/// Distinct elements of a vector.
pub(crate) static UNIQUE: Op = Op {
    def: UNIQUE_DEF,
    kernels: &[cpu_tensors(unique)],
};

/// Distinct slices of a tensor.
pub(crate) static UNIQUE_V2: Op = Op {
    def: OpDef {
        name: "UniqueV2",
        summary: "The different slices along an axis in the order of their first, and for each slice which it is.",
        inputs: X_AXIS,
        attrs: &[ANY, AXIS, OUT_IDX],
        ..UNIQUE_DEF
    },
    kernels: &[cpu_tensors(unique)],
};

/// Distinct elements of a vector, and their counts.
pub(crate) static UNIQUE_WITH_COUNTS: Op = Op {
    def: OpDef {
        name: "UniqueWithCounts",
        summary: "The different elements of a vector in the order of their first, for each element which it is, and how often each occurs.",
        outputs: Y_IDX_COUNT,
        ..UNIQUE_DEF
    },
    kernels: &[cpu_tensors(unique)],
};

/// Distinct slices of a tensor, and their counts.
pub(crate) static UNIQUE_WITH_COUNTS_V2: Op = Op {
    def: OpDef {
        name: "UniqueWithCountsV2",
        summary: "The different slices along an axis in the order of their first, for each slice which it is, and how often each occurs.",
        inputs: X_AXIS,
        outputs: Y_IDX_COUNT,
        attrs: &[ANY, AXIS, OUT_IDX],
        ..UNIQUE_DEF
    },
    kernels: &[cpu_tensors(unique)],
};

/// Elements of one list that are not in another one.
pub(crate) static LIST_DIFF: Op = Op {
    def: OpDef {
        name: "ListDiff",
        summary: "The elements of x that are not in y, in order, and their indices.",
        inputs: &[arg("x", "T"), arg("y", "T")],
        outputs: &[arg("out", "T"), arg("idx", "out_idx")],
        attrs: &[ANY, OUT_IDX],
        shape: |cx| {
            for i in 0..2 {
                cx.ranked(i, 1)?;
                cx.set(i, Shape::of_rank(1));
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (x, y) = (cx.tensor(0)?, cx.tensor(1)?);
        let left: Vec<usize> = if x.dtype() == DType::String {
            let there: HashSet<&[u8]> = y.as_strings()?.iter().map(|s| &**s).collect();
            let strings = x.as_strings()?.iter().enumerate();
            strings
                .filter(|(_, s)| !there.contains(&***s))
                .map(|(i, _)| i)
                .collect()
        } else {
            let there: HashSet<u64> = keys(y)?.into_iter().flatten().collect();
            let own = keys(x)?.into_iter().enumerate();
            own.filter(|(_, k)| k.is_none_or(|k| !there.contains(&k)))
                .map(|(i, _)| i)
                .collect()
        };
        Ok(vec![
            take_slices(cx, x, &left, 1, &[left.len()])?,
            indices(cx, &left)?,
        ])
    })],
};
