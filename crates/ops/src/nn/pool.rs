//! Pooling: the largest element or the mean of each window.

use smallvec::smallvec;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{
    Allowed, AttrDef, Gradient, arg, arg_of, attr, ints_attr, type_attr, type_attr_or,
};
use thalweg_graph::{
    AttrKind, DType, GradCx, Infer, InferError, NodeBuilder, OpDef, Shape, dispatch,
};

use super::conv2d::{FORMAT, PADDING};
use super::format::{DataFormat, Padding, Sliding, parts};
use super::geometry::sizes;
use crate::constants::shape_of;
use crate::cpu::pooling::{PoolGeometry, avg_pool, avg_pool_grad, max_pool, max_pool_grad};
use crate::kernel::on;

const MAX_ATTRS: &[AttrDef] = &[
    type_attr_or("T", DType::NUMBERS, DType::F32),
    attr("ksize", AttrKind::Ints),
    attr("strides", AttrKind::Ints),
    PADDING,
    ints_attr("explicit_paddings", &[]),
    FORMAT,
];

const AVG_ATTRS: &[AttrDef] = &[
    attr("ksize", AttrKind::Ints),
    attr("strides", AttrKind::Ints),
    AttrDef {
        allowed: Allowed::Strs(&["SAME", "VALID"]),
        ..PADDING
    },
    FORMAT,
    type_attr("T", DType::FLOATS),
];

/// The same attributes on the node of a gradient.
fn alike<'g>(g: &GradCx<'_, 'g>, op: &str) -> NodeBuilder<'g> {
    let copied = g.attrs().iter().filter(|(name, _)| *name != "T");
    copied.fold(g.graph().op(op), |node, (name, value)| {
        node.attr(name, value.clone())
    })
}

fn window_of(cx: &Infer<'_>) -> Result<(Sliding, [usize; 2]), InferError> {
    let sliding = Sliding::of(cx.attrs())?;
    let window = DataFormat::of(cx.attrs()).pair(cx.attrs(), "ksize")?;
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
    Ok((sliding, window))
}

/// The shape of what is made of images of this shape.
fn output_shape(cx: &Infer<'_>, i: usize, image: &Shape) -> Result<Shape, InferError> {
    let (sliding, window) = window_of(cx)?;
    let (batch, channels, lengths) = parts(sliding.format, image);
    let mut counts = [None, None];
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
    Ok(Shape::partial(
        sliding.format.order(batch, channels, counts),
    ))
}

/// Input `i` must have the shape `expected` of the pooled images.
fn expect_pooled(cx: &Infer<'_>, i: usize, expected: &Shape) -> Result<Shape, InferError> {
    let found = cx.ranked(i, 4)?;
    expected.merge(&found).ok_or_else(|| InferError::Mismatch {
        what: format!("input {i} must have the shape of the pooled images"),
        left: found,
        right: expected.clone(),
    })
}

/// What images of this shape are, told by what they are pooled to.
fn refined(cx: &Infer<'_>, image: Shape, pooled: &Shape) -> Shape {
    let format = DataFormat::of(cx.attrs());
    let (batch, channels, _) = parts(format, pooled);
    let told = Shape::partial(format.order(batch, channels, [None; 2]));
    image.merge(&told).unwrap_or(image)
}

/// All lengths of the pooling of images of these dimensions.
fn geometry(p: &Prepare<'_>, image: &[usize]) -> Result<PoolGeometry, KernelError> {
    let invalid = |e: InferError| KernelError::Invalid(e.to_string());
    let sliding = Sliding::of_node(p)?;
    let window = sliding
        .format
        .pair(&p.node.attrs, "ksize")
        .map_err(invalid)?;
    let (Some(batch), Some(channels), [Some(in_h), Some(in_w)]) =
        parts(sliding.format, &Shape::known(image))
    else {
        return Err(KernelError::Argument("images"));
    };
    // A product of lengths of which one is zero may overflow although there is nothing in it.
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

/// A kernel that looks at every element of every window, or writes every element of the images.
fn prepared(
    g: PoolGeometry,
    run: impl Fn(&KernelCx<'_>) -> Result<(), KernelError> + Send + Sync + 'static,
) -> Prepared {
    let seen = g.output_len().saturating_mul(g.k_h.saturating_mul(g.k_w));
    Prepared::new(g.input_len().max(seen), run)
}

/// The largest element of each window.
pub(crate) static MAX_POOL: Op = Op {
    def: OpDef {
        name: "MaxPool",
        summary: "The largest element of each window, channel by channel.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: MAX_ATTRS,
        shape: |cx| {
            let out = output_shape(cx, 0, &cx.ranked(0, 4)?)?;
            cx.set(0, out);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let grad = alike(g, "MaxPoolGrad").input(g.input(0)).input(g.output(0));
            smallvec![Some(grad.input(g.grad()).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let g = geometry(p, p.dims(0))?;
            dispatch!(p.dtype(0), NUMBERS, T => Ok(prepared(g, move |cx| {
                max_pool::<T>(on(cx.cpu()), &g, cx.input(0)?, cx.output(0)?);
                Ok(())
            })), else Err(KernelError::DType(p.dtype(0))))
        }),
        gpu(|p| Ok(crate::gpu::pool(p, &geometry(p, p.dims(0))?, &[0]))),
    ],
};

/// The gradient of each window, at the first of its largest elements.
pub(crate) static MAX_POOL_GRAD: Op = Op {
    def: OpDef {
        name: "MaxPoolGrad",
        summary: "The gradient of MaxPool: that of each window goes to the first of its largest elements.",
        inputs: &[
            arg("orig_input", "T"),
            arg("orig_output", "T"),
            arg("grad", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: MAX_ATTRS,
        shape: |cx| {
            let image = cx.ranked(0, 4)?;
            let pooled = output_shape(cx, 0, &image)?;
            let pooled = expect_pooled(cx, 1, &pooled)?;
            let pooled = expect_pooled(cx, 2, &pooled)?;
            cx.set(0, refined(cx, image, &pooled));
            Ok(())
        },
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let g = geometry(p, p.dims(0))?;
            dispatch!(p.dtype(0), NUMBERS, T => Ok(prepared(g, move |cx| {
                max_pool_grad::<T>(on(cx.cpu()), &g, cx.input(0)?, cx.input(2)?, cx.output(0)?);
                Ok(())
            })), else Err(KernelError::DType(p.dtype(0))))
        }),
        gpu(|p| Ok(crate::gpu::pool(p, &geometry(p, p.dims(0))?, &[0, 2]))),
    ],
};

/// The mean of each window; padding does not count.
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
            let grad = alike(g, "AvgPoolGrad").input(shape_of(g.input(0)));
            smallvec![Some(grad.input(g.grad()).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let g = geometry(p, p.dims(0))?;
            dispatch!(p.dtype(0), FLOATS, T => Ok(prepared(g, move |cx| {
                avg_pool::<T>(on(cx.cpu()), &g, cx.input(0)?, cx.output(0)?);
                Ok(())
            })), else Err(KernelError::DType(p.dtype(0))))
        }),
        gpu(|p| Ok(crate::gpu::pool(p, &geometry(p, p.dims(0))?, &[0]))),
    ],
};

/// The gradient of each window, spread evenly over its elements.
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
            cx.set(0, refined(cx, image, &pooled));
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            smallvec![None, Some(alike(g, "AvgPool").input(g.grad()).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let g = geometry(p, p.output_dims(0))?;
            dispatch!(p.dtype(1), FLOATS, T => Ok(prepared(g, move |cx| {
                avg_pool_grad::<T>(on(cx.cpu()), &g, cx.input(1)?, cx.output(0)?);
                Ok(())
            })), else Err(KernelError::DType(p.dtype(1))))
        }),
        gpu(|p| Ok(crate::gpu::pool(p, &geometry(p, p.output_dims(0))?, &[1]))),
    ],
};
