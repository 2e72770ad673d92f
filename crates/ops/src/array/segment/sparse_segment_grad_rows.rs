//! SparseSegmentSumGradV2, SparseSegmentMeanGradV2, SparseSegmentSqrtNGradV2: gradients of the slices that indices name
//! alone.

use thalweg_cpu::number::{Arithmetic, Float};
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, arg, arg_of, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::segment_reductions::SegmentScale;
use crate::support::tensors::{AccountedVec, integers};

const INPUTS: &[Arg] = &[
    arg("grad", "T"),
    arg("indices", "Tidx"),
    arg("segment_ids", "Tsegmentids"),
    arg_of("dense_output_dim0", DType::I32),
];
const ATTRS: &[AttrDef] = &[
    type_attr("T", DType::FLOATS),
    type_attr_or("Tidx", DType::INDICES, DType::I32),
    type_attr_or("Tsegmentids", DType::INDICES, DType::I32),
];

fn infer(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.ranked(1, 1)?;
    cx.ranked(2, 1)?;
    cx.same(1, 2)?;
    cx.ranked(3, 0)?;
    cx.set(1, Shape::partial([None]));
    match cx.shape(0).dims() {
        Some([]) => {
            return Err(InferError::Rank {
                input: 0,
                expected: "at least 1".to_owned(),
                found: Shape::scalar(),
            });
        }
        Some([_, inner @ ..]) => {
            let all = [None].into_iter().chain(inner.iter().copied());
            cx.set(0, Shape::partial(all));
        }
        None => {}
    }
    Ok(())
}

fn invalid(why: String) -> KernelError {
    KernelError::Invalid(why)
}

/// The numbers at input `i`, each of which must be below `end`.
fn below(
    cx: &TensorCx<'_>,
    i: usize,
    name: &str,
    end: usize,
) -> Result<AccountedVec<usize>, KernelError> {
    let mut all = AccountedVec::filled(cx.tensor(i)?.len(), 0, cx.memory())?;
    for (at, (to, number)) in all.iter_mut().zip(cx.ints(i)?).enumerate() {
        let within = usize::try_from(number).ok().filter(|&n| n < end);
        *to = within.ok_or_else(|| {
            invalid(format!(
                "{name}[{at}] = {number} is out of range [0, {end})"
            ))
        })?;
    }
    Ok(all)
}

fn gradient<T: Float>(cx: &TensorCx<'_>, scale: SegmentScale) -> Result<Vec<Tensor>, KernelError> {
    let (grad, lengths) = (cx.tensor(0)?, [1, 2].map(|i| cx.tensor(i).map(Tensor::len)));
    let [count, ids] = [lengths[0].clone()?, lengths[1].clone()?];
    let &[segments, ref inner @ ..] = grad.dims() else {
        return Err(invalid("grad must have one dimension or more".to_owned()));
    };
    if count != ids {
        return Err(invalid(format!(
            "segment_ids and indices should have same size, and have {ids} and {count}"
        )));
    }
    let rows = cx.int(3)?;
    let rows = usize::try_from(rows).map_err(|_| {
        invalid(format!(
            "dense_output_dim0 must be 0 or more, and is {rows}"
        ))
    })?;
    let indices = below(cx, 1, "indices", rows)?;
    let ids = below(cx, 2, "segment_ids", segments)?;
    let mut sizes = AccountedVec::filled(segments, 0usize, cx.memory())?;
    ids.iter().for_each(|&id| sizes[id] += 1);
    let mut order = AccountedVec::filled(count, 0, cx.memory())?;
    order.iter_mut().enumerate().for_each(|(i, to)| *to = i);
    order.sort_unstable_by_key(|&i| (indices[i], i));
    let mut unique = AccountedVec::filled(count, 0i64, cx.memory())?;
    let mut found = 0;
    for &i in order.iter() {
        let index = indices[i] as i64;
        if found == 0 || unique[found - 1] != index {
            unique[found] = index;
            found += 1;
        }
    }
    let size = elements(inner);
    let mut output = cx.zeros(T::DTYPE, &[&[found], inner].concat())?;
    let (to, from) = (output.as_mut_slice::<T>()?, grad.as_slice::<T>()?);
    let (mut row, mut stop) = (0, cx.stop_check());
    for &i in order.iter() {
        stop.tick()?;
        if unique[row] != indices[i] as i64 {
            row += 1;
        }
        let scale = scale.of::<T>(sizes[ids[i]]);
        let from = &from[ids[i] * size..][..size];
        for (to, &dy) in to[row * size..][..size].iter_mut().zip(from) {
            *to = Arithmetic::add(*to, T::narrow(dy.widen() * scale));
        }
    }
    let unique = integers(cx, "Tidx", unique[..found].iter().copied())?;
    Ok(vec![output, unique])
}

fn by_dtype(cx: &TensorCx<'_>, scale: SegmentScale) -> Result<Vec<Tensor>, KernelError> {
    let dtype = cx.tensor(0)?.dtype();
    dispatch!(dtype, FLOATS, T => gradient::<T>(cx, scale), else Err(KernelError::DType(dtype)))
}

const SUM_DEF: OpDef = OpDef {
    name: "SparseSegmentSumGradV2",
    summary: "The gradient of SparseSegmentSum for the slices that indices name alone, and their sorted numbers.",
    inputs: INPUTS,
    outputs: &[arg("output", "T"), arg("sorted_unique_indices", "Tidx")],
    attrs: ATTRS,
    shape: infer,
    ..OpDef::EMPTY
};

/// Gradient of SparseSegmentSum.
pub(crate) static SUM: Op = Op {
    def: SUM_DEF,
    kernels: &[cpu_tensors(|cx| by_dtype(cx, SegmentScale::Sum))],
};

/// Gradient of SparseSegmentMean.
pub(crate) static MEAN: Op = Op {
    def: OpDef {
        name: "SparseSegmentMeanGradV2",
        summary: "The gradient of SparseSegmentMean for the slices that indices name alone, and their sorted numbers.",
        ..SUM_DEF
    },
    kernels: &[cpu_tensors(|cx| by_dtype(cx, SegmentScale::Mean))],
};

/// Gradient of SparseSegmentSqrtN.
pub(crate) static SQRT_N: Op = Op {
    def: OpDef {
        name: "SparseSegmentSqrtNGradV2",
        summary: "The gradient of SparseSegmentSqrtN for the slices that indices name alone, and their sorted numbers.",
        ..SUM_DEF
    },
    kernels: &[cpu_tensors(|cx| by_dtype(cx, SegmentScale::SqrtN))],
};
