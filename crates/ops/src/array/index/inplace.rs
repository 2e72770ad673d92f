//! InplaceUpdate, InplaceAdd, InplaceSub.

use thalweg_cpu::number::Arithmetic;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, Tensor, dispatch};

use crate::support::join_rows::{JoinRows, join_each};

/// Checks that there is a row for each index, of the shape of those of `x`.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let rows = cx.ranked(1, 1)?.dim(0);
    if let Some(dims) = cx.shape(0).dims() {
        if dims.is_empty() {
            return Err(InferError::Rank {
                input: 0,
                expected: "at least 1".to_owned(),
                found: cx.shape(0).clone(),
            });
        }
        let row = dims[1..].iter().copied();
        let expected = Shape::partial(std::iter::once(rows).chain(row));
        if expected.merge(cx.shape(2)).is_none() {
            return Err(InferError::Mismatch {
                what: "v must have a row of x for each index".to_owned(),
                left: cx.shape(2).clone(),
                right: expected,
            });
        }
    }
    cx.set(0, cx.shape(0).clone());
    Ok(())
}

/// Joins rows of a copy of input 0 with those of input 2. As in TensorFlow, indices wrap around.
fn rows<T: Element>(cx: &TensorCx<'_>, join: JoinRows<T>) -> Result<Vec<Tensor>, KernelError> {
    let (mut y, indices, v) = (cx.tensor(0)?.clone(), cx.ints(1)?, cx.slice::<T>(2)?);
    let count = y.dims().first().copied().unwrap_or(0);
    let size = y.len().checked_div(count).unwrap_or(0);
    if size == 0 {
        return Ok(vec![y]);
    }
    let (to, mut stop) = (y.as_mut_slice::<T>()?, cx.stop_check());
    for (&i, v) in indices.iter().zip(v.chunks_exact(size)) {
        let row = i.rem_euclid(count as i64) as usize;
        stop.ticks(size)?;
        join(&mut to[row * size..][..size], v);
    }
    Ok(vec![y])
}

const fn inplace(name: &'static str, summary: &'static str, attrs: &'static [AttrDef]) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: const { &[arg("x", "T"), arg_of("i", DType::I32), arg("v", "T")] },
        outputs: const { &[arg("y", "T")] },
        attrs,
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    }
}

const NUMBERS: &[AttrDef] = &[type_attr("T", DType::ALL_NUMBERS)];

/// Replaces rows.
pub(crate) static UPDATE: Op = Op {
    def: inplace(
        "InplaceUpdate",
        "x with other rows at these indices.",
        &[type_attr("T", DType::PLAIN)],
    ),
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, PLAIN, T => rows::<T>(cx, <[T]>::copy_from_slice), else Err(KernelError::DType(dtype)))
    })],
};

/// Adds to rows.
pub(crate) static ADD: Op = Op {
    def: inplace(
        "InplaceAdd",
        "x with v added to the rows at these indices.",
        NUMBERS,
    ),
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, ALL_NUMBERS, T => rows::<T>(cx, |to, from| join_each(to, from, T::add)), else Err(KernelError::DType(dtype)))
    })],
};

/// Subtracts from rows.
pub(crate) static SUB: Op = Op {
    def: inplace(
        "InplaceSub",
        "x with v subtracted from the rows at these indices.",
        NUMBERS,
    ),
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, ALL_NUMBERS, T => rows::<T>(cx, |to, from| join_each(to, from, T::sub)), else Err(KernelError::DType(dtype)))
    })],
};
