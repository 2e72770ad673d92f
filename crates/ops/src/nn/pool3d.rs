//! MaxPool3D, AvgPool3D, and their gradients.

use smallvec::smallvec;
use thalweg_cpu::Layout;
use thalweg_cpu::pooling3d::{
    Pool3dGeometry, avg_pool3d, avg_pool3d_grad, avg_pool3d_grad_scratch, max_pool3d,
    max_pool3d_grad, max_pool3d_grad_grad, pool3d_scratch,
};
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, attr, type_attr, type_attr_or};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use super::geometry::sizes_of_rank;
use super::pool::SAME_OR_VALID;
use super::volumes::{VOLUME_FORMAT, Volumes, countable, expect_result, layout, node_like, triple};
use crate::support::constants::shape_of;
use crate::support::cpu::slice_cpu;
use crate::support::widened::widened;

const ATTRS: &[AttrDef] = &[
    attr("ksize", AttrKind::Ints),
    attr("strides", AttrKind::Ints),
    SAME_OR_VALID,
    VOLUME_FORMAT,
    type_attr("T", DType::FLOATS),
];

const MAX_GRAD_ATTRS: &[AttrDef] = &[
    ATTRS[0],
    ATTRS[1],
    ATTRS[2],
    ATTRS[3],
    type_attr_or("T", DType::FLOATS, DType::F32),
    type_attr_or("TInput", DType::FLOATS, DType::F32),
];

const MAX_GRAD_INPUTS: &[Arg] = &[
    arg("orig_input", "TInput"),
    arg("orig_output", "TInput"),
    arg("grad", "T"),
];

/// Shape of the pooled output for volumes of this shape.
fn output_shape(cx: &Infer<'_>, volumes: &Shape) -> Result<Shape, InferError> {
    let windows = Volumes::of(cx.attrs())?;
    let window = triple(windows.layout, cx.attrs(), "ksize")?;
    let channels = volumes.dim(windows.channel());
    windows.windows(0, volumes, window.map(Some), channels)
}

fn forward_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let out = output_shape(cx, &cx.ranked(0, 5)?)?;
    cx.set(0, out);
    Ok(())
}

/// Sets the shape of the volumes, as far as that and the pooled one of input `i` tell it.
fn set_volumes(cx: &mut Infer<'_>, volumes: Shape, i: usize) -> Result<(), InferError> {
    let pooled = expect_result(cx, i, &output_shape(cx, &volumes)?)?;
    let windows = Volumes::of(cx.attrs())?;
    let channels = pooled.dim(windows.channel());
    let known = windows.shape(pooled.dim(0), [None; 3], channels);
    cx.set(0, volumes.merge(&known).unwrap_or(volumes));
    Ok(())
}

/// Geometry of pooling volumes of these dimensions.
fn geometry(p: &Prepare<'_>, volumes: &[usize]) -> Result<Pool3dGeometry, KernelError> {
    let invalid = |e: InferError| KernelError::Invalid(e.to_string());
    let windows = Volumes::of(&p.node.attrs).map_err(invalid)?;
    let window = triple(layout(&p.node.attrs), &p.node.attrs, "ksize").map_err(invalid)?;
    let axes = windows.axes(volumes, window)?;
    let (Some(&batch), Some(&channels)) = (volumes.first(), volumes.get(windows.channel())) else {
        return Err(KernelError::Argument("volumes"));
    };
    if !countable(volumes) {
        return Err(KernelError::Invalid(format!(
            "volumes {} are too large",
            Shape::known(volumes)
        )));
    }
    let (outer, inner) = match windows.layout {
        Layout::Nhwc => (batch, channels),
        Layout::Nchw => (batch * channels, 1),
    };
    Ok(Pool3dGeometry { outer, axes, inner })
}

/// Kernel that reads every element of every window, or writes every element of the volumes.
fn pool_kernel(
    g: Pool3dGeometry,
    run: impl Fn(&KernelCx<'_>) -> Result<(), KernelError> + Send + Sync + 'static,
) -> Prepared {
    let window = g
        .axes
        .iter()
        .fold(1, |n: usize, axis| n.saturating_mul(axis.window));
    Prepared::new(
        g.input_len().max(g.output_len().saturating_mul(window)),
        run,
    )
}

/// Maximum of each window.
pub(crate) static MAX_POOL_3D: Op = Op {
    def: OpDef {
        name: "MaxPool3D",
        summary: "The largest element of each window of volumes, channel by channel.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: forward_shape,
        gradient: Gradient::Rule(|g| {
            let from = [g.input(0), g.output(0), g.grad()];
            smallvec![Some(node_like(g, "MaxPool3DGrad").inputs(from).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let g = geometry(p, p.dims(0))?;
        widened(p, &[0], &[0], &|p| {
            dispatch!(p.dtype(0), [F32 F64], T => {
                let scratch = pool3d_scratch::<T>(&g);
                Ok(pool_kernel(g, move |cx| {
                    let room = cx.scratch::<u8>(scratch)?;
                    max_pool3d::<T>(slice_cpu(cx.cpu()), &g, cx.input(0)?, cx.output(0)?, room);
                    Ok(())
                }).with_scratch(scratch))
            }, else Err(KernelError::DType(p.dtype(0))))
        })
    })],
};

/// Mean of each window; padding does not count.
pub(crate) static AVG_POOL_3D: Op = Op {
    def: OpDef {
        name: "AvgPool3D",
        summary: "The mean of the elements of each window of volumes, channel by channel; padding does not count.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: forward_shape,
        gradient: Gradient::Rule(|g| {
            let grad = node_like(g, "AvgPool3DGrad").input(shape_of(g.input(0)));
            smallvec![Some(grad.input(g.grad()).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let g = geometry(p, p.dims(0))?;
        widened(p, &[0], &[0], &|p| {
            dispatch!(p.dtype(0), [F32 F64], T => {
                let scratch = pool3d_scratch::<T>(&g);
                Ok(pool_kernel(g, move |cx| {
                    let room = cx.scratch::<u8>(scratch)?;
                    avg_pool3d::<T>(slice_cpu(cx.cpu()), &g, cx.input(0)?, cx.output(0)?, room);
                    Ok(())
                }).with_scratch(scratch))
            }, else Err(KernelError::DType(p.dtype(0))))
        })
    })],
};

/// Spreads the gradient of each window evenly over its elements.
pub(crate) static AVG_POOL_3D_GRAD: Op = Op {
    def: OpDef {
        name: "AvgPool3DGrad",
        summary: "The gradient of AvgPool3D: that of each window is spread evenly over its elements.",
        inputs: &[
            arg_of("orig_input_shape", DType::I32).host(),
            arg("grad", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let volumes = sizes_of_rank(cx, 0, 5)?;
            set_volumes(cx, volumes, 1)
        },
        gradient: Gradient::Rule(|g| {
            let node = node_like(g, "AvgPool3D").input(g.grad());
            smallvec![None, Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let g = geometry(p, p.output_dims(0))?;
        widened(p, &[1], &[0], &|p| {
            dispatch!(p.dtype(1), [F32 F64], T => {
                let scratch = avg_pool3d_grad_scratch::<T>(&g);
                Ok(pool_kernel(g, move |cx| {
                    let room = cx.scratch::<u8>(scratch)?;
                    let (dy, dx) = (cx.input(1)?, cx.output(0)?);
                    avg_pool3d_grad::<T>(slice_cpu(cx.cpu()), &g, dy, dx, room);
                    Ok(())
                }).with_scratch(scratch))
            }, else Err(KernelError::DType(p.dtype(1))))
        })
    })],
};

/// Adds the gradient of each window to all its elements that are near to its maximum, as TensorFlow does.
pub(crate) static MAX_POOL_3D_GRAD: Op = Op {
    def: OpDef {
        name: "MaxPool3DGrad",
        summary: "The gradient of MaxPool3D: that of each window goes to its elements within 0.00001 of the largest.",
        inputs: MAX_GRAD_INPUTS,
        outputs: &[arg("output", "T")],
        attrs: MAX_GRAD_ATTRS,
        shape: |cx| {
            if cx.dtype(0) != cx.dtype(2) {
                return Err(InferError::Unsupported(format!(
                    "volumes are {}, and the gradient is {}: both must be of one dtype",
                    cx.dtype(0),
                    cx.dtype(2)
                )));
            }
            let volumes = cx.ranked(0, 5)?;
            expect_result(cx, 1, &output_shape(cx, &volumes)?)?;
            set_volumes(cx, volumes, 2)
        },
        gradient: Gradient::Rule(|g| {
            let from = [g.input(0), g.input(1), g.grad()];
            let node = node_like(g, "MaxPool3DGradGrad").inputs(from);
            smallvec![None, None, Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let g = geometry(p, p.dims(0))?;
        widened(p, &[0, 1, 2], &[0], &|p| {
            dispatch!(p.dtype(0), [F32 F64], T => Ok(pool_kernel(g, move |cx| {
                let from = [cx.input::<T>(0)?, cx.input(1)?, cx.input(2)?];
                max_pool3d_grad(slice_cpu(cx.cpu()), &g, from, cx.output(0)?);
                Ok(())
            })), else Err(KernelError::DType(p.dtype(0))))
        })
    })],
};

/// For each window, the value at the first of its largest elements.
pub(crate) static MAX_POOL_3D_GRAD_GRAD: Op = Op {
    def: OpDef {
        name: "MaxPool3DGradGrad",
        summary: "The gradient of MaxPool3DGrad: for each window that of the first of its largest elements.",
        inputs: &[
            arg("orig_input", "T"),
            arg("orig_output", "T"),
            arg("grad", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            (0..3).try_for_each(|i| cx.ranked(i, 5).map(drop))?;
            let volumes = cx.same(0, 2)?;
            let pooled = expect_result(cx, 1, &output_shape(cx, &volumes)?)?;
            cx.set(0, pooled);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let from = [g.input(0), g.input(1), g.grad()];
            let node = node_like(g, "MaxPool3DGrad").inputs(from);
            smallvec![None, None, Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let g = geometry(p, p.dims(0))?;
        widened(p, &[0, 1, 2], &[0], &|p| {
            dispatch!(p.dtype(0), [F32 F64], T => Ok(pool_kernel(g, move |cx| {
                let from = [cx.input::<T>(0)?, cx.input(1)?, cx.input(2)?];
                max_pool3d_grad_grad(slice_cpu(cx.cpu()), &g, from, cx.output(0)?);
                Ok(())
            })), else Err(KernelError::DType(p.dtype(0))))
        })
    })],
};
