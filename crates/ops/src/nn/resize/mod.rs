//! ResizeBilinear, ResizeBilinearGrad, ResizeNearestNeighbor, ResizeNearestNeighborGrad.

mod kernels;
mod launches;

pub(crate) use self::kernels::{ALIGN, CENTERS};
use smallvec::smallvec;
use thalweg_device::{KernelError, Op, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, type_attr};
use thalweg_graph::{GradCx, Infer, InferError, NodeBuilder, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, dispatch};

use self::kernels::{bilinear, bilinear_grad, nearest, nearest_grad};
use crate::support::constants::ints;
use crate::support::widened::{as_uints, widened, widened_ints};

const PIXEL_DTYPES: &[DType] = &[
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];
const ATTRS: &[AttrDef] = &[type_attr("T", PIXEL_DTYPES), ALIGN, CENTERS];
const BILINEAR_GRAD_ATTRS: &[AttrDef] = &[type_attr("T", DType::FLOATS), ALIGN, CENTERS];
const NEAREST_GRAD_ATTRS: &[AttrDef] = &[
    type_attr(
        "T",
        &[
            DType::U8,
            DType::I8,
            DType::I32,
            DType::F16,
            DType::BF16,
            DType::F32,
            DType::F64,
        ],
    ),
    ALIGN,
    CENTERS,
];

/// Height and width given by input `i`.
fn size(cx: &Infer<'_>, i: usize) -> Result<[Option<usize>; 2], InferError> {
    let wrong = |reason: String| InferError::Value { input: i, reason };
    if let Some(n) = cx.ranked(i, 1)?.dim(0).filter(|&n| n != 2) {
        return Err(wrong(format!(
            "has {}, but must have 2: lines and columns",
            counted(n, "value")
        )));
    }
    let Some(values) = cx.ints(i) else {
        return Ok([None, None]);
    };
    let length = |i: usize| match values.get(i).and_then(|&n| usize::try_from(n).ok()) {
        Some(n) if n > 0 && n <= MAX_SIZE => Ok(Some(n)),
        _ => Err(wrong(format!(
            "is {values:?}, but both must be between 1 and {MAX_SIZE}"
        ))),
    };
    Ok([length(0)?, length(1)?])
}

/// Maximum height and width: up to here an `f32` can represent every integer.
const MAX_SIZE: usize = 1 << 24;

/// Shape of the images of input `i` in this size; if there are any images, their size must not be 0.
fn resized(
    cx: &Infer<'_>,
    i: usize,
    [lines, columns]: [Option<usize>; 2],
) -> Result<Shape, InferError> {
    let image = cx.ranked(i, 4)?;
    for axis in [1, 2] {
        if let Some(n) = image.dim(axis).filter(|&n| n == 0 || n > MAX_SIZE)
            && image.dim(0) != Some(0)
        {
            return Err(InferError::Value {
                input: i,
                reason: format!(
                    "images have {n} lines or columns, but must have between 1 and {MAX_SIZE}"
                ),
            });
        }
    }
    Ok(Shape::partial([image.dim(0), lines, columns, image.dim(3)]))
}

pub(crate) fn forward_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let out = resized(cx, 0, size(cx, 1)?)?;
    cx.set(0, out);
    Ok(())
}

/// Shape rule of a gradient: that of the original images, input 1.
pub(crate) fn gradient_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (grads, image) = (cx.ranked(0, 4)?, cx.ranked(1, 4)?);
    resized(cx, 0, [None, None])?;
    resized(cx, 1, [None, None])?;
    let out = Shape::partial([grads.dim(0), None, None, grads.dim(3)]);
    let out = image.merge(&out).ok_or_else(|| InferError::Mismatch {
        what: "gradients and images must be as many, with the same channels".to_owned(),
        left: grads,
        right: image,
    })?;
    cx.set(0, out);
    Ok(())
}

/// Node of `op` with the attributes of this node.
pub(crate) fn gradient_node<'g>(g: &GradCx<'_, 'g>, op: &str) -> NodeBuilder<'g> {
    let copied = [ALIGN.name, CENTERS.name];
    copied
        .iter()
        .fold(g.graph().op(op), |node, name| match g.attrs().get(name) {
            Some(value) => node.attr(name, value.clone()),
            None => node,
        })
}

/// Height and width of images, as an output.
fn size_output<'g>(g: &GradCx<'_, 'g>, i: usize) -> thalweg_graph::Output<'g> {
    let (images, graph) = (g.input(i), g.graph());
    let known = |axis| images.shape().dim(axis).and_then(|n| i32::try_from(n).ok());
    if let (Some(lines), Some(columns)) = (known(1), known(2)) {
        return ints(graph, &[lines, columns]);
    }
    let shape = graph.op("Shape").input(images).output();
    let slice = graph.op("Slice").input(shape).input(ints(graph, &[1]));
    slice.input(ints(graph, &[2])).output()
}

/// Interpolates each pixel between the four nearest ones.
pub(crate) static RESIZE_BILINEAR: Op = Op {
    def: OpDef {
        name: "ResizeBilinear",
        summary: "Images of another size, each pixel interpolated between the four nearest ones.",
        inputs: &[arg("images", "T"), arg_of("size", DType::I32).host()],
        outputs: &[arg_of("resized_images", DType::F32)],
        attrs: ATTRS,
        shape: forward_shape,
        gradient: Gradient::Rule(|g| {
            if !g.input(0).dtype().is_float() {
                return smallvec![];
            }
            let node = gradient_node(g, "ResizeBilinearGrad").input(g.grad());
            smallvec![Some(node.input(g.input(0)).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            // Images are mostly bytes; wider elements would take eight times their memory.
            if p.dtype(0) == DType::U8 {
                return bilinear::<u8>(p);
            }
            widened(p, &[0], &[], &|p| {
                dispatch!(p.dtype(0), [F32 F64 I64 U64], T => bilinear::<T>(p), else
                Err(KernelError::DType(p.dtype(0))))
            })
        }),
        gpu(launches::bilinear),
    ],
};

/// Gradient of [`RESIZE_BILINEAR`].
pub(crate) static RESIZE_BILINEAR_GRAD: Op = Op {
    def: OpDef {
        name: "ResizeBilinearGrad",
        summary: "The gradient of ResizeBilinear.",
        inputs: &[arg_of("grads", DType::F32), arg("original_image", "T")],
        outputs: &[arg("output", "T")],
        attrs: BILINEAR_GRAD_ATTRS,
        shape: gradient_shape,
        gradient: Gradient::Rule(|g| {
            let node = gradient_node(g, "ResizeBilinear").input(g.grad());
            smallvec![Some(node.input(size_output(g, 0)).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            dispatch!(p.dtype(1), FLOATS, T => bilinear_grad::<T>(p), else
            Err(KernelError::DType(p.dtype(1))))
        }),
        gpu(launches::bilinear_grad).only(&[("T", &[DType::F16, DType::BF16, DType::F32])]),
    ],
};

/// Copies each pixel from the nearest one.
pub(crate) static RESIZE_NEAREST_NEIGHBOR: Op = Op {
    def: OpDef {
        name: "ResizeNearestNeighbor",
        summary: "Images of another size, each pixel copied from the nearest one.",
        inputs: &[arg("images", "T"), arg_of("size", DType::I32).host()],
        outputs: &[arg("resized_images", "T")],
        attrs: ATTRS,
        shape: forward_shape,
        gradient: Gradient::Rule(|g| {
            let node = gradient_node(g, "ResizeNearestNeighborGrad").input(g.grad());
            smallvec![Some(node.input(size_output(g, 0)).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            as_uints(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), SIZES, T => nearest::<T>(p), else
                Err(KernelError::DType(p.dtype(0))))
            })
        }),
        gpu(launches::nearest),
    ],
};

/// Gradient of [`RESIZE_NEAREST_NEIGHBOR`].
pub(crate) static RESIZE_NEAREST_NEIGHBOR_GRAD: Op = Op {
    def: OpDef {
        name: "ResizeNearestNeighborGrad",
        summary: "The gradient of ResizeNearestNeighbor, to images of the given size.",
        inputs: &[arg("grads", "T"), arg_of("size", DType::I32).host()],
        outputs: &[arg("output", "T")],
        attrs: NEAREST_GRAD_ATTRS,
        shape: |cx| {
            let grads = cx.ranked(0, 4)?;
            let [lines, columns] = size(cx, 1)?;
            cx.set(
                0,
                Shape::partial([grads.dim(0), lines, columns, grads.dim(3)]),
            );
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let node = gradient_node(g, "ResizeNearestNeighbor").input(g.grad());
            smallvec![Some(node.input(size_output(g, 0)).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            widened_ints(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F16 BF16 F32 F64 I64 U64], T => nearest_grad::<T>(p), else
                Err(KernelError::DType(p.dtype(0))))
            })
        }),
        gpu(launches::nearest_grad),
    ],
};
