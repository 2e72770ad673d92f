//! Conv2D, Conv2DBackpropInput, Conv2DBackpropFilter, and a fused op with an epilogue.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, cpu, gpu};
use thalweg_graph::op::{
    AttrDef, Gradient, arg, arg_of, attr, bool_attr, ints_attr, str_attr, type_attr,
};
use thalweg_graph::{AttrKind, GradCx, Infer, InferError, NodeBuilder, OpDef};
use thalweg_tensor::{DType, Shape};

use super::conv_kernels::{convolution, with_epilogue};
use super::format::Sliding;
use super::geometry::{grouped_geometry, groups, output_shape, sizes};
use crate::support::constants::shape_of;
use crate::support::conv_groups::ConvDirection;
use crate::support::epilogue::DTYPES;
use crate::support::epilogue::{ARGS, EPSILON, FUSED_OPS, FusedOps, NUM_ARGS};

pub(super) const ATTRS: &[AttrDef] = &[
    type_attr(
        "T",
        &[DType::F16, DType::BF16, DType::F32, DType::F64, DType::I32],
    ),
    attr("strides", AttrKind::Ints),
    bool_attr("use_cudnn_on_gpu", true),
    PADDING,
    ints_attr("explicit_paddings", &[]),
    FORMAT,
    ints_attr("dilations", &[1, 1, 1, 1]),
];

const FILTER_GRAD_ATTRS: &[AttrDef] = &[
    type_attr("T", DType::FLOATS),
    ATTRS[1],
    ATTRS[2],
    ATTRS[3],
    ATTRS[4],
    ATTRS[5],
    ATTRS[6],
];

/// Attribute `padding` of convolutions, which has no default.
pub(super) const PADDING: AttrDef = AttrDef {
    default: thalweg_graph::op::Default::Required,
    ..str_attr("padding", "", &["SAME", "VALID", "EXPLICIT"])
};

/// Attribute `data_format`.
pub(super) const FORMAT: AttrDef = str_attr("data_format", "NHWC", &["NHWC", "NCHW"]);

/// Node of `op` with the attributes of this node.
fn node_like<'g>(g: &GradCx<'_, 'g>, op: &str) -> NodeBuilder<'g> {
    let copied = ATTRS.iter().filter(|attr| attr.name != "T");
    copied.fold(g.graph().op(op), |node, attr| {
        match g.attrs().get(attr.name) {
            Some(value) => node.attr(attr.name, value.clone()),
            None => node,
        }
    })
}

/// Output shape of a convolution of `image` with `filter`, whose input channels may be those of a group.
pub(super) fn grouped_shape(
    sliding: &Sliding,
    image_at: usize,
    image: &Shape,
    filter: &Shape,
) -> Result<Shape, InferError> {
    groups(sliding.format, image, filter)?;
    let [lines, columns, _, out] = [0, 1, 2, 3].map(|axis| filter.dim(axis));
    let whole = Shape::partial([lines, columns, None, out]);
    output_shape(sliding, image_at, image, &whole)
}

/// Checks that the gradient of the output has the output's shape.
fn expect_output(
    cx: &Infer<'_>,
    sliding: &Sliding,
    image_at: usize,
    image: &Shape,
    filter: &Shape,
) -> Result<Shape, InferError> {
    let (expected, found) = (
        grouped_shape(sliding, image_at, image, filter)?,
        cx.ranked(2, 4)?,
    );
    expected.merge(&found).ok_or_else(|| InferError::Mismatch {
        what: "out_backprop must have the shape of the convolution's output".to_owned(),
        left: found,
        right: expected,
    })
}

/// Convolution of images with a filter.
pub(crate) static CONV_2D: Op = Op {
    def: OpDef {
        name: "Conv2D",
        summary: "The convolution of a batch of images with a filter of [lines, columns, input channels, output channels].",
        inputs: &[arg("input", "T"), arg("filter", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let sliding = Sliding::of(cx.attrs())?;
            let out = grouped_shape(&sliding, 0, &cx.ranked(0, 4)?, &cx.ranked(1, 4)?)?;
            cx.set(0, out);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (x, w, dy) = (g.input(0), g.input(1), g.grad());
            let dx = node_like(g, "Conv2DBackpropInput")
                .input(shape_of(x))
                .input(w);
            let dw = node_like(g, "Conv2DBackpropFilter")
                .input(x)
                .input(shape_of(w));
            smallvec![Some(dx.input(dy).output()), Some(dw.input(dy).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let groups = grouped_geometry(&Sliding::of_node(p)?, p.dims(0), p.dims(1))?;
            convolution(p, ConvDirection::Forward, groups)
        }),
        gpu(|p| {
            let groups = grouped_geometry(&Sliding::of_node(p)?, p.dims(0), p.dims(1))?;
            crate::gpu::convolution(p, ConvDirection::Forward, &groups)
        }),
    ],
};

/// Convolution of images with a filter, followed by a bias or a batch normalization of each output channel, and an
/// epilogue. Created by the planner.
pub static FUSED_CONV_2D: Op = Op {
    def: OpDef {
        name: "_FusedConv2D",
        summary: "The convolution of a batch of images with a filter, then a bias or a batch normalization of each channel, and an epilogue.",
        inputs: &[arg("input", "T"), arg("filter", "T"), ARGS],
        attrs: &[
            type_attr("T", DTYPES),
            ATTRS[1],
            ATTRS[2],
            ATTRS[3],
            ATTRS[4],
            ATTRS[5],
            ATTRS[6],
            NUM_ARGS,
            FUSED_OPS,
            EPSILON,
        ],
        gradient: Gradient::None,
        ..CONV_2D.def
    },
    kernels: &[cpu(|p| {
        let groups = grouped_geometry(&Sliding::of_node(p)?, p.dims(0), p.dims(1))?;
        with_epilogue(p, groups, FusedOps::parse(&p.node.attrs)?)
    })],
};

/// Gradient of a convolution with respect to its images.
pub(crate) static CONV_2D_BACKPROP_INPUT: Op = Op {
    def: OpDef {
        name: "Conv2DBackpropInput",
        summary: "The gradient of a convolution with respect to its images.",
        inputs: &[
            arg_of("input_sizes", DType::I32).host(),
            arg("filter", "T"),
            arg("out_backprop", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let sliding = Sliding::of_gradient(cx.attrs())?;
            let (image, filter) = (sizes(cx, 0)?, cx.ranked(1, 4)?);
            let out = expect_output(cx, &sliding, 0, &image, &filter)?;
            // Merges the dimension known from the gradient with those of the sizes; they were checked to agree. The
            // filter may be for a group of the channels.
            let known = sliding.format.order(out.dim(0), None, [None; 2]);
            cx.set(0, image.merge(&Shape::partial(known)).unwrap_or(image));
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (w, dy, d) = (g.input(1), g.input(2), g.grad());
            let dw = node_like(g, "Conv2DBackpropFilter")
                .input(d)
                .input(shape_of(w));
            let ddy = node_like(g, "Conv2D").input(d).input(w);
            smallvec![None, Some(dw.input(dy).output()), Some(ddy.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let groups = grouped_geometry(&Sliding::of_node(p)?, p.output_dims(0), p.dims(1))?;
            convolution(p, ConvDirection::ToImages, groups)
        }),
        gpu(|p| {
            let groups = grouped_geometry(&Sliding::of_node(p)?, p.output_dims(0), p.dims(1))?;
            crate::gpu::convolution(p, ConvDirection::ToImages, &groups)
        }),
    ],
};

/// Gradient of a convolution with respect to its filter.
pub(crate) static CONV_2D_BACKPROP_FILTER: Op = Op {
    def: OpDef {
        name: "Conv2DBackpropFilter",
        summary: "The gradient of a convolution with respect to its filter.",
        inputs: &[
            arg("input", "T"),
            arg_of("filter_sizes", DType::I32).host(),
            arg("out_backprop", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: FILTER_GRAD_ATTRS,
        shape: |cx| {
            let sliding = Sliding::of_gradient(cx.attrs())?;
            let (image, filter) = (cx.ranked(0, 4)?, sizes(cx, 1)?);
            let out = expect_output(cx, &sliding, 0, &image, &filter)?;
            let known = Shape::partial([None, None, None, out.dim(sliding.format.channel(4))]);
            cx.set(0, filter.merge(&known).unwrap_or(filter));
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (x, dy, d) = (g.input(0), g.input(2), g.grad());
            let dx = node_like(g, "Conv2DBackpropInput")
                .input(shape_of(x))
                .input(d);
            let ddy = node_like(g, "Conv2D").input(x).input(d);
            smallvec![Some(dx.input(dy).output()), None, Some(ddy.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let groups = grouped_geometry(&Sliding::of_node(p)?, p.dims(0), p.output_dims(0))?;
            convolution(p, ConvDirection::ToFilter, groups)
        }),
        gpu(|p| {
            let groups = grouped_geometry(&Sliding::of_node(p)?, p.dims(0), p.output_dims(0))?;
            crate::gpu::convolution(p, ConvDirection::ToFilter, &groups)
        }),
    ],
};

impl Sliding {
    /// Reads the attributes of the node when a kernel is prepared: the shape rule has refused windows that do not fit.
    ///
    /// # Errors
    /// [`KernelError::Invalid`].
    pub(super) fn of_node(p: &Prepare<'_>) -> Result<Sliding, KernelError> {
        Sliding::of_gradient(&p.node.attrs).map_err(|e| KernelError::Invalid(e.to_string()))
    }
}
