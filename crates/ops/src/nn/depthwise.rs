//! DepthwiseConv2dNative, DepthwiseConv2dNativeBackpropInput, DepthwiseConv2dNativeBackpropFilter, and a fused op with an
//! epilogue.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, type_attr};
use thalweg_graph::{GradCx, Infer, InferError, NodeBuilder, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use super::conv2d::ATTRS as CONV_ATTRS;
use super::format::Sliding;
use super::geometry::{geometry, output_shape, sizes};
use crate::support::constants::shape_of;
use crate::support::cpu::slice_cpu;
use crate::support::epilogue::{ARGS, DTYPES, EPSILON, FUSED_OPS, FusedOps, NUM_ARGS};
use crate::support::widened::widened;
use thalweg_cpu::Scratch;
use thalweg_cpu::conv::ConvGeometry;
use thalweg_cpu::depthwise::{
    depthwise, depthwise_filter_grad, depthwise_filter_grad_scratch, depthwise_input_grad,
    depthwise_scratch,
};

const ATTRS: &[AttrDef] = &[
    type_attr("T", DType::FLOATS),
    CONV_ATTRS[1],
    CONV_ATTRS[3],
    CONV_ATTRS[4],
    CONV_ATTRS[5],
    CONV_ATTRS[6],
];

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

/// Shape of the filter as that of a convolution: `[height, width, input channels, output channels]`.
fn as_filter(filter: &Shape) -> Result<Shape, InferError> {
    let channels = match (filter.dim(2), filter.dim(3)) {
        (Some(c), Some(each)) => Some(c.checked_mul(each).ok_or_else(|| InferError::Value {
            input: 1,
            reason: format!("a filter {filter} has too many channels"),
        })?),
        _ => None,
    };
    Ok(Shape::partial([
        filter.dim(0),
        filter.dim(1),
        filter.dim(2),
        channels,
    ]))
}

/// Checks that the gradient of the output has the output's shape.
fn expect_output(cx: &Infer<'_>, image: &Shape, filter: &Shape) -> Result<Shape, InferError> {
    let sliding = Sliding::of_gradient(cx.attrs())?;
    let expected = output_shape(&sliding, 0, image, &as_filter(filter)?)?;
    let found = cx.ranked(2, 4)?;
    expected.merge(&found).ok_or_else(|| InferError::Mismatch {
        what: "out_backprop must have the shape of the convolution's output".to_owned(),
        left: found,
        right: expected,
    })
}

/// Geometry for images and a filter of these dimensions.
pub(crate) fn lengths(
    p: &Prepare<'_>,
    image: &[usize],
    filter: &[usize],
) -> Result<ConvGeometry, KernelError> {
    let &[h, w, channels, each] = filter else {
        return Err(KernelError::Argument("a filter"));
    };
    let whole = channels
        .checked_mul(each)
        .ok_or(KernelError::Argument("a filter of fewer channels"))?;
    geometry(&Sliding::of_node(p)?, image, &[h, w, channels, whole])
}

/// Convolution of each channel with its own filters.
pub(crate) static DEPTHWISE_CONV_2D_NATIVE: Op = Op {
    def: OpDef {
        name: "DepthwiseConv2dNative",
        summary: "The convolution of each channel of a batch of images with filters of its own, of [lines, columns, channels, filters of a channel].",
        inputs: &[arg("input", "T"), arg("filter", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let (image, filter) = (cx.ranked(0, 4)?, cx.ranked(1, 4)?);
            let sliding = Sliding::of(cx.attrs())?;
            let out = output_shape(&sliding, 0, &image, &as_filter(&filter)?)?;
            cx.set(0, out);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (x, w, dy) = (g.input(0), g.input(1), g.grad());
            let dx = node_like(g, "DepthwiseConv2dNativeBackpropInput").input(shape_of(x));
            let dw = node_like(g, "DepthwiseConv2dNativeBackpropFilter").input(x);
            smallvec![
                Some(dx.input(w).input(dy).output()),
                Some(dw.input(shape_of(w)).input(dy).output())
            ]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| widened(p, &[0, 1], &[0], &|p| convolution(p, FusedOps::NONE))),
        gpu(|p| {
            let g = lengths(p, p.dims(0), p.dims(1))?;
            Ok(crate::gpu::depthwise(p, &g, [0, 1]))
        }),
    ],
};

/// Convolution of each channel with its own filters, followed by a bias or a batch normalization of each output channel,
/// and an epilogue. Created by the planner.
pub static FUSED_DEPTHWISE_CONV_2D: Op = Op {
    def: OpDef {
        name: "_FusedDepthwiseConv2dNative",
        summary: "The convolution of each channel with filters of its own, then a bias or a batch normalization of each channel, and an epilogue.",
        inputs: &[arg("input", "T"), arg("filter", "T"), ARGS],
        attrs: &[
            type_attr("T", DTYPES),
            ATTRS[1],
            ATTRS[2],
            ATTRS[3],
            ATTRS[4],
            ATTRS[5],
            NUM_ARGS,
            FUSED_OPS,
            EPSILON,
        ],
        gradient: Gradient::None,
        ..DEPTHWISE_CONV_2D_NATIVE.def
    },
    kernels: &[cpu(|p| {
        let ops = FusedOps::parse(&p.node.attrs)?;
        ops.without_residual("a depthwise convolution")?;
        convolution(p, ops)
    })],
};

/// Kernel of a convolution with its epilogue.
fn convolution(p: &Prepare<'_>, ops: FusedOps) -> Result<Prepared, KernelError> {
    let g = lengths(p, p.dims(0), p.dims(1))?;
    let run = dispatch!(p.dtype(0), [F32 F64], T => {
        let own = depthwise_scratch::<T>(p.cpu.pool().threads(), &g);
        let room = ops.room(g.out_c);
        let scratch = Scratch::bytes::<T>(room) + own;
        Prepared::new(0, move |cx| {
            let (x, w, y) = (cx.input::<T>(0)?, cx.input::<T>(1)?, cx.output::<T>(0)?);
            let mut scratch = Scratch::new(cx.scratch::<u8>(scratch)?);
            let epilogue = ops.epilogue::<T>(cx, scratch.take::<T>(room), y)?;
            depthwise(slice_cpu(cx.cpu()), &g, [x, w], epilogue, y, scratch.rest());
            Ok(())
        })
        .with_scratch(scratch)
    }, else return Err(KernelError::DType(p.dtype(0))));
    Ok(run.with_cost(cost(&g)))
}

/// Gradient of a depthwise convolution with respect to its images.
pub(crate) static DEPTHWISE_CONV_2D_NATIVE_BACKPROP_INPUT: Op = Op {
    def: OpDef {
        name: "DepthwiseConv2dNativeBackpropInput",
        summary: "The gradient of a depthwise convolution with respect to its images.",
        inputs: &[
            arg_of("input_sizes", DType::I32).host(),
            arg("filter", "T"),
            arg("out_backprop", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let (image, filter) = (sizes(cx, 0)?, cx.ranked(1, 4)?);
            let out = expect_output(cx, &image, &filter)?;
            let format = Sliding::of(cx.attrs())?.format;
            let known = Shape::partial(format.order(out.dim(0), filter.dim(2), [None; 2]));
            cx.set(0, image.merge(&known).unwrap_or(image));
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (w, dy, d) = (g.input(1), g.input(2), g.grad());
            let dw = node_like(g, "DepthwiseConv2dNativeBackpropFilter").input(d);
            let ddy = node_like(g, "DepthwiseConv2dNative").input(d).input(w);
            let dw = dw.input(shape_of(w)).input(dy);
            smallvec![None, Some(dw.output()), Some(ddy.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let g = lengths(p, p.output_dims(0), p.dims(1))?;
            let run = widened(p, &[1, 2], &[0], &|p| {
                dispatch!(p.dtype(1), [F32 F64], T => {
            let scratch = depthwise_scratch::<T>(p.cpu.pool().threads(), &g);
            Ok(Prepared::new(0, move |cx| {
                let (w, dy, dx) = (cx.input::<T>(1)?, cx.input::<T>(2)?, cx.output::<T>(0)?);
                let scratch = cx.scratch::<u8>(scratch)?;
                depthwise_input_grad(slice_cpu(cx.cpu()), &g, [w, dy], dx, scratch);
                Ok(())
            })
            .with_scratch(scratch))
        }, else Err(KernelError::DType(p.dtype(1))))
            })?;
            Ok(run.with_cost(cost(&g)))
        }),
        gpu(|p| {
            let g = lengths(p, p.output_dims(0), p.dims(1))?;
            Ok(crate::gpu::depthwise(p, &g, [1, 2]))
        }),
    ],
};

/// Gradient of a depthwise convolution with respect to its filter.
pub(crate) static DEPTHWISE_CONV_2D_NATIVE_BACKPROP_FILTER: Op = Op {
    def: OpDef {
        name: "DepthwiseConv2dNativeBackpropFilter",
        summary: "The gradient of a depthwise convolution with respect to its filter.",
        inputs: &[
            arg("input", "T"),
            arg_of("filter_sizes", DType::I32).host(),
            arg("out_backprop", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let (image, filter) = (cx.ranked(0, 4)?, sizes(cx, 1)?);
            expect_output(cx, &image, &filter)?;
            let format = Sliding::of(cx.attrs())?.format;
            let known = Shape::partial([None, None, image.dim(format.channel(4)), None]);
            cx.set(0, filter.merge(&known).unwrap_or(filter));
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (x, dy, d) = (g.input(0), g.input(2), g.grad());
            let dx = node_like(g, "DepthwiseConv2dNativeBackpropInput").input(shape_of(x));
            let ddy = node_like(g, "DepthwiseConv2dNative").input(x).input(d);
            let dx = dx.input(d).input(dy);
            smallvec![Some(dx.output()), None, Some(ddy.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let g = lengths(p, p.dims(0), p.output_dims(0))?;
            let run = widened(p, &[0, 2], &[0], &|p| {
                dispatch!(p.dtype(0), [F32 F64], T => {
            let scratch = depthwise_filter_grad_scratch::<T>(&g);
            Ok(Prepared::new(0, move |cx| {
                let (x, dy, dw) = (cx.input::<T>(0)?, cx.input::<T>(2)?, cx.output::<T>(0)?);
                let scratch = cx.scratch::<u8>(scratch)?;
                depthwise_filter_grad(slice_cpu(cx.cpu()), &g, x, dy, dw, scratch);
                Ok(())
            })
            .with_scratch(scratch))
        }, else Err(KernelError::DType(p.dtype(0))))
            })?;
            Ok(run.with_cost(cost(&g)))
        }),
        gpu(|p| {
            let g = lengths(p, p.dims(0), p.output_dims(0))?;
            Ok(crate::gpu::depthwise_filter(p, &g))
        }),
    ],
};

/// Estimate: a multiplication and an addition take about an eighth of a nanosecond.
fn cost(g: &ConvGeometry) -> u64 {
    let outputs = g.batch as f64 * g.out_h as f64 * g.out_w as f64 * g.out_c as f64;
    200 + (outputs * g.k_h as f64 * g.k_w as f64 / 8.0) as u64
}
