//! Unique, UniqueV2, UniqueWithCounts, UniqueWithCountsV2, ListDiff.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, StopCheck, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Element, Memory, Shape, Tensor, dispatch};

use crate::support::accounted_map::AccountedMap;
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

/// Keys of the elements of tensors of one dtype: equal elements have equal keys.
struct Keys<'a> {
    memory: &'a Arc<Memory>,
    /// Numbers of strings, in the order of their first.
    strings: AccountedMap<&'a [u8], u64>,
}

impl<'a> Keys<'a> {
    fn new(memory: &'a Arc<Memory>) -> Keys<'a> {
        Keys {
            memory,
            strings: AccountedMap::new(memory),
        }
    }

    fn of(
        &mut self,
        tensor: &'a Tensor,
        stop: &mut StopCheck<'_>,
    ) -> Result<AccountedVec<Option<u64>>, KernelError> {
        let mut keys = AccountedVec::filled(tensor.len(), None, self.memory)?;
        if tensor.dtype() == DType::String {
            for (key, string) in keys.iter_mut().zip(tensor.as_strings()?) {
                stop.tick()?;
                let next = self.strings.len() as u64;
                *key = Some(self.strings.or_insert(string, next, 0)?);
            }
            return Ok(keys);
        }
        dispatch!(tensor.dtype(), [F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool], T => {
            let elements = tensor.as_slice::<T>()?;
            keys.iter_mut().zip(elements).for_each(|(key, x)| *key = x.key());
            Ok(keys)
        }, else Err(KernelError::DType(tensor.dtype())))
    }
}

/// Keys in a range that is no longer than this many times their number have a table of their own: to clear the entries
/// takes less time than to hash a key.
const TABLE_LENGTH: usize = 16;

/// Numbers of the keys in a short range, by their distance from the least.
struct RangeNumbers {
    least: u64,
    /// [`NO_NUMBER`] for keys that have not been seen.
    numbers: AccountedVec<u32>,
}

const NO_NUMBER: u32 = u32::MAX;

impl RangeNumbers {
    /// A table for these keys; `None` if they are too far apart, or one is missing.
    fn of(keys: &[Option<u64>], memory: &Arc<Memory>) -> Result<Option<RangeNumbers>, KernelError> {
        if keys.iter().any(Option::is_none) || keys.len() >= NO_NUMBER as usize {
            return Ok(None);
        }
        // Keys of negative numbers are those of their two's complement.
        let signed = || keys.iter().flatten().map(|&key| key as i64);
        let (Some(least), Some(most)) = (signed().min(), signed().max()) else {
            return Ok(None);
        };
        let most_apart = (TABLE_LENGTH * keys.len()) as u64;
        let apart = most.wrapping_sub(least) as u64;
        if apart >= most_apart {
            return Ok(None);
        }
        Ok(Some(RangeNumbers {
            least: least as u64,
            numbers: AccountedVec::filled(apart as usize + 1, NO_NUMBER, memory)?,
        }))
    }

    /// The number of a key, which is `next` if it is new.
    fn number(&mut self, key: u64, next: usize) -> usize {
        let number = &mut self.numbers[key.wrapping_sub(self.least) as usize];
        if *number == NO_NUMBER {
            // There are fewer keys than numbers.
            *number = next as u32;
        }
        *number as usize
    }
}

/// Numbers of slices, in the order of their first.
enum SliceNumbers {
    /// Of slices of one element, whose keys are close together.
    Range(RangeNumbers),
    /// Of slices of one element, by its key.
    Elements(AccountedMap<u64, usize>),
    /// By the keys of their elements.
    Slices(AccountedMap<Vec<u64>, usize>),
}

/// The number of a slice, which is `next` if it is new, or if it has a NaN.
fn slice_number(
    known: &mut AccountedMap<Vec<u64>, usize>,
    keys: impl Iterator<Item = Option<u64>>,
    next: usize,
) -> Result<usize, KernelError> {
    let Some(key) = keys.collect::<Option<Vec<u64>>>() else {
        return Ok(next);
    };
    let bytes = match known.contains(&key) {
        true => 0,
        false => key.len() * size_of::<u64>() + 16,
    };
    known.or_insert(key, next, bytes)
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
const ANY: AttrDef = type_attr(
    "T",
    &DType::joined::<14>(DType::NUMBERS, &[DType::Bool, DType::String]),
);
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
    let (memory, mut stop) = (cx.memory(), cx.stop_check());
    let mut all_keys = Keys::new(memory);
    let keys = all_keys.of(x, &mut stop)?;
    // The keys of a slice: those of its elements along the other axes.
    let rows_in = if inner == 0 { 0 } else { outer };
    let keys = &keys[..];
    let slice = |i: usize| {
        let rows = (0..rows_in).map(move |o| (o * len + i) * inner);
        rows.flat_map(move |at| &keys[at..at + inner]).copied()
    };
    let mut seen = match rows_in * inner {
        1 => match RangeNumbers::of(keys, memory)? {
            Some(range) => SliceNumbers::Range(range),
            None => SliceNumbers::Elements(AccountedMap::new(memory)),
        },
        _ => SliceNumbers::Slices(AccountedMap::new(memory)),
    };
    // The axis of a tensor without elements may be long.
    let mut found = AccountedVec::filled(len, 0, memory)?;
    let (mut first, mut counts) = (
        AccountedVec::filled(len, 0, memory)?,
        AccountedVec::filled(len, 0, memory)?,
    );
    let mut distinct = 0;
    for (i, found) in found.iter_mut().enumerate() {
        stop.tick()?;
        let place = match &mut seen {
            SliceNumbers::Range(range) => {
                keys[i].map_or(distinct, |key| range.number(key, distinct))
            }
            SliceNumbers::Elements(known) => match keys[i] {
                Some(key) => known.or_insert(key, distinct, 0)?,
                None => distinct,
            },
            SliceNumbers::Slices(known) => slice_number(known, slice(i), distinct)?,
        };
        if place == distinct {
            first[place] = i;
            distinct += 1;
        }
        counts[place] += 1;
        *found = place;
    }
    let (first, counts) = (&first[..distinct], &counts[..distinct]);
    let mut to = dims.to_vec();
    to[axis] = first.len();
    let outer = if x.is_empty() { 0 } else { outer };
    let mut rows = AccountedVec::filled(outer * distinct, 0, memory)?;
    let all = (0..outer).flat_map(|o| first.iter().map(move |i| o * len + i));
    rows.iter_mut().zip(all).for_each(|(row, at)| *row = at);
    let mut outputs = vec![take_slices(cx, x, &rows, inner, &to)?, indices(cx, &found)?];
    if cx.node().outputs.len() > 2 {
        outputs.push(indices(cx, counts)?);
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
        let (memory, mut stop) = (cx.memory(), cx.stop_check());
        let mut keys = Keys::new(memory);
        let mut there = AccountedMap::new(memory);
        for key in keys.of(y, &mut stop)?.iter().flatten() {
            stop.tick()?;
            there.or_insert(*key, (), 0)?;
        }
        let own = keys.of(x, &mut stop)?;
        let is_left = |key: &Option<u64>| key.is_none_or(|key| !there.contains(&key));
        let mut left = AccountedVec::filled(own.iter().filter(|k| is_left(k)).count(), 0, memory)?;
        let places = own.iter().enumerate().filter(|(_, key)| is_left(key));
        left.iter_mut().zip(places).for_each(|(to, (i, _))| *to = i);
        Ok(vec![
            take_slices(cx, x, &left, 1, &[left.len()])?,
            indices(cx, &left)?,
        ])
    })],
};
