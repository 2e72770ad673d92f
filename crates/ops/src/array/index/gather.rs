//! GatherV2, Gather.

use bytemuck::Pod;
use thalweg_cpu::parallel::Disjoint;
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{Gradient, arg, bool_attr, int_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::gather_gradient::{batch_dims, gradient};
use crate::support::elementwise::CHUNK;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::raw_elements::{by_size, input_as, output_as};
use crate::support::shape_inputs::{checked_shape, single_int};
use crate::support::widened::with_i64_indices;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let axis = match cx.inputs() {
        2 => Some(0),
        _ => single_int(cx, 2)?,
    };
    let (params, indices) = (cx.shape(0), cx.shape(1));
    let (Some(p), Some(i), Some(axis)) = (params.dims(), indices.dims(), axis) else {
        return Ok(());
    };
    if p.is_empty() {
        return Err(InferError::Rank {
            input: 0,
            expected: "at least 1".to_owned(),
            found: params.clone(),
        });
    }
    let axis = cx.axis(2, axis, p.len())?;
    let asked = cx.attrs().int("batch_dims");
    let batch = batch_dims(asked, i.len()).filter(|&b| b <= axis);
    let batch = batch.ok_or_else(|| InferError::Attr {
        attr: "batch_dims",
        reason: format!(
            "{asked} does not fit axis {axis} and indices of shape {indices}: it can be at most either"
        ),
    })?;
    let shared = Shape::partial(p[..batch].iter().copied());
    let shared = shared.merge(&Shape::partial(i[..batch].iter().copied()));
    let shared = shared.ok_or_else(|| InferError::Mismatch {
        what: format!("params and indices must share their first {batch} dimensions"),
        left: params.clone(),
        right: indices.clone(),
    })?;
    let shared = shared.dims().unwrap_or_default();
    let all = shared.iter().chain(&p[batch..axis]).chain(&i[batch..]);
    let all = all.chain(&p[axis + 1..]).copied();
    let shape = checked_shape(0, Shape::partial(all))?;
    cx.set(0, shape);
    Ok(())
}

/// `params[batch][outer][index][inner]` by `indices[batch][count]`.
#[derive(Clone, Copy)]
struct GatherSizes {
    batch: usize,
    outer: usize,
    len: usize,
    inner: usize,
    count: usize,
}

impl GatherSizes {
    fn of(p: &Prepare<'_>) -> Result<GatherSizes, KernelError> {
        let (params, indices) = (p.dims(0), p.dims(1));
        // Gather has no axis input: it uses the first axis.
        let axis = match p.inputs.len() {
            2 => 0,
            _ => p.ints(2)?.first().copied().unwrap_or(0),
        };
        let axis = resolve_axis(axis, params.len()).ok_or(KernelError::Argument("an axis"))?;
        let batch = batch_dims(p.node.attrs.int("batch_dims"), indices.len());
        let batch = batch.filter(|&b| b <= axis);
        let batch = batch.ok_or(KernelError::Argument("dimensions to share"))?;
        Ok(GatherSizes {
            batch: params[..batch].iter().product(),
            outer: params[batch..axis].iter().product(),
            len: params[axis],
            inner: params[axis + 1..].iter().product(),
            count: indices[batch..].iter().product(),
        })
    }
}

/// Kernel for elements `T`.
fn prepare<T: Pod + Send + Sync>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (sizes, dtype) = (GatherSizes::of(p)?, p.dtype(0));
    Ok(Prepared::new(p.outputs[0].elements(), move |cx| {
        let (params, indices) = (input_as::<T>(cx, 0)?, cx.input::<i64>(1)?);
        // SAFETY: only elements of an input of the same dtype are written to it.
        let out = unsafe { output_as::<T>(cx, 0, dtype) }?;
        let GatherSizes {
            batch,
            outer,
            len,
            inner,
            count,
        } = sizes;
        let within = |&(_, &i): &(usize, &i64)| usize::try_from(i).is_ok_and(|i| i < len);
        if let Some((element, &i)) = indices.iter().enumerate().find(|i| !within(i)) {
            return Err(KernelError::Element {
                input: 1,
                element,
                reason: format!("index {} is not within 0..{len}", i),
            });
        }
        if out.is_empty() {
            return Ok(());
        }
        let rows = batch * outer * count;
        let each = (CHUNK / inner).max(1);
        let out = Disjoint::new(out);
        cx.pool().parallel_for(rows.div_ceil(each), &|task| {
            let (first, last) = (task * each, rows.min((task + 1) * each));
            // SAFETY: each task has its own rows.
            let out = unsafe { out.slice(first * inner, (last - first) * inner) };
            if inner == 1 && batch * outer == 1 {
                for (out, &index) in out.iter_mut().zip(&indices[first..last]) {
                    *out = params[index as usize];
                }
                return;
            }
            for (row, out) in (first..last).zip(out.chunks_exact_mut(inner)) {
                // The indices of batch `block / outer`, repeated for each outer slice.
                let block = row / count;
                let index = indices[block / outer * count + row % count] as usize;
                out.copy_from_slice(&params[(block * len + index) * inner..][..inner]);
            }
        });
        Ok(())
    }))
}

fn by_index<T: Pod + Send + Sync>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    with_i64_indices(p, &[1], &|p| prepare::<T>(p))
}

/// GatherV2, Gather.
pub(crate) static GATHER: Op = Op {
    def: OpDef {
        name: "GatherV2",
        summary: "The slices of params along an axis that the indices name, in their order.",
        inputs: &[
            arg("params", "Tparams"),
            arg("indices", "Tindices"),
            arg("axis", "Taxis").host(),
        ],
        outputs: &[arg("output", "Tparams")],
        attrs: &[
            int_attr("batch_dims", 0),
            type_attr("Tparams", &DType::ALL),
            type_attr("Tindices", DType::INDICES),
            type_attr("Taxis", DType::INDICES),
        ],
        shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: KERNELS,
};

/// Gathers slices by index along the first axis; TensorFlow 1's op.
pub(crate) static GATHER_V1: Op = Op {
    def: OpDef {
        name: "Gather",
        summary: "The slices of params along the first axis that the indices name, in their order.",
        inputs: &[arg("params", "Tparams"), arg("indices", "Tindices")],
        outputs: &[arg("output", "Tparams")],
        attrs: &[
            bool_attr("validate_indices", true),
            type_attr("Tparams", &DType::ALL),
            type_attr("Tindices", DType::INDICES),
        ],
        shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: KERNELS,
};

const KERNELS: &[Kernel] = &[
    numbered_kernel!(GATHER, "Tparams"),
    cpu(|p| by_size!(p.dtype(0), T => by_index::<T>(p))),
    gpu(|p| {
        let GatherSizes {
            batch,
            outer,
            len,
            inner,
            count,
        } = GatherSizes::of(p)?;
        crate::gpu::gather(p, [batch, outer, len, inner, count])
    }),
];
