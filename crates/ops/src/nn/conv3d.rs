//! Conv3D, Conv3DBackpropInputV2, Conv3DBackpropFilterV2, and the first versions of the gradients.

use smallvec::smallvec;
use thalweg_cpu::conv::{Pass, Real};
use thalweg_cpu::conv3d::{
    Conv3dGeometry, conv3d, conv3d_filter_grad, conv3d_input_grad, conv3d_scratch,
};
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, attr, ints_attr, type_attr, type_attr_or};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Element, Shape, dispatch};

use super::geometry::sizes_of_rank;
use super::pool::SAME_OR_VALID;
use super::volumes::{VOLUME_FORMAT, Volumes, countable, expect_result, node_like};
use crate::support::constants::shape_of;
use crate::support::cpu::slice_cpu;
use crate::support::widened::widened;

const ATTRS: &[AttrDef] = &[
    type_attr("T", DType::FLOATS),
    attr("strides", AttrKind::Ints),
    SAME_OR_VALID,
    VOLUME_FORMAT,
    ints_attr("dilations", &[1; 5]),
];

const INPUT_GRAD_ATTRS: &[AttrDef] = &[
    ATTRS[0],
    ATTRS[1],
    ATTRS[2],
    ATTRS[3],
    ATTRS[4],
    type_attr_or("Tshape", DType::INDICES, DType::I32),
];

const FIRST_ATTRS: &[AttrDef] = &[ATTRS[0], ATTRS[1], ATTRS[2], ATTRS[4]];

/// Shape of the convolution of volumes with a filter.
pub(super) fn output_shape(
    windows: &Volumes,
    i: usize,
    volumes: &Shape,
    filter: &Shape,
) -> Result<Shape, InferError> {
    let channels = volumes.dim(windows.channel());
    if let (Some(found), Some(expected)) = (channels, filter.dim(3))
        && found != expected
    {
        return Err(InferError::Mismatch {
            what: format!(
                "the volumes have {}, the filter is for {expected}",
                counted(found, "channel")
            ),
            left: volumes.clone(),
            right: filter.clone(),
        });
    }
    let window = [0, 1, 2].map(|axis| filter.dim(axis));
    windows.windows(i, volumes, window, filter.dim(4))
}

/// Shape of the gradient to volumes of this shape.
fn input_grad_shape(cx: &mut Infer<'_>, volumes: Shape, filter: &Shape) -> Result<(), InferError> {
    let windows = Volumes::of_gradient(cx.attrs())?;
    let result = output_shape(&windows, 0, &volumes, filter)?;
    let result = expect_result(cx, 2, &result)?;
    let known = windows.shape(result.dim(0), [None; 3], filter.dim(3));
    cx.set(0, volumes.merge(&known).unwrap_or(volumes));
    Ok(())
}

/// Shape of the gradient to a filter of this shape.
fn filter_grad_shape(cx: &mut Infer<'_>, filter: Shape) -> Result<(), InferError> {
    let windows = Volumes::of_gradient(cx.attrs())?;
    let volumes = cx.ranked(0, 5)?;
    let result = output_shape(&windows, 0, &volumes, &filter)?;
    let result = expect_result(cx, 2, &result)?;
    let channel = windows.channel();
    let known = [None, None, None, volumes.dim(channel), result.dim(channel)];
    cx.set(0, filter.merge(&Shape::partial(known)).unwrap_or(filter));
    Ok(())
}

/// Geometry of the convolution of volumes with a filter of these dimensions.
fn geometry(
    p: &Prepare<'_>,
    volumes: &[usize],
    filter: &[usize],
) -> Result<Conv3dGeometry, KernelError> {
    let windows = Volumes::of_gradient(&p.node.attrs);
    let windows = windows.map_err(|e| KernelError::Invalid(e.to_string()))?;
    let &[depth, lines, columns, in_c, out_c] = filter else {
        return Err(KernelError::Argument("a filter"));
    };
    if volumes.get(windows.channel()) != Some(&in_c) {
        return Err(KernelError::Argument("volumes with the filter's channels"));
    }
    let axes = windows.axes(volumes, [depth, lines, columns])?;
    let [a, b, c] = axes.map(|axis| axis.output);
    // The patches of one voxel are as many numbers as a filter for one channel.
    if !(countable(volumes) && countable(filter) && countable(&[volumes[0], a, b, c, out_c])) {
        return Err(KernelError::Invalid(format!(
            "a convolution of volumes {} with a filter {} is too large",
            Shape::known(volumes),
            Shape::known(filter)
        )));
    }
    Ok(Conv3dGeometry {
        batch: volumes[0],
        axes,
        in_c,
        out_c,
        layout: windows.layout,
    })
}

/// Kernel of a pass, whose operands are these inputs.
fn kernel<T: Real + Element>(
    p: &Prepare<'_>,
    g: Conv3dGeometry,
    pass: Pass,
    [a, b]: [usize; 2],
) -> Prepared {
    let scratch = conv3d_scratch::<T>(p.cpu.isa(), p.cpu.pool().threads(), &g, pass);
    // A multiplication and an addition take about a thirtieth of a nanosecond.
    let products = g.filter_len() as f64 * (g.output_len() / g.out_c.max(1)) as f64;
    let prepared = Prepared::new(g.input_len().max(g.output_len()), move |cx| {
        let cpu = slice_cpu(cx.cpu());
        let (a, b, out) = (cx.input::<T>(a)?, cx.input::<T>(b)?, cx.output::<T>(0)?);
        let scratch = cx.scratch::<u8>(scratch)?;
        match pass {
            Pass::Forward => conv3d(cpu, &g, a, b, out, scratch),
            Pass::ToInput => conv3d_input_grad(cpu, &g, a, b, out, scratch),
            Pass::ToFilter => conv3d_filter_grad(cpu, &g, a, b, out, scratch),
        }
        Ok(())
    });
    prepared
        .with_scratch(scratch)
        .with_cost(200 + (products / 30.0) as u64)
}

/// Kernel of the convolution of volumes of these dimensions.
pub(super) fn forward(p: &Prepare<'_>, volumes: &[usize]) -> Result<Prepared, KernelError> {
    let g = geometry(p, volumes, p.dims(1))?;
    widened(
        p,
        &[0, 1],
        &[0],
        &|p| dispatch!(p.dtype(0), [F32 F64], T => Ok(kernel::<T>(p, g, Pass::Forward, [0, 1])), else Err(KernelError::DType(p.dtype(0)))),
    )
}

fn to_volumes(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = geometry(p, p.output_dims(0), p.dims(1))?;
    widened(
        p,
        &[1, 2],
        &[0],
        &|p| dispatch!(p.dtype(1), [F32 F64], T => Ok(kernel::<T>(p, g, Pass::ToInput, [1, 2])), else Err(KernelError::DType(p.dtype(1)))),
    )
}

fn to_filter(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = geometry(p, p.dims(0), p.output_dims(0))?;
    widened(
        p,
        &[0, 2],
        &[0],
        &|p| dispatch!(p.dtype(0), [F32 F64], T => Ok(kernel::<T>(p, g, Pass::ToFilter, [0, 2])), else Err(KernelError::DType(p.dtype(0)))),
    )
}

/// Convolution of volumes with a filter.
pub(crate) static CONV_3D: Op = Op {
    def: OpDef {
        name: "Conv3D",
        summary: "The convolution of a batch of volumes with a filter of [depth, lines, columns, input channels, output channels].",
        inputs: &[arg("input", "T"), arg("filter", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let windows = Volumes::of(cx.attrs())?;
            let shape = output_shape(&windows, 0, &cx.ranked(0, 5)?, &cx.ranked(1, 5)?)?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let (x, w, dy) = (g.input(0), g.input(1), g.grad());
            let dx = node_like(g, "Conv3DBackpropInputV2").input(shape_of(x));
            let dw = node_like(g, "Conv3DBackpropFilterV2").input(x);
            let dw = dw.input(shape_of(w)).input(dy);
            smallvec![Some(dx.input(w).input(dy).output()), Some(dw.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| forward(p, p.dims(0)))],
};

/// Gradient of a convolution with respect to its volumes.
pub(crate) static CONV_3D_BACKPROP_INPUT_V2: Op = Op {
    def: OpDef {
        name: "Conv3DBackpropInputV2",
        summary: "The gradient of a convolution with respect to its volumes.",
        inputs: &[
            arg("input_sizes", "Tshape").host(),
            arg("filter", "T"),
            arg("out_backprop", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: INPUT_GRAD_ATTRS,
        shape: |cx| {
            let (volumes, filter) = (sizes_of_rank(cx, 0, 5)?, cx.ranked(1, 5)?);
            input_grad_shape(cx, volumes, &filter)
        },
        gradient: Gradient::Rule(|g| {
            let (w, dy, d) = (g.input(1), g.input(2), g.grad());
            let dw = node_like(g, "Conv3DBackpropFilterV2").input(d);
            let dw = dw.input(shape_of(w)).input(dy).output();
            let ddy = node_like(g, "Conv3D").input(d).input(w).output();
            smallvec![None, Some(dw), Some(ddy)]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(to_volumes)],
};

/// Gradient of a convolution with respect to its filter.
pub(crate) static CONV_3D_BACKPROP_FILTER_V2: Op = Op {
    def: OpDef {
        name: "Conv3DBackpropFilterV2",
        summary: "The gradient of a convolution with respect to its filter.",
        inputs: &[
            arg("input", "T"),
            arg_of("filter_sizes", DType::I32).host(),
            arg("out_backprop", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let filter = sizes_of_rank(cx, 1, 5)?;
            filter_grad_shape(cx, filter)
        },
        gradient: Gradient::Rule(|g| {
            let (x, dy, d) = (g.input(0), g.input(2), g.grad());
            let dx = node_like(g, "Conv3DBackpropInputV2").input(shape_of(x));
            let ddy = node_like(g, "Conv3D").input(x).input(d).output();
            smallvec![Some(dx.input(d).input(dy).output()), None, Some(ddy)]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(to_filter)],
};

/// Definition of a gradient's first version, which takes the tensors themselves in place of their sizes.
const FIRST: OpDef = OpDef {
    inputs: &[
        arg("input", "T"),
        arg("filter", "T"),
        arg("out_backprop", "T"),
    ],
    outputs: &[arg("output", "T")],
    attrs: FIRST_ATTRS,
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

const FIRST_TO_VOLUMES: &[Kernel] = &[cpu(to_volumes)];
const FIRST_TO_FILTER: &[Kernel] = &[cpu(to_filter)];

/// Gradient of a convolution with respect to its volumes.
pub(crate) static CONV_3D_BACKPROP_INPUT: Op = Op {
    def: OpDef {
        name: "Conv3DBackpropInput",
        summary: "The gradient of a convolution with respect to its volumes, which it takes for their shape.",
        shape: |cx| {
            let (volumes, filter) = (cx.ranked(0, 5)?, cx.ranked(1, 5)?);
            input_grad_shape(cx, volumes, &filter)
        },
        ..FIRST
    },
    kernels: FIRST_TO_VOLUMES,
};

/// Gradient of a convolution with respect to its filter.
pub(crate) static CONV_3D_BACKPROP_FILTER: Op = Op {
    def: OpDef {
        name: "Conv3DBackpropFilter",
        summary: "The gradient of a convolution with respect to its filter, which it takes for its shape.",
        shape: |cx| {
            let filter = cx.ranked(1, 5)?;
            filter_grad_shape(cx, filter)
        },
        ..FIRST
    },
    kernels: FIRST_TO_FILTER,
};
