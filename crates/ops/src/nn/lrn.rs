//! LRN, LRNGrad: local response normalization.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, float_attr, int_attr, type_attr_or};
use thalweg_graph::{Attrs, Infer, InferError, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Element, Shape};

use crate::support::cpu::slice_cpu;
use thalweg_cpu::lrn::{Response, lrn, lrn_grad};
use thalweg_cpu::number::Float;

const ATTRS: &[AttrDef] = &[
    int_attr("depth_radius", 5),
    float_attr("bias", 1.0),
    float_attr("alpha", 1.0),
    float_attr("beta", 0.5),
    type_attr_or("T", &[DType::F16, DType::BF16, DType::F32], DType::F32),
];

/// Distance to the farthest neighbour.
fn radius(attrs: &Attrs) -> Result<usize, InferError> {
    let radius = attrs.int("depth_radius");
    i32::try_from(radius)
        .ok()
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| InferError::Attr {
            attr: "depth_radius",
            reason: format!("is {radius}, but must be between 0 and {}", i32::MAX),
        })
}

/// Shape rule: all inputs and the output have the shape of one batch of images.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    radius(cx.attrs())?;
    let mut shape = Shape::of_rank(4);
    for i in 0..cx.inputs() {
        let own = cx.ranked(i, 4)?;
        shape = shape.merge(&own).ok_or_else(|| InferError::Mismatch {
            what: format!("input {i} must have the shape of those before it"),
            left: own.clone(),
            right: shape.clone(),
        })?;
    }
    cx.set(0, shape);
    Ok(())
}

/// Divides each element by a power of a sum of its neighbours' squares.
pub(crate) static LRN: Op = Op {
    def: OpDef {
        name: "LRN",
        summary: "Each element over (bias + alpha * squares)^beta, with the squares of the channels at most depth_radius away added up.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape,
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("LRNGrad").input(g.grad());
            let node = node.input(g.input(0)).input(g.output(0));
            let copied = ATTRS.iter().filter(|attr| attr.name != "T");
            let node = copied.fold(node, |node, attr| match g.attrs().get(attr.name) {
                Some(value) => node.attr(attr.name, value.clone()),
                None => node,
            });
            smallvec![Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| match p.dtype(0) {
            DType::F16 => forward::<half::f16>(p),
            DType::BF16 => forward::<half::bf16>(p),
            DType::F32 => forward::<f32>(p),
            other => Err(KernelError::DType(other)),
        }),
        gpu(|p| Ok(crate::gpu::lrn(p, &response(p)?))),
    ],
};

/// Gradient of [`LRN`].
pub(crate) static LRN_GRAD: Op = Op {
    def: OpDef {
        name: "LRNGrad",
        summary: "The gradient of LRN, from its output's gradient, its input and its output.",
        inputs: &[
            arg("input_grads", "T"),
            arg("input_image", "T"),
            arg("output_image", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| match p.dtype(0) {
            DType::F16 => backward::<half::f16>(p),
            DType::BF16 => backward::<half::bf16>(p),
            DType::F32 => backward::<f32>(p),
            other => Err(KernelError::DType(other)),
        }),
        gpu(|p| Ok(crate::gpu::lrn_grad(p, &response(p)?))),
    ],
};

/// Parameters of the node, for images of its first input's dimensions.
pub(crate) fn response(p: &Prepare<'_>) -> Result<Response, KernelError> {
    let (dims, attrs) = (p.dims(0), &p.node.attrs);
    // If there are no elements, products of lengths could overflow.
    let (pixels, channels) = match dims.last() {
        Some(&channels) if !dims.contains(&0) => (elements(dims) / channels, channels),
        _ => (0, 1),
    };
    let radius = radius(attrs).map_err(|e| KernelError::Invalid(e.to_string()))?;
    Ok(Response {
        pixels,
        channels,
        // There are no neighbours beyond the last channel.
        radius: radius.min(channels),
        bias: attrs.float("bias"),
        alpha: attrs.float("alpha"),
        beta: attrs.float("beta"),
    })
}

/// Estimated number of elements that are read.
fn elements_read(g: &Response) -> usize {
    (g.pixels * g.channels).saturating_mul(8 + 2 * g.radius)
}

fn forward<T: Float<Wide = f32> + Element>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = response(p)?;
    let scratch = g.scratch(p.cpu.pool().threads());
    let run = Prepared::new(elements_read(&g), move |cx| {
        let (x, y) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        lrn(slice_cpu(cx.cpu()), &g, x, y, cx.scratch::<u8>(scratch)?);
        Ok(())
    });
    Ok(run.with_scratch(scratch))
}

fn backward<T: Float<Wide = f32> + Element>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = response(p)?;
    let scratch = g.scratch(p.cpu.pool().threads());
    let run = Prepared::new(2 * elements_read(&g), move |cx| {
        let inputs = [cx.input::<T>(0)?, cx.input::<T>(1)?, cx.input::<T>(2)?];
        let dx = cx.output::<T>(0)?;
        lrn_grad(
            slice_cpu(cx.cpu()),
            &g,
            inputs,
            dx,
            cx.scratch::<u8>(scratch)?,
        );
        Ok(())
    });
    Ok(run.with_scratch(scratch))
}
