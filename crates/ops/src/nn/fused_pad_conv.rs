//! FusedPadConv2D, FusedResizeAndPadConv2D: convolutions of padded images, as TensorFlow's optimizer of graphs for
//! inference makes them.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, attr, bool_attr, str_attr, type_attr};
use thalweg_graph::{Attr, AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::{conv2d, resize};
use crate::array::layout::mirror_pad;
use crate::array::value::cast_bitcast;
use crate::support::inner_nodes::run_inner;

const MODE: AttrDef = str_attr("mode", "", &["REFLECT", "SYMMETRIC"]);
const STRIDES: AttrDef = attr("strides", AttrKind::Ints);
const PADDING: AttrDef = str_attr("padding", "", &["SAME", "VALID"]);

/// Images of as many channels as there are filters; their size follows from values.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let last = cx.inputs() - 1;
    let (images, filter) = (cx.ranked(0, 4)?, cx.ranked(last, 4)?);
    for i in 1..last {
        let rank = if i + 1 == last { 2 } else { 1 };
        cx.ranked(i, rank)?;
    }
    cx.set(
        0,
        Shape::partial([images.dim(0), None, None, filter.dim(3)]),
    );
    Ok(())
}

/// Pads `images` as input `paddings` says, and convolves them with the last input.
fn padded(cx: &TensorCx<'_>, images: &Tensor, paddings: usize) -> Result<Vec<Tensor>, KernelError> {
    let attrs = cx.attrs();
    let dtype = Attr::Type(images.dtype());
    let mode = Attr::Str(attrs.str("mode").to_owned());
    let own = [("T", dtype.clone()), ("mode", mode)];
    let pad = run_inner(
        cx,
        &mirror_pad::MIRROR_PAD,
        &own,
        &[images, cx.tensor(paddings)?],
    )?;
    let images = pad.first().ok_or(KernelError::Argument("images"))?;
    let own = [
        ("T", dtype),
        ("strides", Attr::Ints(attrs.ints("strides").to_vec())),
        ("padding", Attr::Str(attrs.str("padding").to_owned())),
    ];
    run_inner(
        cx,
        &conv2d::CONV_2D,
        &own,
        &[images, cx.tensor(paddings + 1)?],
    )
}

/// A convolution of padded images.
pub(crate) static FUSED_PAD_CONV_2D: Op = Op {
    def: OpDef {
        name: "FusedPadConv2D",
        summary: "A convolution of images that are padded with their own pixels.",
        inputs: &[
            arg("input", "T"),
            arg_of("paddings", DType::I32),
            arg("filter", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", DType::FLOATS), MODE, STRIDES, PADDING],
        shape,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| padded(cx, cx.tensor(0)?, 1))],
};

fn resized(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let images = cx.tensor(0)?;
    let dtype = Attr::Type(images.dtype());
    let corners = cx.attrs().bool("resize_align_corners");
    let own = [("T", dtype.clone()), ("align_corners", Attr::Bool(corners))];
    let mut images = run_inner(cx, &resize::RESIZE_BILINEAR, &own, &[images, cx.tensor(1)?])?;
    if dtype != Attr::Type(DType::F32) {
        let own = [("SrcT", Attr::Type(DType::F32)), ("DstT", dtype)];
        let all: Vec<&Tensor> = images.iter().collect();
        images = run_inner(cx, &cast_bitcast::CAST, &own, &all)?;
    }
    let images = images.first().ok_or(KernelError::Argument("images"))?;
    padded(cx, images, 2)
}

/// A convolution of padded images of another size.
pub(crate) static FUSED_RESIZE_AND_PAD_CONV_2D: Op = Op {
    def: OpDef {
        name: "FusedResizeAndPadConv2D",
        summary: "A convolution of images that are resized, and padded with their own pixels.",
        inputs: &[
            arg("input", "T"),
            arg_of("size", DType::I32),
            arg_of("paddings", DType::I32),
            arg("filter", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &[DType::F16, DType::F32, DType::F64]),
            bool_attr("resize_align_corners", false),
            MODE,
            STRIDES,
            PADDING,
        ],
        shape,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(resized)],
};
