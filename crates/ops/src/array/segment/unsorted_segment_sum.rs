//! UnsortedSegmentSum.

use smallvec::smallvec;
use thalweg_cpu::number::Arithmetic;
use thalweg_cpu::parallel::{Disjoint, for_chunks};
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Gradient, InputGradients, arg, type_attr, type_attr_or};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, Element, Shape, dispatch};

use crate::support::elementwise::CHUNK;
use crate::support::gradient_nodes::{int_scalar, reshape, shape_of};
use crate::support::shape_inputs::{checked_shape, invalid_value, scalar_int};
use crate::support::widened::{widened_ints, with_i64_indices};

/// Minimum number of columns of a task.
const MIN_TASK_COLUMNS: usize = 32;

pub(crate) fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let count = match scalar_int(cx, 2)? {
        None => None,
        Some(n) => Some(
            usize::try_from(n)
                .map_err(|_| invalid_value(2, format!("{n} segments: use at least 0")))?,
        ),
    };
    let (Some(data), Some(ids)) = (cx.shape(0).dims(), cx.shape(1).dims()) else {
        return Ok(());
    };
    let begins = data.len() >= ids.len()
        && data
            .iter()
            .zip(ids)
            .all(|(d, i)| d.is_none() || i.is_none() || d == i);
    if !begins {
        return Err(InferError::Mismatch {
            what: "the shape of the data must begin with that of the segment ids".to_owned(),
            left: cx.shape(0).clone(),
            right: cx.shape(1).clone(),
        });
    }
    let rest = data[ids.len()..].iter().copied();
    let shape = checked_shape(2, Shape::partial([count].into_iter().chain(rest)))?;
    cx.set(0, shape);
    Ok(())
}

/// Number of segments, and number of elements of each.
pub(super) fn segments(p: &Prepare<'_>) -> Result<(usize, usize), KernelError> {
    let out = p.output_dims(0);
    let (&count, slice) = out.split_first().ok_or(KernelError::Argument("segments"))?;
    Ok((count, slice.iter().product()))
}

/// Kernel for elements `T` and ids `I`.
fn prepare<T: Arithmetic, I: Element>(
    p: &Prepare<'_>,
    to_i64: fn(I) -> i64,
) -> Result<Prepared, KernelError> {
    let (count, inner) = segments(p)?;
    let rows = p.inputs[1].elements();
    // Every task reads all rows in order, and sums some columns.
    let tasks =
        (rows.saturating_mul(inner) / CHUNK).clamp(1, inner.div_ceil(MIN_TASK_COLUMNS).max(1));
    let width = inner.div_ceil(tasks).max(1);
    let elements = p.inputs[0]
        .elements()
        .saturating_add(p.outputs[0].elements());
    Ok(Prepared::new(elements, move |cx| {
        let (data, ids, out) = (cx.input::<T>(0)?, cx.input::<I>(1)?, cx.output::<T>(0)?);
        let below = |&(_, &i): &(usize, &I)| to_i64(i) < count as i64;
        if let Some((element, &i)) = ids.iter().enumerate().find(|i| !below(i)) {
            return Err(KernelError::Element {
                input: 1,
                element,
                reason: format!("segment {} is not below {count}", to_i64(i)),
            });
        }
        for_chunks(cx.pool(), out, CHUNK, &|_, out| out.fill(T::ZERO));
        let out = Disjoint::new(out);
        cx.pool().parallel_for(inner.div_ceil(width), &|task| {
            let (from, len) = (task * width, width.min(inner - task * width));
            for (row, &id) in ids.iter().enumerate() {
                // A slice with a negative id is dropped.
                let Ok(segment) = usize::try_from(to_i64(id)) else {
                    continue;
                };
                // SAFETY: no other task writes these columns.
                let sums = unsafe { out.slice(segment * inner + from, len) };
                for (sum, &v) in sums.iter_mut().zip(&data[row * inner + from..]) {
                    *sum = sum.add(v);
                }
            }
        });
        Ok(())
    }))
}

/// Each slice gets the gradient of its sum; a dropped slice gets zeros.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (slices, kept) = gather_segments(g.grad(), g.input(1));
    let zeros = g.graph().op("ZerosLike").input(slices).output();
    let dx = g.graph().op("SelectV2").input(kept).input(slices);
    smallvec![Some(dx.input(zeros).output())]
}

/// For each id: the slice of `dy` for its segment (the first segment for a negative id), and `true` if the id is not
/// negative.
pub(super) fn gather_segments<'g>(dy: Output<'g>, ids: Output<'g>) -> (Output<'g>, Output<'g>) {
    let graph = dy.graph();
    let zero = int_scalar(graph, ids.dtype(), 0);
    let within = graph.op("Maximum").input(ids).input(zero).output();
    let first = int_scalar(graph, DType::I32, 0);
    let slices = graph.op("GatherV2").input(dy).input(within).input(first);
    let slices = slices.output();
    let kept = graph.op("GreaterEqual").input(ids).input(zero).output();
    // The shape of the ids, followed by a 1 for each dimension of a slice.
    let ones = |n: usize| vec![1i64; n];
    let kept: Output<'g> = match (ids.shape().to_dims(), slices.shape().rank()) {
        (Some(dims), Some(rank)) => {
            let own = dims.iter().map(|&d| d as i64);
            let all: Vec<i64> = own.chain(ones(rank.saturating_sub(dims.len()))).collect();
            reshape(kept, &all)
        }
        _ => {
            let rank = |x: Output<'g>| graph.op("Rank").input(x).output();
            let more = graph.op("Pack").input(rank(slices) - rank(ids)).output();
            let one = int_scalar(graph, DType::I32, 1);
            let ones = graph.op("Fill").input(more).input(one).output();
            let axis = int_scalar(graph, DType::I32, 0);
            let all = graph.op("ConcatV2").input(shape_of(ids, DType::I32));
            let all = all.input(ones).input(axis).output();
            graph.op("Reshape").input(kept).input(all).output()
        }
    };
    (slices, kept)
}

/// Sums the slices with the same id.
pub(crate) static UNSORTED_SEGMENT_SUM: Op = Op {
    def: OpDef {
        name: "UnsortedSegmentSum",
        summary: "For each segment the sum of the slices with its id, in their order; slices with a negative id are left out.",
        inputs: &[
            arg("data", "T"),
            arg("segment_ids", "Tindices"),
            arg("num_segments", "Tnumsegments").host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", DType::ALL_NUMBERS),
            type_attr("Tindices", DType::INDICES),
            type_attr_or("Tnumsegments", DType::INDICES, DType::I32),
        ],
        shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            widened_ints(p, &[0], &[0], &|p| {
                with_i64_indices(p, &[1], &|p| {
                    dispatch!(p.dtype(0), [F16 BF16 F32 F64 I64 U64 C128], T => prepare::<T, i64>(p, i64::from), else
                    Err(KernelError::DType(p.dtype(0))))
                })
            })
        }),
        gpu(|p| {
            let (count, inner) = segments(p)?;
            crate::gpu::segment_sum(p, count, inner)
        }),
    ],
};
