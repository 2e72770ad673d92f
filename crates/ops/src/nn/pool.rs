//! AvgPool, AvgPoolGrad, and the window arithmetic that all pooling ops use.

use smallvec::smallvec;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Allowed, AttrDef, Gradient, arg, arg_of, attr, type_attr};
use thalweg_graph::{AttrKind, Attrs, GradCx, Infer, InferError, NodeBuilder, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, dispatch};

use super::conv2d::{FORMAT, PADDING};
use super::format::{DataFormat, Padding, Sliding, image_dims};
use super::geometry::sizes;
use crate::support::constants::shape_of;
use crate::support::cpu::slice_cpu;
use crate::support::widened::widened;
use thalweg_cpu::pooling::{PoolGeometry, avg_pool, avg_pool_grad};

/// Attribute `padding` of ops without explicit padding.
pub(super) const SAME_OR_VALID: AttrDef = AttrDef {
    allowed: Allowed::Strs(&["SAME", "VALID"]),
    ..PADDING
};

const AVG_ATTRS: &[AttrDef] = &[
    attr("ksize", AttrKind::Ints),
    attr("strides", AttrKind::Ints),
    SAME_OR_VALID,
    FORMAT,
    type_attr("T", DType::FLOATS),
];

/// Node of `op` with the attributes of this node.
pub(super) fn node_like<'g>(g: &GradCx<'_, 'g>, op: &str) -> NodeBuilder<'g> {
    let copied = g.attrs().iter().filter(|(name, _)| *name != "T");
    copied.fold(g.graph().op(op), |node, (name, value)| {
        node.attr(name, value.clone())
    })
}

/// Index of the input `ksize` of the second versions, which lack that attribute: before `strides`, the last.
fn ksize_input(attrs: &Attrs, inputs: usize) -> Option<usize> {
    match attrs.get("ksize") {
        Some(_) => None,
        None => inputs.checked_sub(2),
    }
}

/// Windows of a pooling op.
struct Windows {
    sliding: Sliding,
    /// Rows and columns of a window.
    size: [usize; 2],
    /// Channels of a window, and from a window to the next; 1 if windows move over rows and columns.
    channels: usize,
}

impl Windows {
    /// Windows of these sizes and strides, in the order of the format.
    fn new(attrs: &Attrs, size: &[i64], strides: &[i64]) -> Result<Windows, InferError> {
        let format = DataFormat::of(attrs);
        let (size, channels) = format.pair_and_channels(size, "ksize")?;
        let (strides, channel_stride) = format.pair_and_channels(strides, "strides")?;
        let padding = Padding::of(attrs, format)?;
        let spatial =
            size != [1, 1] || strides != [1, 1] || matches!(padding, Padding::Explicit(_));
        if channels != channel_stride || (channels > 1 && spatial) {
            return Err(InferError::Attr {
                attr: "ksize",
                reason: format!(
                    "is {channels} for channels, with a stride of {channel_stride}: windows over channels do not overlap (the stride is their size), and have one line and one column, with a stride of 1, and no explicit padding"
                ),
            });
        }
        let sliding = Sliding {
            format,
            padding,
            strides,
            dilations: [1, 1],
            may_be_empty: false,
        };
        Ok(Windows {
            sliding,
            size,
            channels,
        })
    }

    /// Windows given by the attributes, or by `values` of the inputs `ksize` and `strides`, which start at input `i`.
    fn of(attrs: &Attrs, values: Option<(usize, [Vec<i64>; 2])>) -> Result<Windows, InferError> {
        let Some((i, [size, strides])) = values else {
            return Windows::new(attrs, attrs.ints("ksize"), attrs.ints("strides"));
        };
        Windows::new(attrs, &size, &strides).map_err(|e| match e {
            InferError::Attr { attr, reason } if attr == "ksize" || attr == "strides" => {
                InferError::Value {
                    input: i + usize::from(attr == "strides"),
                    reason: format!("{attr} {reason}"),
                }
            }
            other => other,
        })
    }

    /// Number of windows over `channels` channels.
    fn over_channels(&self, i: usize, channels: usize) -> Result<usize, InferError> {
        if !channels.is_multiple_of(self.channels) {
            return Err(InferError::Value {
                input: i,
                reason: format!(
                    "has {}, which is not a multiple of the window's {}",
                    counted(channels, "channel"),
                    self.channels
                ),
            });
        }
        Ok(channels / self.channels)
    }
}

/// Windows of the node; `None` if they are inputs that are not known yet.
fn windows_of(cx: &Infer<'_>) -> Result<Option<Windows>, InferError> {
    let values = match ksize_input(cx.attrs(), cx.inputs()) {
        None => None,
        Some(i) => {
            (i..i + 2).try_for_each(|i| cx.ranked(i, 1).map(drop))?;
            let (Some(window), Some(strides)) = (cx.ints(i), cx.ints(i + 1)) else {
                return Ok(None);
            };
            Some((i, [window, strides]))
        }
    };
    let windows = Windows::of(cx.attrs(), values)?;
    if let Padding::Explicit(sides) = windows.sliding.padding
        && let Some(axis) = (0..2).find(|&a| sides[a].iter().any(|&n| n >= windows.size[a]))
    {
        return Err(InferError::Attr {
            attr: "explicit_paddings",
            reason: format!(
                "is {:?} for {}, but must be below the window's {}, so that no window lies in padding alone",
                sides[axis],
                ["lines", "columns"][axis],
                windows.size[axis]
            ),
        });
    }
    Ok(Some(windows))
}

/// Refuses windows over channels, for an op whose indices count the pixels of an image.
pub(super) fn expect_spatial(cx: &Infer<'_>) -> Result<(), InferError> {
    match windows_of(cx)? {
        Some(Windows { channels: 2.., .. }) => Err(InferError::Attr {
            attr: "ksize",
            reason: "has windows over channels: MaxPool takes them, this op does not".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Shape of the pooled output for images of this shape.
pub(super) fn output_shape(cx: &Infer<'_>, i: usize, image: &Shape) -> Result<Shape, InferError> {
    let format = DataFormat::of(cx.attrs());
    let (batch, channels, lengths) = image_dims(format, image);
    let mut counts = [None, None];
    let Some(windows) = windows_of(cx)? else {
        return Ok(Shape::partial(format.order(batch, None, counts)));
    };
    for axis in 0..2 {
        let Some(input) = lengths[axis] else { continue };
        let count = windows.sliding.count(i, axis, input, windows.size[axis])?.0;
        if input == 0 && count > 0 {
            return Err(InferError::Value {
                input: i,
                reason: "images without pixels have no windows".to_owned(),
            });
        }
        counts[axis] = Some(count);
    }
    let channels = match channels {
        Some(n) => Some(windows.over_channels(i, n)?),
        None => None,
    };
    Ok(Shape::partial(format.order(batch, channels, counts)))
}

/// Checks that input `i` has the shape `expected` of the pooled images.
pub(super) fn expect_pooled(
    cx: &Infer<'_>,
    i: usize,
    expected: &Shape,
) -> Result<Shape, InferError> {
    let found = cx.ranked(i, 4)?;
    expected.merge(&found).ok_or_else(|| InferError::Mismatch {
        what: format!("input {i} must have the shape of the pooled images"),
        left: found,
        right: expected.clone(),
    })
}

/// Shape of the images, refined by the shape of the pooled output.
pub(super) fn refined_shape(
    cx: &Infer<'_>,
    image: Shape,
    pooled: &Shape,
) -> Result<Shape, InferError> {
    let format = DataFormat::of(cx.attrs());
    let (batch, channels, _) = image_dims(format, pooled);
    // A product that overflows is refused when the kernel is prepared.
    let channels = windows_of(cx)?
        .zip(channels)
        .and_then(|(windows, n)| n.checked_mul(windows.channels));
    let known = Shape::partial(format.order(batch, channels, [None; 2]));
    Ok(image.merge(&known).unwrap_or(image))
}

/// Geometry of pooling images of these dimensions.
pub(super) fn geometry(p: &Prepare<'_>, image: &[usize]) -> Result<PoolGeometry, KernelError> {
    let invalid = |e: InferError| KernelError::Invalid(e.to_string());
    let values = match ksize_input(&p.node.attrs, p.inputs.len()) {
        Some(i) => Some((i, [p.ints(i)?, p.ints(i + 1)?])),
        None => None,
    };
    let windows = Windows::of(&p.node.attrs, values).map_err(invalid)?;
    let Windows { sliding, size, .. } = &windows;
    let (Some(batch), Some(channels), [Some(in_h), Some(in_w)]) =
        image_dims(sliding.format, &Shape::known(image))
    else {
        return Err(KernelError::Argument("images"));
    };
    // A product of lengths may overflow even if one of them is zero.
    if [batch, in_h, in_w, channels]
        .into_iter()
        .try_fold(1, usize::checked_mul)
        .is_none()
    {
        let image = Shape::known(image);
        return Err(KernelError::Invalid(format!(
            "images {image} are too large"
        )));
    }
    if windows.channels > 1 {
        let out = windows.over_channels(0, channels).map_err(invalid)?;
        return Ok(over_channels(
            sliding.format,
            windows.channels,
            [batch, in_h * in_w, channels, out],
        ));
    }
    let (out_h, pad_top) = sliding.count(0, 0, in_h, size[0]).map_err(invalid)?;
    let (out_w, pad_left) = sliding.count(0, 1, in_w, size[1]).map_err(invalid)?;
    Ok(PoolGeometry {
        batch,
        in_h,
        in_w,
        channels,
        out_h,
        out_w,
        k_h: size[0],
        k_w: size[1],
        stride: sliding.strides,
        pad_top,
        pad_left,
        layout: sliding.format.layout(),
    })
}

/// Geometry of windows of `window` channels: images of one channel whose lines, or columns, are the channels.
fn over_channels(
    format: DataFormat,
    window: usize,
    [batch, pixels, channels, out]: [usize; 4],
) -> PoolGeometry {
    let by_format = |nhwc, nchw| match format {
        DataFormat::Nhwc => nhwc,
        DataFormat::Nchw => nchw,
    };
    let [in_h, in_w] = by_format([pixels, channels], [channels, pixels]);
    let [out_h, out_w] = by_format([pixels, out], [out, pixels]);
    let [k_h, k_w] = by_format([1, window], [window, 1]);
    PoolGeometry {
        batch,
        in_h,
        in_w,
        channels: 1,
        out_h,
        out_w,
        k_h,
        k_w,
        stride: [k_h, k_w],
        pad_top: 0,
        pad_left: 0,
        layout: format.layout(),
    }
}

/// Kernel that reads every element of every window, or writes every element of the images.
pub(super) fn pool_kernel(
    g: PoolGeometry,
    run: impl Fn(&KernelCx<'_>) -> Result<(), KernelError> + Send + Sync + 'static,
) -> Prepared {
    let seen = g.output_len().saturating_mul(g.k_h.saturating_mul(g.k_w));
    Prepared::new(g.input_len().max(seen), run)
}

/// Mean of each window; padding does not count.
pub(crate) static AVG_POOL: Op = Op {
    def: OpDef {
        name: "AvgPool",
        summary: "The mean of the elements of each window, channel by channel; padding does not count.",
        inputs: &[arg("value", "T")],
        outputs: &[arg("output", "T")],
        attrs: AVG_ATTRS,
        shape: |cx| {
            let out = output_shape(cx, 0, &cx.ranked(0, 4)?)?;
            cx.set(0, out);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let grad = node_like(g, "AvgPoolGrad").input(shape_of(g.input(0)));
            smallvec![Some(grad.input(g.grad()).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let g = geometry(p, p.dims(0))?;
            widened(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F32 F64], T => Ok(pool_kernel(g, move |cx| {
                avg_pool::<T>(slice_cpu(cx.cpu()), &g, cx.input(0)?, cx.output(0)?);
                Ok(())
            })), else Err(KernelError::DType(p.dtype(0))))
            })
        }),
        gpu(|p| {
            Ok(crate::gpu::pool(
                p,
                "AvgPool",
                &geometry(p, p.dims(0))?,
                &[0],
            ))
        }),
    ],
};

/// Spreads the gradient of each window evenly over its elements.
pub(crate) static AVG_POOL_GRAD: Op = Op {
    def: OpDef {
        name: "AvgPoolGrad",
        summary: "The gradient of AvgPool: that of each window is spread evenly over its elements.",
        inputs: &[
            arg_of("orig_input_shape", DType::I32).host(),
            arg("grad", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: AVG_ATTRS,
        shape: |cx| {
            let image = sizes(cx, 0)?;
            let pooled = output_shape(cx, 0, &image)?;
            let pooled = expect_pooled(cx, 1, &pooled)?;
            cx.set(0, refined_shape(cx, image, &pooled)?);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            smallvec![None, Some(node_like(g, "AvgPool").input(g.grad()).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let g = geometry(p, p.output_dims(0))?;
            dispatch!(p.dtype(1), FLOATS, T => Ok(pool_kernel(g, move |cx| {
                avg_pool_grad::<T>(slice_cpu(cx.cpu()), &g, cx.input(1)?, cx.output(0)?);
                Ok(())
            })), else Err(KernelError::DType(p.dtype(1))))
        }),
        gpu(|p| {
            Ok(crate::gpu::pool(
                p,
                "AvgPoolGrad",
                &geometry(p, p.output_dims(0))?,
                &[1],
            ))
        }),
    ],
};
