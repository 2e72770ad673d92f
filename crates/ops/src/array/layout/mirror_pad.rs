//! MirrorPad, MirrorPadGrad.

use smallvec::smallvec;
use thalweg_device::gpu::Launches;
use thalweg_device::{KernelError, Op, Prepare, cpu, gpu};
use thalweg_graph::op::{AttrDef, Default, Gradient, arg, str_attr, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use super::pad::paddings;
use crate::array::index_tables::{IndexTables, strides};
use crate::gpu::{AlongAxis, AxisLists, along_axes};
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::{checked_shape, invalid_value};
use crate::support::trivial_kernels::nothing;
use crate::support::widened::widened_ints;

const ATTRS: &[AttrDef] = &[
    type_attr("T", DType::ELEMENTS),
    type_attr_or("Tpaddings", DType::INDICES, DType::I32),
    AttrDef {
        default: Default::Required,
        ..str_attr("mode", "", &["REFLECT", "SYMMETRIC"])
    },
];

/// `true` if the edge itself is mirrored as well.
fn symmetric(attrs: &thalweg_graph::Attrs) -> bool {
    attrs.str("mode") == "SYMMETRIC"
}

/// Shape rule: each dimension is `change` of its length and of its padding before and after.
fn shape(
    cx: &mut Infer<'_>,
    change: fn(i64, (i64, i64)) -> Option<i64>,
    inside: fn(i64, (i64, i64)) -> Option<i64>,
) -> Result<(), InferError> {
    let rank = cx.shape(0).rank().or(cx.shape(1).dim(0));
    let (Some(paddings), Some(dims)) = (paddings(cx)?, cx.shape(0).dims()) else {
        // A vector of more rows describes no valid shape.
        let shape = rank
            .filter(|&r| r < 255)
            .map_or(Shape::unknown(), Shape::of_rank);
        cx.set(0, shape);
        return Ok(());
    };
    let edge = i64::from(!symmetric(cx.attrs()));
    let mut all = Vec::with_capacity(dims.len());
    for (i, (d, &pair)) in dims.iter().zip(&paddings).enumerate() {
        let Some(d) = d.map(|d| d as i64) else {
            all.push(None);
            continue;
        };
        let fits = inside(d, pair).is_some_and(|d| pair.0.max(pair.1) <= (d - edge).max(0));
        let to = change(d, pair).and_then(|d| usize::try_from(d).ok());
        all.push(match (fits, to) {
            (true, Some(to)) => Some(to),
            _ => {
                let reason = format!(
                    "{} before and {} after dimension {i}: no more can be mirrored than there is",
                    pair.0, pair.1
                );
                return Err(invalid_value(1, reason));
            }
        });
    }
    let shape = checked_shape(1, Shape::partial(all))?;
    cx.set(0, shape);
    Ok(())
}

fn padded(d: i64, (before, after): (i64, i64)) -> Option<i64> {
    d.checked_add(before)?.checked_add(after)
}

fn unpadded(d: i64, (before, after): (i64, i64)) -> Option<i64> {
    d.checked_sub(before)?
        .checked_sub(after)
        .filter(|&d| d >= 0)
}

/// By axis, for each index of a padded tensor: the index that it mirrors. `None` if a tensor is empty.
fn mirrored(
    p: &Prepare<'_>,
    outer: &[usize],
    inner: &[usize],
) -> Result<Option<Vec<Vec<usize>>>, KernelError> {
    if outer.contains(&0) || inner.contains(&0) {
        return Ok(None);
    }
    let paddings = p.ints(1)?;
    let edge = i64::from(!symmetric(&p.node.attrs));
    let along = |i: usize| {
        let (before, last) = (
            paddings.get(2 * i).copied().unwrap_or(0),
            inner[i] as i64 - 1,
        );
        let mirrored = |to: usize| {
            let at = to as i64 - before;
            let at = if at < 0 { edge - 1 - at } else { at };
            let at = if at > last {
                2 * last + 1 - edge - at
            } else {
                at
            };
            at.clamp(0, last) as usize
        };
        (0..outer[i]).map(mirrored).collect()
    };
    Ok(Some((0..outer.len()).map(along).collect()))
}

/// For each element of a padded tensor, the element that it mirrors; `None` if a tensor is empty.
fn tables(
    p: &Prepare<'_>,
    outer: &[usize],
    inner: &[usize],
) -> Result<Option<IndexTables>, KernelError> {
    let strides = strides(inner);
    let offsets = |mut axes: Vec<Vec<usize>>| {
        for (axis, &stride) in axes.iter_mut().zip(&strides) {
            axis.iter_mut().for_each(|at| *at *= stride);
        }
        IndexTables::new(axes)
    };
    Ok(mirrored(p, outer, inner)?.map(offsets))
}

/// Launches of the gradient: sums along each axis that was padded.
fn images_added(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let (outer, inner) = (p.dims(0), p.output_dims(0));
    let Some(axes) = mirrored(p, outer, inner)? else {
        return Ok(Launches::default());
    };
    let padded = |axis: &usize| outer[*axis] != inner[*axis];
    let padded: Vec<usize> = (0..outer.len()).filter(padded).collect();
    if padded.is_empty() {
        return tables(p, inner, outer)?.map_or(Ok(Launches::default()), |t| t.gather_on_gpu(p));
    }
    let lists = |axis: usize| {
        let of = |&at: &usize| [(at, 1.0)];
        let lists = AxisLists::new(axes[axis].iter().map(of)).transposed(inner[axis]);
        (axis, AlongAxis::Sum(lists))
    };
    let axes: Vec<(usize, AlongAxis)> = padded.into_iter().map(lists).collect();
    along_axes(p, outer, &axes)
}

/// Pads a tensor with its mirror image.
pub(crate) static MIRROR_PAD: Op = Op {
    def: OpDef {
        name: "MirrorPad",
        summary: "The input with itself mirrored before and after it along each dimension.",
        inputs: &[arg("input", "T"), arg("paddings", "Tpaddings").host()],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| shape(cx, padded, |d, _| Some(d)),
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("MirrorPadGrad").input(g.grad());
            let node = node.input(g.input(1)).attr("mode", g.attrs().str("mode"));
            smallvec![Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(MIRROR_PAD, "T"),
        cpu(|p| match tables(p, p.output_dims(0), p.dims(0))? {
            Some(tables) => tables.gather(p),
            None => Ok(nothing()),
        }),
        gpu(|p| match tables(p, p.output_dims(0), p.dims(0))? {
            Some(tables) => tables.gather_on_gpu(p),
            None => Ok(Launches::default()),
        }),
    ],
};

/// Gradient of MirrorPad: sums the gradients of the mirrored elements.
pub(crate) static MIRROR_PAD_GRAD: Op = Op {
    def: OpDef {
        name: "MirrorPadGrad",
        summary: "The gradient of MirrorPad: each element with all of its images added.",
        inputs: &[arg("input", "T"), arg("paddings", "Tpaddings").host()],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| shape(cx, unpadded, unpadded),
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("MirrorPad").input(g.grad());
            let node = node.input(g.input(1)).attr("mode", g.attrs().str("mode"));
            smallvec![Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| match tables(p, p.dims(0), p.output_dims(0))? {
            Some(tables) => widened_ints(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F16 BF16 F32 F64 I64 U64], T => Ok(tables.clone().add::<T>(p)), else
                    Err(KernelError::DType(p.dtype(0))))
            }),
            None => Ok(nothing()),
        }),
        gpu(images_added),
    ],
};
