//! SpaceToDepth, DepthToSpace.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, cpu, gpu};
use thalweg_graph::op::{Allowed, AttrDef, Gradient, arg, attr, str_attr, type_attr};
use thalweg_graph::{AttrKind, Attrs, GradCx, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use crate::array::box_copies::BoxCopies;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::checked_shape;
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};

const ATTRS: &[AttrDef] = &[
    type_attr("T", &DType::ALL),
    AttrDef {
        allowed: Allowed::AtLeast(2),
        ..attr("block_size", AttrKind::Int)
    },
    str_attr("data_format", "NHWC", &["NHWC", "NCHW", "NCHW_VECT_C"]),
];

/// Axes of height, width and depth.
fn image_axes(attrs: &Attrs) -> Result<[usize; 3], InferError> {
    match attrs.str("data_format") {
        "NHWC" => Ok([1, 2, 3]),
        "NCHW" => Ok([2, 3, 1]),
        other => Err(InferError::Attr {
            attr: "data_format",
            reason: format!("{other} is for GPUs' bytes alone: use NHWC or NCHW"),
        }),
    }
}

/// Side of a block.
fn side(attrs: &Attrs) -> usize {
    usize::try_from(attrs.int("block_size")).unwrap_or(0).max(1)
}

fn whole(d: usize, by: usize, what: &str) -> Result<usize, InferError> {
    match d % by {
        0 => Ok(d / by),
        _ => Err(InferError::Attr {
            attr: "block_size",
            reason: format!("a {what} of {d} is no multiple of {by}"),
        }),
    }
}

fn shape(cx: &mut Infer<'_>, to_depth: bool) -> Result<(), InferError> {
    let shape = cx.ranked(0, 4)?;
    let (image_axes, side) = (image_axes(cx.attrs())?, side(cx.attrs()));
    let too_large = || InferError::Attr {
        attr: "block_size",
        reason: format!("blocks of {side} make the output too large"),
    };
    // The side is at most 2^20.
    let block = side * side;
    let mut dims: Vec<Option<usize>> = shape.dims().unwrap_or_default().to_vec();
    for (i, place) in image_axes.into_iter().enumerate() {
        let Some(d) = dims.get(place).copied().flatten() else {
            continue;
        };
        dims[place] = Some(match (to_depth, i) {
            (true, 2) => d.checked_mul(block).ok_or_else(too_large)?,
            (true, _) => whole(d, side, "height or width")?,
            (false, 2) => whole(d, block, "depth")?,
            (false, _) => d.checked_mul(side).ok_or_else(too_large)?,
        });
    }
    let shape = checked_shape(0, Shape::partial(dims))?;
    cx.set(0, shape);
    Ok(())
}

/// Copies from space to depth, or back.
fn moved(p: &Prepare<'_>, to_depth: bool) -> Result<BoxCopies, KernelError> {
    let [height, width, channels] =
        image_axes(&p.node.attrs).map_err(crate::support::shape_inputs::kernel_error)?;
    let side = side(&p.node.attrs);
    let (space, depth) = match to_depth {
        true => (p.dims(0), p.output_dims(0)),
        false => (p.output_dims(0), p.dims(0)),
    };
    if p.outputs[0].elements() == 0 {
        return Ok(BoxCopies::one(p, StridedCopy::default()));
    }
    let (in_space, in_depth) = (steps(space), steps(depth));
    let block = side as isize;
    let c = space[channels] as isize;
    // Each axis: length, step in the spatial tensor, step in the deep one.
    let axes = [
        (space[0], in_space[0], in_depth[0]),
        (depth[height], in_space[height] * block, in_depth[height]),
        (depth[width], in_space[width] * block, in_depth[width]),
        (side, in_space[height], in_depth[channels] * block * c),
        (side, in_space[width], in_depth[channels] * c),
        (space[channels], in_space[channels], in_depth[channels]),
    ]
    .map(|(len, space, depth)| match to_depth {
        true => CopyAxis {
            len,
            from: space,
            to: depth,
        },
        false => CopyAxis {
            len,
            from: depth,
            to: space,
        },
    });
    Ok(BoxCopies::one(p, StridedCopy::new(0, 0, &axes)?))
}

/// Gradient: the inverse op.
fn back<'g>(g: &GradCx<'_, 'g>, op: &str) -> thalweg_graph::op::InputGradients<'g> {
    let node = g.graph().op(op).input(g.grad());
    let node = node.attr("block_size", g.attrs().int("block_size"));
    smallvec![Some(
        node.attr("data_format", g.attrs().str("data_format"))
            .output()
    )]
}

/// Moves blocks of pixels to channels.
pub(crate) static SPACE_TO_DEPTH: Op = Op {
    def: OpDef {
        name: "SpaceToDepth",
        summary: "Images with each block of pixels as the channels of one.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| shape(cx, true),
        gradient: Gradient::Rule(|g| back(g, "DepthToSpace")),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(SPACE_TO_DEPTH, "T"),
        cpu(|p| moved(p, true)?.on_cpu()),
        gpu(|p| moved(p, true)?.on_gpu()),
    ],
};

/// Moves channels to blocks of pixels.
pub(crate) static DEPTH_TO_SPACE: Op = Op {
    def: OpDef {
        name: "DepthToSpace",
        summary: "Images with the channels of each pixel as a block of several.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| shape(cx, false),
        gradient: Gradient::Rule(|g| back(g, "SpaceToDepth")),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(DEPTH_TO_SPACE, "T"),
        cpu(|p| moved(p, false)?.on_cpu()),
        gpu(|p| moved(p, false)?.on_gpu()),
    ],
};
