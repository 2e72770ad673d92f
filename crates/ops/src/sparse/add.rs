//! SparseAdd, SparseAddGrad, SparseSparseMaximum, SparseSparseMinimum: two sparse tensors of one shape, entry by entry.

use std::cmp::Ordering;

use smallvec::smallvec;
use thalweg_cpu::number::{Arithmetic, Number};
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, Gradient, arg, arg_of, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::sparse_input::{
    SparseInput, expect_rank, index_tensor, infer_sparse, invalid, listed, set_sparse,
};
use crate::math::magnitude;
use crate::support::gradient_nodes::or_zeros;
use crate::support::shapes::expect_scalar;
use crate::support::tensors::AccountedVec;

/// An entry of one or both of two sparse tensors: its number in each, or [`NONE`].
type Pair = [usize; 2];

const NONE: usize = usize::MAX;

/// The value of an entry in a pair.
fn value<T: Copy>(all: &[T], number: usize) -> Option<T> {
    all.get(number).copied()
}

/// The entries of two sparse tensors in ascending order of their indices.
fn union(
    cx: &TensorCx<'_>,
    [a, b]: [&SparseInput<'_>; 2],
) -> Result<AccountedVec<Pair>, KernelError> {
    if a.rank() != b.rank() {
        return Err(invalid(format!(
            "Operands do not have the same ranks; got shapes: {} and {}",
            listed(&a.shape),
            listed(&b.shape)
        )));
    }
    let differs = a.shape.iter().zip(b.shape.iter()).position(|(a, b)| a != b);
    if let Some(axis) = differs {
        return Err(invalid(format!(
            "Operands' shapes do not match: got {} and {} for dimension {axis}",
            a.shape[axis], b.shape[axis]
        )));
    }
    let (a, b) = (a.places(cx)?, b.places(cx)?);
    let most = a.len().saturating_add(b.len());
    let mut all = AccountedVec::filled(most, [NONE; 2], cx.memory())?;
    let (mut i, mut j, mut count, mut stop) = (0, 0, 0, cx.stop_check());
    while i < a.len() || j < b.len() {
        stop.tick()?;
        // No place is as large.
        let [x, y] = [a.get(i), b.get(j)].map(|place| place.copied().unwrap_or(i64::MAX));
        let (of_a, of_b) = (x <= y, y <= x);
        all[count] = [if of_a { i } else { NONE }, if of_b { j } else { NONE }];
        i += usize::from(of_a);
        j += usize::from(of_b);
        count += 1;
    }
    all.truncate(count);
    Ok(all)
}

/// Combines the entries of the sparse tensors at inputs 0 and 3; those for which `combine` returns `None` are left out.
fn combined<T: Arithmetic>(
    cx: &TensorCx<'_>,
    combine: impl Fn(Option<T>, Option<T>) -> Option<T>,
) -> Result<Vec<Tensor>, KernelError> {
    let (a, b) = (SparseInput::of(cx, 0)?, SparseInput::of(cx, 3)?);
    let (x, y) = (a.values.as_slice::<T>()?, b.values.as_slice::<T>()?);
    let mut pairs = union(cx, [&a, &b])?;
    let mut values = AccountedVec::filled(pairs.len(), T::ZERO, cx.memory())?;
    let mut count = 0;
    for i in 0..pairs.len() {
        let [first, second] = pairs[i];
        if let Some(value) = combine(value(x, first), value(y, second)) {
            (pairs[count], values[count]) = (pairs[i], value);
            count += 1;
        }
    }
    let indices = index_tensor(cx, a.rank(), count, |i, to| {
        let [first, second] = pairs[i];
        let index = if first == NONE {
            b.index(second)
        } else {
            a.index(first)
        };
        // A loop: rows are too short for a copy of memory.
        to.iter_mut().zip(index).for_each(|(to, i)| *to = *i);
    })?;
    Ok(vec![indices, cx.tensor_of(&[count], &values[..count])?])
}

/// Shape rule of two sparse tensors of one rank.
fn infer_pair(cx: &Infer<'_>) -> Result<Option<usize>, InferError> {
    let (a, b) = (infer_sparse(cx, 0)?, infer_sparse(cx, 3)?);
    Ok(a.or(b))
}

/// Adds two sparse tensors.
pub(crate) static ADD: Op = Op {
    def: OpDef {
        name: "SparseAdd",
        summary: "The sum of two sparse tensors, without the entries of both whose sum is below a threshold.",
        inputs: &[
            arg_of("a_indices", DType::I64),
            arg("a_values", "T"),
            arg_of("a_shape", DType::I64),
            arg_of("b_indices", DType::I64),
            arg("b_values", "T"),
            arg_of("b_shape", DType::I64),
            arg("thresh", "Treal"),
        ],
        outputs: &[
            arg_of("sum_indices", DType::I64),
            arg("sum_values", "T"),
            arg_of("sum_shape", DType::I64),
        ],
        attrs: &[
            type_attr("T", DType::ALL_NUMBERS),
            type_attr("Treal", DType::NUMBERS),
        ],
        shape: |cx| {
            let rank = infer_pair(cx)?;
            expect_scalar(cx, 6)?;
            set_sparse(cx, 0, None, rank);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("SparseAddGrad");
            let node = node.input(or_zeros(g.dy(1), g.output(1)));
            let node = node
                .input(g.input(0))
                .input(g.input(3))
                .input(g.output(0))
                .build();
            smallvec![None, Some(node.output(0)), None, None, Some(node.output(1))]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        dispatch!(dtype, NUMBERS, T => add::<T, T>(cx, magnitude), else
        match dtype {
            DType::C64 => add::<Complex<f32>, f32>(cx, |sum| sum.norm()),
            DType::C128 => add::<Complex<f64>, f64>(cx, |sum| sum.norm()),
            other => Err(KernelError::DType(other)),
        })
    })],
};

/// The sum without entries whose `size` is below the threshold.
fn add<T: Arithmetic, R: Number>(
    cx: &TensorCx<'_>,
    size: fn(T) -> R,
) -> Result<Vec<Tensor>, KernelError> {
    let threshold = cx.tensor(6)?.to_scalar::<R>()?;
    // Entries of one tensor alone stay, whatever their size.
    let sum = |a: Option<T>, b: Option<T>| match (a, b) {
        (Some(a), Some(b)) => {
            let sum = a.add(b);
            (threshold <= size(sum)).then_some(sum)
        }
        (a, b) => a.or(b),
    };
    let mut parts = combined(cx, sum)?;
    parts.push(cx.value(2)?);
    Ok(parts)
}

/// Gradient of SparseAdd.
pub(crate) static ADD_GRAD: Op = Op {
    def: OpDef {
        name: "SparseAddGrad",
        summary: "The gradient of SparseAdd: for each entry of both tensors that of its entry of the sum, or 0.",
        inputs: &[
            arg("backprop_val_grad", "T"),
            arg_of("a_indices", DType::I64),
            arg_of("b_indices", DType::I64),
            arg_of("sum_indices", DType::I64),
        ],
        outputs: &[arg("a_val_grad", "T"), arg("b_val_grad", "T")],
        attrs: &[type_attr("T", DType::ALL_NUMBERS)],
        shape: |cx| {
            cx.ranked(0, 1)?;
            cx.ranked(3, 2)?;
            for i in 0..2 {
                let indices = cx.ranked(i + 1, 2)?;
                cx.set(i, Shape::partial([indices.dim(0)]));
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, ALL_NUMBERS, T => add_grad::<T>(cx), else Err(KernelError::DType(dtype)))
    })],
};

fn add_grad<T: Arithmetic>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    expect_rank(cx, 0, "backprop_val_grad", 1)?;
    for (i, name) in [(1, "a_indices"), (2, "b_indices"), (3, "sum_indices")] {
        expect_rank(cx, i, name, 2)?;
    }
    let (dy, sums) = (cx.slice::<T>(0)?, cx.slice::<i64>(3)?);
    let [count, rank] = *cx.tensor(3)?.dims() else {
        return Err(KernelError::Argument("a matrix"));
    };
    if count != dy.len() {
        return Err(invalid(format!(
            "# elements and rows should match for backprop_val_grad and sum_indices: {} and {count}",
            dy.len()
        )));
    }
    let own = [cx.tensor(1)?.dims(), cx.tensor(2)?.dims()];
    if let Some(other) = own.iter().find(|dims| dims[1] != rank) {
        return Err(invalid(format!(
            "The inner dimensions of a_indices, b_indices and sum_indices must match: {} and {rank}",
            other[1]
        )));
    }
    let indices = [cx.slice::<i64>(1)?, cx.slice::<i64>(2)?];
    let mut grads = [
        cx.zeros(T::DTYPE, &[own[0][0]])?,
        cx.zeros(T::DTYPE, &[own[1][0]])?,
    ];
    let [a, b] = &mut grads;
    let to = [a.as_mut_slice::<T>()?, b.as_mut_slice::<T>()?];
    // One walk along the sum, as the sum's own: entries that are out of order in both tensors find theirs.
    let (mut at, mut entry, mut stop) = (0, [0; 2], cx.stop_check());
    while at < count && (entry[0] < to[0].len() || entry[1] < to[1].len()) {
        stop.tick()?;
        let sum = &sums[at * rank..][..rank];
        let mut passed = true;
        for i in 0..2 {
            if entry[i] == to[i].len() {
                continue;
            }
            match indices[i][entry[i] * rank..][..rank].cmp(sum) {
                Ordering::Equal => to[i][entry[i]] = dy[at],
                Ordering::Less => passed = false,
                Ordering::Greater => continue,
            }
            entry[i] += 1;
        }
        at += usize::from(passed);
    }
    Ok(grads.into())
}

const PAIR: &[Arg] = &[
    arg_of("a_indices", DType::I64),
    arg("a_values", "T"),
    arg_of("a_shape", DType::I64),
    arg_of("b_indices", DType::I64),
    arg("b_values", "T"),
    arg_of("b_shape", DType::I64),
];

const MAXIMUM_DEF: OpDef = OpDef {
    name: "SparseSparseMaximum",
    summary: "The larger of two sparse tensors in each place that has an entry of either; the other counts as 0.",
    inputs: PAIR,
    outputs: &[
        arg_of("output_indices", DType::I64),
        arg("output_values", "T"),
    ],
    attrs: &[type_attr("T", DType::NUMBERS)],
    shape: |cx| {
        let rank = infer_pair(cx)?;
        cx.set(0, Shape::partial([None, rank]));
        cx.set(1, Shape::partial([None]));
        Ok(())
    },
    gradient: Gradient::Missing,
    ..OpDef::EMPTY
};

/// Chooses the first of two values if it compares as `kept` to the second or equals it.
fn chosen(cx: &TensorCx<'_>, kept: Ordering) -> Result<Vec<Tensor>, KernelError> {
    let dtype = cx.tensor(1)?.dtype();
    dispatch!(dtype, NUMBERS, T => combined::<T>(cx, |a, b| {
        let (a, b) = (a.unwrap_or(T::ZERO), b.unwrap_or(T::ZERO));
        Some(if a.partial_cmp(&b) == Some(kept.reverse()) { b } else { a })
    }), else Err(KernelError::DType(dtype)))
}

/// Maximum of two sparse tensors.
pub(crate) static MAXIMUM: Op = Op {
    def: MAXIMUM_DEF,
    kernels: &[cpu_tensors(|cx| chosen(cx, Ordering::Greater))],
};

/// Minimum of two sparse tensors.
pub(crate) static MINIMUM: Op = Op {
    def: OpDef {
        name: "SparseSparseMinimum",
        summary: "The smaller of two sparse tensors in each place that has an entry of either; the other counts as 0.",
        ..MAXIMUM_DEF
    },
    kernels: &[cpu_tensors(|cx| chosen(cx, Ordering::Less))],
};
