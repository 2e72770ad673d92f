//! AvgPool, AvgPoolGrad, and the window arithmetic that all pooling ops use.

use smallvec::smallvec;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Allowed, AttrDef, Gradient, arg, arg_of, attr, type_attr};
use thalweg_graph::{AttrKind, Attrs, GradCx, Infer, InferError, NodeBuilder, OpDef};
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

/// Sliding and size of the windows, from the attributes, or from `values` of the inputs `ksize` and `strides`,
/// which start at input `i`.
fn sliding_from(
    attrs: &Attrs,
    values: Option<(usize, [Vec<i64>; 2])>,
) -> Result<(Sliding, [usize; 2]), InferError> {
    let Some((i, [window, strides])) = values else {
        let sliding = Sliding::of(attrs)?;
        return Ok((sliding, sliding.format.pair(attrs, "ksize")?));
    };
    let format = DataFormat::of(attrs);
    let pair = |values: &[i64], name: &'static str, input: usize| {
        let pair = format.pair_of(values, name);
        pair.map_err(|e| match e {
            InferError::Attr { attr, reason } => InferError::Value {
                input,
                reason: format!("{attr} {reason}"),
            },
            other => other,
        })
    };
    let sliding = Sliding {
        format,
        padding: Padding::of(attrs, format)?,
        strides: pair(&strides, "strides", i + 1)?,
        dilations: [1, 1],
    };
    Ok((sliding, pair(&window, "ksize", i)?))
}

/// Sliding and size of the windows; `None` if they are inputs that are not known yet.
fn window_of(cx: &Infer<'_>) -> Result<Option<(Sliding, [usize; 2])>, InferError> {
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
    let (sliding, window) = sliding_from(cx.attrs(), values)?;
    if let Padding::Explicit(sides) = sliding.padding
        && let Some(axis) = (0..2).find(|&a| sides[a].iter().any(|&n| n >= window[a]))
    {
        return Err(InferError::Attr {
            attr: "explicit_paddings",
            reason: format!(
                "is {:?} for {}, but must be below the window's {}, so that no window lies in padding alone",
                sides[axis],
                ["lines", "columns"][axis],
                window[axis]
            ),
        });
    }
    Ok(Some((sliding, window)))
}

/// Shape of the pooled output for images of this shape.
pub(super) fn output_shape(cx: &Infer<'_>, i: usize, image: &Shape) -> Result<Shape, InferError> {
    let format = DataFormat::of(cx.attrs());
    let (batch, channels, lengths) = image_dims(format, image);
    let mut counts = [None, None];
    let Some((sliding, window)) = window_of(cx)? else {
        return Ok(Shape::partial(format.order(batch, channels, counts)));
    };
    for axis in 0..2 {
        let Some(input) = lengths[axis] else { continue };
        let count = sliding.count(i, axis, input, window[axis])?.0;
        if input == 0 && count > 0 {
            return Err(InferError::Value {
                input: i,
                reason: "images without pixels have no windows".to_owned(),
            });
        }
        counts[axis] = Some(count);
    }
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
pub(super) fn refined_shape(cx: &Infer<'_>, image: Shape, pooled: &Shape) -> Shape {
    let format = DataFormat::of(cx.attrs());
    let (batch, channels, _) = image_dims(format, pooled);
    let known = Shape::partial(format.order(batch, channels, [None; 2]));
    image.merge(&known).unwrap_or(image)
}

/// Geometry of pooling images of these dimensions.
pub(super) fn geometry(p: &Prepare<'_>, image: &[usize]) -> Result<PoolGeometry, KernelError> {
    let invalid = |e: InferError| KernelError::Invalid(e.to_string());
    let values = match ksize_input(&p.node.attrs, p.inputs.len()) {
        Some(i) => Some((i, [p.ints(i)?, p.ints(i + 1)?])),
        None => None,
    };
    let (sliding, window) = sliding_from(&p.node.attrs, values).map_err(invalid)?;
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
    let (out_h, pad_top) = sliding.count(0, 0, in_h, window[0]).map_err(invalid)?;
    let (out_w, pad_left) = sliding.count(0, 1, in_w, window[1]).map_err(invalid)?;
    Ok(PoolGeometry {
        batch,
        in_h,
        in_w,
        channels,
        out_h,
        out_w,
        k_h: window[0],
        k_w: window[1],
        stride: sliding.strides,
        pad_top,
        pad_left,
        layout: sliding.format.layout(),
    })
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
            cx.set(0, refined_shape(cx, image, &pooled));
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
