//! StridedSlice (`x[1:-1, ::2, None]` in Python), StridedSliceGrad.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, cpu, cpu_tensors, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, int_attr, type_attr};
use thalweg_graph::{Attrs, GradCx, Infer, NodeBuilder, OpDef};
use thalweg_tensor::DType;

use super::stride_spec::{EntryInputs, Masks, StridedSpec, resolve, spec};
use crate::array::box_copies::{BoxCopies, BoxCopy, CopySource, fill_outside};
use crate::support::gradient_nodes::shape_of;
use crate::support::numbered_elements::{Gaps, OPAQUE, numbered_kernel, run_with};
use crate::support::shape_inputs::{described_shape, kernel_error};
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};

pub(super) const MASKS: [&str; 5] = [
    "begin_mask",
    "end_mask",
    "ellipsis_mask",
    "new_axis_mask",
    "shrink_axis_mask",
];

pub(super) const ATTRS: &[AttrDef] = &[
    type_attr("T", &DType::ALL),
    type_attr("Index", DType::INDICES),
    int_attr(MASKS[0], 0),
    int_attr(MASKS[1], 0),
    int_attr(MASKS[2], 0),
    int_attr(MASKS[3], 0),
    int_attr(MASKS[4], 0),
];

pub(super) fn with_masks<'g>(node: NodeBuilder<'g>, attrs: &Attrs) -> NodeBuilder<'g> {
    MASKS
        .iter()
        .fold(node, |node, mask| node.attr(mask, attrs.int(mask)))
}

/// Resolved specification of a node for a tensor of `dims`; its begins are input `begin`.
pub(super) fn spec_of(
    p: &Prepare<'_>,
    dims: &[usize],
    begin: usize,
) -> Result<StridedSpec, KernelError> {
    let (b, e, s) = (p.ints(begin)?, p.ints(begin + 1)?, p.ints(begin + 2)?);
    if b.len() != e.len() || b.len() != s.len() {
        return Err(KernelError::Argument("as many ends and strides as begins"));
    }
    let dims: Vec<Option<usize>> = dims.iter().map(|&d| Some(d)).collect();
    let masks = Masks::of(&p.node.attrs);
    resolve(
        &dims,
        b.len(),
        Some((&b, &e, &s)),
        masks,
        EntryInputs { begin },
    )
    .map_err(kernel_error)
}

/// The selected box: its first element in a tensor of `dims`, and its axes as `(len, step in the tensor, step in the
/// box)`.
pub(super) fn taken(spec: &StridedSpec, dims: &[usize]) -> (i64, Vec<(usize, isize, isize)>) {
    let lens: Vec<usize> = spec.taken.iter().map(|t| t.len.unwrap_or(0)).collect();
    let (whole, own) = (steps(dims), steps(&lens));
    let first = spec.taken.iter().zip(&whole);
    let first = first.map(|(t, &s)| t.begin.saturating_mul(s as i64)).sum();
    let axes = (0..lens.len())
        .map(|i| {
            // The step of a single element does not matter, and may be any number.
            let step = if lens[i] > 1 { spec.taken[i].step } else { 0 };
            (lens[i], whole[i].saturating_mul(step as isize), own[i])
        })
        .collect();
    (first, axes)
}

/// First element of a box; 0 if the box is empty.
pub(super) fn start(first: i64, axes: &[(usize, isize, isize)]) -> Result<usize, KernelError> {
    if axes.iter().any(|a| a.0 == 0) {
        return Ok(0);
    }
    usize::try_from(first).map_err(|_| KernelError::Argument("a begin"))
}

/// Elements by begin, end and stride along each dimension.
pub(crate) static STRIDED_SLICE: Op = Op {
    def: OpDef {
        name: "StridedSlice",
        summary: "Of each dimension the elements from begin to before end, each stride apart; dimensions are left out or added by masks.",
        inputs: &[
            arg("input", "T"),
            arg("begin", "Index").host(),
            arg("end", "Index").host(),
            arg("strides", "Index").host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            if let Some(spec) = spec(cx, 1, cx.shape(0))? {
                let taken = known_elements(cx, &spec);
                cx.set(0, spec.shape);
                if let Some(taken) = taken {
                    cx.set_elements(0, taken);
                }
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g: &GradCx<'_, '_>| {
            let shape = shape_of(g.input(0), g.input(1).dtype());
            let dx = g.graph().op("StridedSliceGrad").input(shape);
            let dx = dx.inputs((1..4).map(|i| g.input(i))).input(g.grad());
            smallvec![Some(with_masks(dx, g.attrs()).output())]
        }),
        same_as: |cx| {
            let spec = spec(cx, 1, cx.shape(0)).ok()??;
            let forward = spec.taken.iter().all(|t| t.step == 1 && t.begin == 0);
            let same = spec.shape.is_known() && spec.shape == *cx.shape(0);
            (forward && same && cx.ints(3).is_some()).then_some(0)
        },
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(STRIDED_SLICE, "T"),
        cpu(|p| strided_slice_moves(p)?.on_cpu()),
        gpu(|p| strided_slice_moves(p)?.on_gpu()),
    ],
};

/// The elements that are taken of a vector whose elements are known in part.
fn known_elements(cx: &Infer<'_>, spec: &StridedSpec) -> Option<Vec<Option<i64>>> {
    let all = cx.elements(0)?;
    let ([range], true) = (&spec.taken[..], spec.shape.rank()? <= 1) else {
        return None;
    };
    // The range is known where its entries are.
    cx.ints(1).zip(cx.ints(3))?;
    let at = |k: usize| {
        let at = i64::try_from(k).ok()?.checked_mul(range.step)?;
        let at = usize::try_from(range.begin.checked_add(at)?).ok()?;
        all.get(at).copied().flatten()
    };
    Some((0..range.len?.min(all.len())).map(at).collect())
}

fn strided_slice_moves(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    let (first, axes) = taken(&spec_of(p, p.dims(0), 1)?, p.dims(0));
    let start = start(first, &axes)?;
    let axes: Vec<CopyAxis> = axes
        .into_iter()
        .map(|(len, from, to)| CopyAxis { len, from, to })
        .collect();
    Ok(BoxCopies::one(p, StridedCopy::new(start, 0, &axes)?))
}

/// The gradient of StridedSlice.
pub(crate) static STRIDED_SLICE_GRAD: Op = Op {
    def: OpDef {
        name: "StridedSliceGrad",
        summary: "Zeros in the given shape, with dy where StridedSlice would take elements.",
        inputs: &[
            arg("shape", "Index").host(),
            arg("begin", "Index").host(),
            arg("end", "Index").host(),
            arg("strides", "Index").host(),
            arg("dy", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let shape = described_shape(cx, 0)?;
            if let Some(spec) = spec(cx, 1, &shape)?
                && spec.shape.merge(cx.shape(4)).is_none()
            {
                return Err(thalweg_graph::InferError::Mismatch {
                    what: "dy must have the shape of the slice".to_owned(),
                    left: cx.shape(4).clone(),
                    right: spec.shape,
                });
            }
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let dy = g.graph().op("StridedSlice").input(g.grad());
            let dy = dy.inputs((1..4).map(|i| g.input(i)));
            let dy = with_masks(dy, g.attrs()).output();
            smallvec![None, None, None, None, Some(dy)]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu_tensors(|cx| run_with(cx, &STRIDED_SLICE_GRAD, Gaps::Nothing)).only(&[("T", OPAQUE)]),
        cpu(|p| strided_slice_grad_moves(p)?.on_cpu()),
        gpu(|p| strided_slice_grad_moves(p)?.on_gpu()),
    ],
};

fn strided_slice_grad_moves(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    let out = p.output_dims(0);
    let spec = spec_of(p, out, 1)?;
    let (first, axes) = taken(&spec, out);
    let start = start(first, &axes)?;
    let axes: Vec<CopyAxis> = axes
        .into_iter()
        .map(|(len, to, from)| CopyAxis { len, from, to })
        .collect();
    let moved = BoxCopy::of(CopySource::Input(4), StridedCopy::new(0, start, &axes)?);
    // Without gaps, the selected elements are a box with zeros around it.
    let mut dense = true;
    let hull: Vec<(usize, usize)> = spec
        .taken
        .iter()
        .map(|t| {
            let len = t.len.unwrap_or(0) as i64;
            dense &= len <= 1 || t.step.abs() == 1;
            let reach = (len - 1).max(0).saturating_mul(t.step);
            let low = t.begin.saturating_add(reach.min(0)).max(0);
            (low as usize, len as usize)
        })
        .collect();
    let mut parts = if dense {
        fill_outside(out, &hull, CopySource::Zero)?
    } else {
        // All elements are set to zero first.
        let all = CopyAxis {
            len: p.outputs[0].elements(),
            from: 0,
            to: 1,
        };
        vec![BoxCopy::of(
            CopySource::Zero,
            StridedCopy::new(0, 0, &[all])?,
        )]
    };
    parts.push(moved);
    Ok(BoxCopies {
        dtype: p.dtype(4),
        elements: p.outputs[0].elements(),
        parts,
    })
}
