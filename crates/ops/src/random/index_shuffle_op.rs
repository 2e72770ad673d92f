//! RandomIndexShuffle: the places of indices in permutations that seeds choose.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg, int_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::index_shuffle::Permutation;
use crate::support::tensors::AccountedVec;

const INDICES: &[DType] = &[DType::I32, DType::U32, DType::I64, DType::U64];
/// Maximum number of rounds of the cipher: each index takes all of them.
const MAX_ROUNDS: i64 = 1 << 10;

fn invalid(why: impl Into<String>) -> KernelError {
    KernelError::Invalid(why.into())
}

fn infer(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let rounds = cx.attrs().int("rounds");
    if !(4..=MAX_ROUNDS).contains(&rounds) || rounds % 2 != 0 {
        return Err(InferError::Attr {
            attr: "rounds",
            reason: format!("is {rounds}: give an even number from 4 to {MAX_ROUNDS}"),
        });
    }
    let (mut is_scalar, mut count) = (Some(true), None);
    for (i, scalar) in [0, 1, 0].into_iter().enumerate() {
        let shape = cx.shape(i).clone();
        let Some(dims) = shape.dims() else {
            is_scalar = is_scalar.filter(|scalar| !scalar);
            continue;
        };
        let fits = dims.len() == scalar || dims.len() == scalar + 1;
        if !fits || (i == 1 && dims.last().copied().flatten().is_some_and(|n| n != 3)) {
            return Err(InferError::Value {
                input: i,
                reason: format!(
                    "has shape {shape}: index and max_index are scalars or vectors, and seed has three numbers, or three for each index"
                ),
            });
        }
        if dims.len() > scalar {
            is_scalar = Some(false);
            let own = Shape::partial([dims[0]]);
            let sum: Shape = count.take().unwrap_or_else(|| Shape::partial([None]));
            let merged = sum.merge(&own).ok_or_else(|| InferError::Mismatch {
                what: "index, seed and max_index must have one number of rows".to_owned(),
                left: sum,
                right: own,
            })?;
            count = Some(merged);
        }
    }
    let shape = match (is_scalar, count) {
        (Some(true), _) => Shape::scalar(),
        (Some(false), Some(count)) => count,
        _ => Shape::unknown(),
    };
    cx.set(0, shape);
    Ok(())
}

/// The numbers of an input.
fn numbers(cx: &TensorCx<'_>, i: usize) -> Result<AccountedVec<i128>, KernelError> {
    let tensor = cx.tensor(i)?;
    let mut all = AccountedVec::filled(tensor.len(), 0i128, cx.memory())?;
    dispatch!(tensor.dtype(), [I32 U32 I64 U64], T => {
        let from = tensor.as_slice::<T>()?;
        all.iter_mut().zip(from).for_each(|(to, &n)| *to = i128::from(n));
    }, else return Err(KernelError::DType(tensor.dtype())));
    Ok(all)
}

/// The shuffled indices.
fn shuffle(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let mut rows: Option<usize> = None;
    for (i, scalar) in [0, 1, 0].into_iter().enumerate() {
        let dims = cx.tensor(i)?.dims();
        let fits =
            dims.len() == scalar || (dims.len() == scalar + 1 && rows.is_none_or(|n| n == dims[0]));
        if !fits || (i == 1 && dims.last() != Some(&3)) {
            return Err(invalid(format!(
                "input {i} has shape {}: index and max_index must be scalars or vectors of one length, and seed must have three numbers, or three for each index",
                cx.tensor(i)?.shape()
            )));
        }
        if dims.len() > scalar {
            rows = Some(dims[0]);
        }
    }
    let [index, seed, last] = [numbers(cx, 0)?, numbers(cx, 1)?, numbers(cx, 2)?];
    let rounds = cx.attrs().int("rounds") as usize;
    let at = |of: &[i128], row: usize| of[if of.len() == 1 { 0 } else { row }];
    let (is_many, mut stop) = (cx.tensor(1)?.dims().len() == 2, cx.stop_check());
    let mut shuffled = AccountedVec::filled(rows.unwrap_or(1), 0u64, cx.memory())?;
    for (row, to) in shuffled.iter_mut().enumerate() {
        stop.tick()?;
        let (index, last) = (at(&index, row), at(&last, row));
        if index < 0 {
            return Err(invalid(format!("index must be >= 0, and is {index}")));
        }
        if last < 0 {
            return Err(invalid(format!("max_index must be >= 0, and is {last}")));
        }
        if last < index {
            return Err(invalid(format!(
                "max_index must be >= index, and they are {last} and {index}"
            )));
        }
        let first = if is_many { 3 * row } else { 0 };
        let key = [0, 1, 2].map(|i| seed[first + i] as u32);
        *to = Permutation::new(key, last as u64, rounds).of(index as u64);
    }
    let dims: Vec<usize> = rows.into_iter().collect();
    let dtype = cx.tensor(0)?.dtype();
    let mut all = cx.zeros(dtype, &dims)?;
    dispatch!(dtype, [I32 U32 I64 U64], T => {
        let to = all.as_mut_slice::<T>()?.iter_mut();
        to.zip(shuffled.iter()).for_each(|(to, &n)| *to = n as T);
    }, else return Err(KernelError::DType(dtype)));
    Ok(vec![all])
}

/// Places of indices in permutations.
pub(crate) static INDEX_SHUFFLE: Op = Op {
    def: OpDef {
        name: "RandomIndexShuffle",
        summary: "The number at each index of a permutation of 0 to max_index, which three numbers choose.",
        inputs: &[
            arg("index", "dtype"),
            arg("seed", "Tseed"),
            arg("max_index", "dtype"),
        ],
        outputs: &[arg("output", "dtype")],
        attrs: &[
            int_attr("rounds", 4),
            type_attr("dtype", INDICES),
            type_attr("Tseed", INDICES),
        ],
        shape: infer,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(shuffle)],
};
