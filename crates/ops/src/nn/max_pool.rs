//! MaxPool, MaxPoolGrad, MaxPoolGradGrad, and their V2 versions, which take the windows as inputs instead of attributes.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{
    Arg, AttrDef, Gradient, arg, arg_of, attr, ints_attr, type_attr, type_attr_or,
};
use thalweg_graph::{AttrKind, GradCx, Infer, InferError, NodeBuilder, OpDef};
use thalweg_tensor::{DType, dispatch};

use super::conv2d::{FORMAT, PADDING};
use super::pool::{
    SAME_OR_VALID, expect_pooled, geometry, output_shape, pool_kernel, refined_shape,
};
use crate::support::cpu::slice_cpu;
use crate::support::widened::{widened, widened_ints};
use thalweg_cpu::pooling::{max_pool, max_pool_grad, max_pool_grad_grad};

pub(super) const ATTRS: &[AttrDef] = &[
    type_attr_or("T", DType::NUMBERS, DType::F32),
    attr("ksize", AttrKind::Ints),
    attr("strides", AttrKind::Ints),
    PADDING,
    ints_attr("explicit_paddings", &[]),
    FORMAT,
];

const ATTRS_V2: &[AttrDef] = &[ATTRS[0], SAME_OR_VALID, FORMAT];

const GRAD_GRAD_ATTRS: &[AttrDef] = &[
    attr("ksize", AttrKind::Ints),
    attr("strides", AttrKind::Ints),
    SAME_OR_VALID,
    FORMAT,
    type_attr("T", DType::NUMBERS),
];

const GRAD_GRAD_ATTRS_V2: &[AttrDef] = &[SAME_OR_VALID, FORMAT, type_attr("T", DType::NUMBERS)];

/// Inputs of gradients; the first three if the windows are attributes.
const GRAD_INPUTS: &[Arg] = &[
    arg("orig_input", "T"),
    arg("orig_output", "T"),
    arg("grad", "T"),
    arg_of("ksize", DType::I32).host(),
    arg_of("strides", DType::I32).host(),
];

/// Node of `op` with those attributes of this node that both have.
fn node_like<'g>(g: &GradCx<'_, 'g>, op: &str, of: &[&'static str]) -> NodeBuilder<'g> {
    of.iter()
        .fold(g.graph().op(op), |node, name| match g.attrs().get(name) {
            Some(value) => node.attr(name, value.clone()),
            None => node,
        })
}

/// Attributes that describe the windows.
const WINDOWS: &[&str] = &["ksize", "strides", "padding", "data_format"];

fn forward_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let out = output_shape(cx, 0, &cx.ranked(0, 4)?)?;
    cx.set(0, out);
    Ok(())
}

fn backward_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let image = cx.ranked(0, 4)?;
    let pooled = output_shape(cx, 0, &image)?;
    let pooled = expect_pooled(cx, 1, &pooled)?;
    let pooled = expect_pooled(cx, 2, &pooled)?;
    cx.set(0, refined_shape(cx, image, &pooled)?);
    Ok(())
}

fn forward_again_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    (0..3).try_for_each(|i| cx.ranked(i, 4).map(drop))?;
    let image = cx.same(0, 2)?;
    let pooled = output_shape(cx, 0, &image)?;
    let pooled = expect_pooled(cx, 1, &pooled)?;
    cx.set(0, pooled);
    Ok(())
}

fn forward(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = geometry(p, p.dims(0))?;
    widened(p, &[0], &[0], &|p| {
        dispatch!(p.dtype(0), [F32 F64 I64 U64], T => Ok(pool_kernel(g, move |cx| {
        max_pool::<T>(slice_cpu(cx.cpu()), &g, cx.input(0)?, cx.output(0)?);
        Ok(())
    })), else Err(KernelError::DType(p.dtype(0))))
    })
}

fn backward(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = geometry(p, p.dims(0))?;
    widened_ints(p, &[0, 2], &[0], &|p| {
        dispatch!(p.dtype(0), [F16 BF16 F32 F64 I64 U64], T => Ok(pool_kernel(g, move |cx| {
        max_pool_grad::<T>(slice_cpu(cx.cpu()), &g, cx.input(0)?, cx.input(2)?, cx.output(0)?);
        Ok(())
    })), else Err(KernelError::DType(p.dtype(0))))
    })
}

fn forward_again(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = geometry(p, p.dims(0))?;
    widened(p, &[0, 2], &[0], &|p| {
        dispatch!(p.dtype(0), [F32 F64 I64 U64], T => Ok(pool_kernel(g, move |cx| {
        max_pool_grad_grad::<T>(slice_cpu(cx.cpu()), &g, cx.input(0)?, cx.input(2)?, cx.output(0)?);
        Ok(())
    })), else Err(KernelError::DType(p.dtype(0))))
    })
}

/// Maximum of each window.
pub(crate) static MAX_POOL: Op = Op {
    def: OpDef {
        name: "MaxPool",
        summary: "The largest element of each window, channel by channel.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: forward_shape,
        gradient: Gradient::Rule(|g| {
            let node = node_like(g, "MaxPoolGrad", WINDOWS);
            let node = match g.attrs().get("explicit_paddings") {
                Some(value) => node.attr("explicit_paddings", value.clone()),
                None => node,
            };
            let node = node.input(g.input(0)).input(g.output(0)).input(g.grad());
            smallvec![Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(forward),
        gpu(|p| {
            Ok(crate::gpu::pool(
                p,
                "MaxPool",
                &geometry(p, p.dims(0))?,
                &[0],
            ))
        }),
    ],
};

/// Maximum of each window.
pub(crate) static MAX_POOL_V2: Op = Op {
    def: OpDef {
        name: "MaxPoolV2",
        summary: "The largest element of each window, channel by channel.",
        inputs: &[
            arg("input", "T"),
            arg_of("ksize", DType::I32).host(),
            arg_of("strides", DType::I32).host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS_V2,
        shape: forward_shape,
        gradient: Gradient::Rule(|g| {
            let node = node_like(g, "MaxPoolGradV2", WINDOWS).input(g.input(0));
            let node = node.input(g.output(0)).input(g.grad());
            let node = node.input(g.input(1)).input(g.input(2));
            smallvec![Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(forward),
        gpu(|p| {
            Ok(crate::gpu::pool(
                p,
                "MaxPool",
                &geometry(p, p.dims(0))?,
                &[0],
            ))
        }),
    ],
};

/// Adds the gradient of each window at the first of its largest elements.
pub(crate) static MAX_POOL_GRAD: Op = Op {
    def: OpDef {
        name: "MaxPoolGrad",
        summary: "The gradient of MaxPool: that of each window goes to the first of its largest elements.",
        inputs: GRAD_INPUTS.split_at(3).0,
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: backward_shape,
        gradient: Gradient::Rule(|g| {
            // The index of the largest element is locally constant.
            let node = node_like(g, "MaxPoolGradGrad", WINDOWS).input(g.input(0));
            let node = node.input(g.input(1)).input(g.grad());
            smallvec![None, None, Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(backward),
        gpu(|p| {
            Ok(crate::gpu::pool(
                p,
                "MaxPoolGrad",
                &geometry(p, p.dims(0))?,
                &[0, 2],
            ))
        }),
    ],
};

/// Adds the gradient of each window at the first of its largest elements.
pub(crate) static MAX_POOL_GRAD_V2: Op = Op {
    def: OpDef {
        name: "MaxPoolGradV2",
        summary: "The gradient of MaxPoolV2: that of each window goes to the first of its largest elements.",
        inputs: GRAD_INPUTS,
        outputs: &[arg("output", "T")],
        attrs: ATTRS_V2,
        shape: backward_shape,
        gradient: Gradient::Rule(|g| {
            let node = node_like(g, "MaxPoolGradGradV2", WINDOWS).input(g.input(0));
            let node = node.input(g.input(1)).input(g.grad());
            let node = node.input(g.input(3)).input(g.input(4));
            smallvec![None, None, Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(backward),
        gpu(|p| {
            Ok(crate::gpu::pool(
                p,
                "MaxPoolGrad",
                &geometry(p, p.dims(0))?,
                &[0, 2],
            ))
        }),
    ],
};

/// For each window, the value at the first of its largest elements.
pub(crate) static MAX_POOL_GRAD_GRAD: Op = Op {
    def: OpDef {
        name: "MaxPoolGradGrad",
        summary: "The gradient of MaxPoolGrad: for each window that of the first of its largest elements.",
        inputs: GRAD_INPUTS.split_at(3).0,
        outputs: &[arg("output", "T")],
        attrs: GRAD_GRAD_ATTRS,
        shape: forward_again_shape,
        gradient: Gradient::Rule(|g| {
            let node = node_like(g, "MaxPoolGrad", WINDOWS).input(g.input(0));
            let node = node.input(g.input(1)).input(g.grad());
            smallvec![None, None, Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(forward_again),
        gpu(|p| {
            Ok(crate::gpu::pool(
                p,
                "MaxPoolGradGrad",
                &geometry(p, p.dims(0))?,
                &[0, 2],
            ))
        }),
    ],
};

/// For each window, the value at the first of its largest elements.
pub(crate) static MAX_POOL_GRAD_GRAD_V2: Op = Op {
    def: OpDef {
        name: "MaxPoolGradGradV2",
        summary: "The gradient of MaxPoolGradV2: for each window that of the first of its largest elements.",
        inputs: GRAD_INPUTS,
        outputs: &[arg("output", "T")],
        attrs: GRAD_GRAD_ATTRS_V2,
        shape: forward_again_shape,
        gradient: Gradient::Rule(|g| {
            let node = node_like(g, "MaxPoolGradV2", WINDOWS).input(g.input(0));
            let node = node.input(g.input(1)).input(g.grad());
            let node = node.input(g.input(3)).input(g.input(4));
            smallvec![None, None, Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(forward_again),
        gpu(|p| {
            Ok(crate::gpu::pool(
                p,
                "MaxPoolGradGrad",
                &geometry(p, p.dims(0))?,
                &[0, 2],
            ))
        }),
    ],
};
