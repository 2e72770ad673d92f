//! ResourceGather, ResourceGatherNd: slices of a variable, without a read of the rest.

use smallvec::smallvec;
use thalweg_device::gpu::{Arg, Launches};
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, cpu_tensors, gpu};
use thalweg_graph::error::Reason;
use thalweg_graph::op::{
    Effect, Gradient, InputGradients, arg, arg_of, bool_attr, int_attr, type_attr,
};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Shape};

use super::row_indices::{RowIndices, batch_dims, shape_mismatch};
use super::scatter_nd::split_by_index;
use super::string_slices;
use super::var_handle::expect_dtype;
use crate::array::index::of_slices;
use crate::gpu::{BadIndices, IndexedRows};
use crate::support::constants::ints;
use crate::support::widened::as_uints;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let variable = expect_dtype(cx, "dtype")?;
    let (Some(params), Some(indices)) = (variable.dims(), cx.shape(1).dims()) else {
        return Ok(());
    };
    let requested = cx.attrs().int("batch_dims");
    let batch = batch_dims(requested, indices.len()).filter(|&b| b < params.len());
    let batch = batch.ok_or_else(|| InferError::Attr {
        attr: "batch_dims",
        reason: format!(
            "{requested} does not fit indices of shape {} and a variable of shape {variable}",
            cx.shape(1)
        ),
    })?;
    let shared = |dims: &[Option<usize>]| Shape::partial(dims[..batch].iter().copied());
    let shared = shared(params).merge(&shared(indices));
    let shared = shared.ok_or_else(|| InferError::Mismatch {
        what: format!("the variable and the indices must share their first {batch} dimensions"),
        left: variable.clone(),
        right: cx.shape(1).clone(),
    })?;
    let shared = shared.dims().unwrap_or_default().iter();
    let all = shared.chain(&indices[batch..]).chain(&params[batch + 1..]);
    let shape = Shape::partial(all.copied());
    cx.set(0, check_countable(shape)?);
    Ok(())
}

/// Fails if the number of elements of a known shape overflows.
fn check_countable(shape: Shape) -> Result<Shape, InferError> {
    let counted = |dims: &[usize]| thalweg_tensor::shape::checked_elements(dims).is_some();
    match shape.to_dims() {
        Some(dims) if !counted(&dims) => Err(InferError::Value {
            input: 1,
            reason: format!("a tensor of shape {shape} is too large"),
        }),
        _ => Ok(shape),
    }
}

fn gather(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let own = p.dims(1).to_vec();
    let batch = batch_dims(p.node.attrs.int("batch_dims"), own.len());
    let batch = batch.ok_or(KernelError::Argument("shared dimensions"))?;
    let (indices, size) = (RowIndices::of(p, 1), dtype(p).size());
    let count = elements(&own[batch..]);
    Ok(Prepared::new(p.outputs[0].elements(), move |cx| {
        let value = cx.variable(0)?.read()?;
        let (params, out) = (value.bytes(), cx.output_bytes(0)?);
        let dims = value.dims();
        let (Some(&len), true) = (dims.get(batch), dims.get(..batch) == own.get(..batch)) else {
            return Err(shape_mismatch(&value.shape()));
        };
        let width = elements(&dims[batch + 1..]).saturating_mul(size);
        if out.len() != elements(&own).saturating_mul(width) {
            return Err(shape_mismatch(&value.shape()));
        }
        indices.for_each(cx, &mut |i, at| {
            let row = i / count.max(1) * len + indices.checked(i, at, len)?;
            out[i * width..(i + 1) * width].copy_from_slice(&params[row * width..][..width]);
            Ok(())
        })
    }))
}

fn gather_on_gpu(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let (variable, own) = (p.dims(0), p.dims(1));
    let batch = batch_dims(p.node.attrs.int("batch_dims"), own.len());
    let batch = batch.filter(|&b| b < variable.len());
    let batch = batch.ok_or(KernelError::Argument("shared dimensions"))?;
    let sizes = [
        elements(&own[..batch]),
        1,
        variable[batch],
        elements(&variable[batch + 1..]),
        elements(&own[batch..]),
    ];
    crate::gpu::gather_of(p, (Arg::Variable(0), dtype(p)), sizes)
}

fn gather_nd_on_gpu(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let rows = IndexedRows::of(1, p.dims(1), p.dims(0), BadIndices::of(p))?;
    rows.gathered(p, Arg::Variable(0))
}

/// Gathers slices of a variable along its first dimension.
pub(crate) static GATHER: Op = Op {
    def: OpDef {
        name: "ResourceGather",
        summary: "The slices of a variable along its first dimension at the given indices, in their order.",
        inputs: &[
            arg_of("resource", DType::Resource),
            arg("indices", "Tindices"),
        ],
        outputs: &[arg("output", "dtype")],
        attrs: &[
            int_attr("batch_dims", 0),
            bool_attr("validate_indices", true),
            type_attr("dtype", &DType::ALL),
            type_attr("Tindices", DType::INDICES),
        ],
        shape,
        gradient: Gradient::Rule(gather_gradient),
        effect: Effect::Read,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| as_uints(p, &[], &[0], &gather)).only(&[("dtype", DType::PLAIN)]),
        gpu(gather_on_gpu).only(&[("dtype", DType::PLAIN)]),
        cpu_tensors(string_slices::gather)
            .only(&[("dtype", &[DType::String, DType::Variant, DType::Resource])]),
    ],
};

fn dtype(p: &Prepare<'_>) -> DType {
    p.node.attrs.dtype("dtype").unwrap_or(DType::F32)
}

/// Value of the variable, used for its shape: if that is known, the value is not read.
fn variable_value<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    let dtype = g.attrs().dtype("dtype").unwrap_or(DType::F32);
    let read = g.graph().op("ReadVariableOp").input(g.input(0));
    read.attr("dtype", dtype).output()
}

fn gather_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (params, indices) = (variable_value(g), g.input(1));
    let requested = g.attrs().int("batch_dims");
    let batch = match indices.shape().rank() {
        Some(rank) => batch_dims(requested, rank),
        None => usize::try_from(requested).ok(),
    };
    let dx = match batch {
        Some(batch) => of_slices(params, indices, g.grad(), batch, batch),
        None => {
            let reason = "the gradient of ResourceGather needs indices of known rank where batch_dims is negative";
            let reason = Reason::Argument(reason.to_owned());
            g.graph().fail("gradient", "ResourceGather", reason)
        }
    };
    smallvec![Some(dx)]
}

fn nd_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let variable = expect_dtype(cx, "dtype")?;
    if let Some((_, left)) = split_by_index(&variable, cx.shape(1))?
        && let Some((_, outer)) = cx.shape(1).dims().and_then(<[_]>::split_last)
    {
        let shape = Shape::partial(outer.iter().copied().chain(left));
        cx.set(0, check_countable(shape)?);
    }
    Ok(())
}

fn gather_nd(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (depth, outer) = p
        .dims(1)
        .split_last()
        .ok_or(KernelError::Argument("indices"))?;
    let (depth, count) = (*depth, elements(outer));
    let (indices, size) = (RowIndices::of(p, 1), dtype(p).size());
    Ok(Prepared::new(p.outputs[0].elements(), move |cx| {
        let value = cx.variable(0)?.read()?;
        let (params, out) = (value.bytes(), cx.output_bytes(0)?);
        let (Some(named), Some(left)) = (value.dims().get(..depth), value.dims().get(depth..))
        else {
            return Err(shape_mismatch(&value.shape()));
        };
        let width = elements(left).saturating_mul(size);
        if out.len() != count.saturating_mul(width) {
            return Err(shape_mismatch(&value.shape()));
        }
        if width == 0 {
            return Ok(());
        }
        if depth == 0 {
            out.chunks_exact_mut(width)
                .for_each(|slice| slice.copy_from_slice(params));
            return Ok(());
        }
        let mut start = 0;
        indices.for_each(cx, &mut |i, at| {
            let (slice, entry) = (i / depth, i % depth);
            let at = indices.checked(i, at, named[entry])?;
            start = if entry == 0 {
                at
            } else {
                start * named[entry] + at
            };
            if entry + 1 == depth {
                out[slice * width..][..width].copy_from_slice(&params[start * width..][..width]);
            }
            Ok(())
        })
    }))
}

/// Gathers elements or slices of a variable by their indices in its first dimensions.
pub(crate) static GATHER_ND: Op = Op {
    def: OpDef {
        name: "ResourceGatherNd",
        summary: "The elements or slices of a variable that the rows of the indices address.",
        inputs: &[
            arg_of("resource", DType::Resource),
            arg("indices", "Tindices"),
        ],
        outputs: &[arg("output", "dtype")],
        attrs: &[
            type_attr("dtype", &DType::ALL),
            type_attr("Tindices", DType::INDICES),
        ],
        shape: nd_shape,
        gradient: Gradient::Rule(nd_gradient),
        effect: Effect::Read,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| as_uints(p, &[], &[0], &gather_nd)).only(&[("dtype", DType::PLAIN)]),
        gpu(gather_nd_on_gpu).only(&[("dtype", DType::PLAIN)]),
    ],
};

/// The dimensions that a row of the indices addresses are flattened into one, and the row into a single index;
/// the slices' gradients are added up by it.
fn nd_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, indices) = (g.graph(), g.input(1));
    let dims = g
        .input(0)
        .fact()
        .variable
        .and_then(|(_, shape)| shape.to_dims());
    let depth = indices
        .shape()
        .dims()
        .and_then(|d| d.last().copied().flatten());
    let known = dims.zip(depth).and_then(|(dims, depth)| {
        let all: Option<Vec<i32>> = dims.iter().map(|&d| i32::try_from(d).ok()).collect();
        let (all, count) = (all?, i32::try_from(elements(dims.get(..depth)?)).ok()?);
        let weight = |i: usize| i32::try_from(elements(&dims[i + 1..depth])).ok();
        let weights: Option<Vec<i32>> = (0..depth).map(weight).collect();
        Some((all, count, weights?))
    });
    let Some((dims, count, weights)) = known else {
        let reason = "the gradient of ResourceGatherNd needs a variable of known shape, and to know how many entries an index has";
        let reason = Reason::Argument(reason.to_owned());
        return smallvec![Some(graph.fail("gradient", "ResourceGatherNd", reason))];
    };
    let weights = ints(graph, &weights);
    let weights = weights.graph().op("Cast").input(weights);
    let weights = weights.attr("DstT", indices.dtype()).output();
    let sums = graph
        .op("Sum")
        .input(indices * weights)
        .input(ints(graph, &[-1]));
    let sum = graph
        .op("UnsortedSegmentSum")
        .input(g.grad())
        .input(sums.output());
    let count = graph.op("Squeeze").input(ints(graph, &[count])).output();
    let sum = sum.input(count).output();
    let dx = graph.op("Reshape").input(sum).input(ints(graph, &dims));
    smallvec![Some(dx.output())]
}
