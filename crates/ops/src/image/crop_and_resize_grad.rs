//! CropAndResizeGradImage, CropAndResizeGradBoxes.

use smallvec::SmallVec;
use thalweg_cpu::number::Number;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg, arg_of, str_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use super::crop_and_resize::{Axis, METHOD, PIXELS, Pixels, crops_of, image_number};
use crate::support::shape_inputs::{checked_shape, invalid_value, vector_length};
use crate::support::widened::widened;

/// Dimensions of images and of crops.
type Dims = [[usize; 4]; 2];

fn dims(images: &[usize], crops: &[usize]) -> Result<Dims, KernelError> {
    match (images.try_into(), crops.try_into()) {
        (Ok(images), Ok(crops)) => Ok([images, crops]),
        _ => Err(KernelError::Argument("images and crops")),
    }
}

/// Adds each gradient to the pixels that its number comes from, in TensorFlow's order.
fn image_grad<T: Number>(
    cx: &KernelCx<'_>,
    [images, crops]: Dims,
    nearest: bool,
) -> Result<(), KernelError> {
    let [batch, height, width, channels] = images;
    let (grads, out) = (cx.input::<f32>(0)?, cx.output::<T>(0)?);
    let (boxes, _) = cx.input::<f32>(1)?.as_chunks::<4>();
    let numbers = cx.input::<i32>(2)?;
    out.fill(T::ZERO);
    if grads.is_empty() {
        return Ok(());
    }
    let [_, lines, columns, _] = crops;
    let each = grads.chunks_exact(lines * columns * channels);
    for (element, ((grads, bounds), &number)) in each.zip(boxes).zip(numbers).enumerate() {
        let image = image_number(element, number, batch)?;
        let (down, across) = Axis::pair(*bounds, [height, width], [lines, columns]);
        let all = height * width * channels;
        let out = &mut out[image * all..][..all];
        // The gradients of a pixel's channels, times two shares.
        let mut add = |y: usize, x: usize, grads: &[f32], shares: [f32; 2]| {
            let pixel = &mut out[(y * width + x) * channels..][..channels];
            for (to, grad) in pixel.iter_mut().zip(grads) {
                let more = shares[1] * (shares[0] * grad);
                *to = to.add(T::from_f64(more.into()));
            }
        };
        let places: SmallVec<[Option<Pixels>; 64]> =
            (0..columns).map(|j| across.pixels(j)).collect();
        for (i, grads) in grads.chunks_exact(columns * channels).enumerate() {
            let Some(y) = down.pixels(i) else { continue };
            for (x, grads) in places.iter().zip(grads.chunks_exact(channels)) {
                let Some(x) = x else { continue };
                if nearest {
                    add(y.nearest, x.nearest, grads, [1.0; 2]);
                    continue;
                }
                for (line, share) in [(y.low, 1.0 - y.share), (y.high, y.share)] {
                    add(line, x.low, grads, [share, 1.0 - x.share]);
                    add(line, x.high, grads, [share, x.share]);
                }
            }
        }
    }
    Ok(())
}

/// Shares of a pixel's gradient that the start and the end of an axis get.
fn shares(i: usize, from: usize, to: usize) -> [f32; 2] {
    let last = from as f32 - 1.0;
    match to > 1 {
        true => {
            let at = i as f32 * (last / (to - 1) as f32);
            [last - at, at]
        }
        false => [0.5 * last; 2],
    }
}

/// Moves of the corners of boxes, by the slope of the image under each pixel.
fn boxes_grad<T: Number>(cx: &KernelCx<'_>, [images, crops]: Dims) -> Result<(), KernelError> {
    let [batch, height, width, channels] = images;
    let [_, lines, columns, _] = crops;
    let (grads, images) = (cx.input::<f32>(0)?, cx.input::<T>(1)?);
    let (boxes, _) = cx.input::<f32>(2)?.as_chunks::<4>();
    let numbers = cx.input::<i32>(3)?;
    let out = cx.output::<f32>(0)?;
    out.fill(0.0);
    if grads.is_empty() {
        return Ok(());
    }
    let (out, _) = out.as_chunks_mut::<4>();
    let each = grads.chunks_exact(lines * columns * channels);
    for (element, ((grads, bounds), &number)) in each.zip(boxes).zip(numbers).enumerate() {
        let image = image_number(element, number, batch)?;
        let (down, across) = Axis::pair(*bounds, [height, width], [lines, columns]);
        let all = height * width * channels;
        let image = &images[image * all..][..all];
        for (i, grads) in grads.chunks_exact(columns * channels).enumerate() {
            let Some(y) = down.position(i) else { continue };
            for (j, grads) in grads.chunks_exact(channels).enumerate() {
                let Some(x) = across.position(j) else {
                    continue;
                };
                let share = [y - y.floor(), x - x.floor()];
                for (k, &grad) in grads.iter().enumerate() {
                    let at = |y: f32, x: f32| {
                        image[(y as usize * width + x as usize) * channels + k].to_f64() as f32
                    };
                    let [top_left, top_right] = [at(y.floor(), x.floor()), at(y.floor(), x.ceil())];
                    let [bottom_left, bottom_right] =
                        [at(y.ceil(), x.floor()), at(y.ceil(), x.ceil())];
                    let dy = (1.0 - share[1]) * (bottom_left - top_left)
                        + share[1] * (bottom_right - top_right);
                    let dx = (1.0 - share[0]) * (top_right - top_left)
                        + share[0] * (bottom_right - bottom_left);
                    let [top, bottom] = shares(i, height, lines);
                    let [left, right] = shares(j, width, columns);
                    let corner = &mut out[element];
                    corner[0] += dy * grad * top;
                    corner[2] += dy * grad * bottom;
                    corner[1] += dx * grad * left;
                    corner[3] += dx * grad * right;
                }
            }
        }
    }
    Ok(())
}

fn prepare_image<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let dims = dims(p.output_dims(0), p.dims(0))?;
    let nearest = p.node.attrs.str(METHOD) == "nearest";
    let n = p.inputs.first().map_or(0, |x| x.elements());
    Ok(Prepared::new(16 * n, move |cx| {
        image_grad::<T>(cx, dims, nearest)
    }))
}

fn prepare_boxes<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let dims = dims(p.dims(1), p.dims(0))?;
    let n = p.inputs.first().map_or(0, |x| x.elements());
    Ok(Prepared::new(16 * n, move |cx| boxes_grad::<T>(cx, dims)))
}

fn image_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let grads = cx.ranked(0, 4)?;
    crops_of(cx, &grads, 1, 2)?;
    if vector_length(cx, 3)?.is_some_and(|n| n != 4) {
        return Err(invalid_value(3, "the size of images has 4 numbers"));
    }
    let mut dims = [None; 4];
    for (dim, n) in dims.iter_mut().zip(cx.ints(3).unwrap_or_default()) {
        let n = usize::try_from(n);
        *dim = Some(n.map_err(|_| invalid_value(3, "a side of images is negative"))?);
    }
    if dims[1] == Some(0) || dims[2] == Some(0) {
        return Err(invalid_value(3, "images have no pixels"));
    }
    if let (Some(a), Some(b)) = (grads.dim(3), dims[3])
        && a != b
    {
        return Err(invalid_value(
            3,
            format!("{b} channels for gradients of {a}"),
        ));
    }
    dims[3] = dims[3].or(grads.dim(3));
    let shape = checked_shape(3, Shape::partial(dims))?;
    cx.set(0, shape);
    Ok(())
}

fn boxes_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (grads, image) = (cx.ranked(0, 4)?, cx.ranked(1, 4)?);
    crops_of(cx, &grads, 2, 3)?;
    if image.dim(1) == Some(0) || image.dim(2) == Some(0) {
        return Err(invalid_value(1, "images have no pixels"));
    }
    if let (Some(a), Some(b)) = (grads.dim(3), image.dim(3))
        && a != b
    {
        return Err(invalid_value(
            1,
            format!("{b} channels for gradients of {a}"),
        ));
    }
    let count = grads.dim(0).or(cx.shape(2).dim(0));
    cx.set(0, Shape::partial([count, Some(4)]));
    Ok(())
}

/// Gradient of the images of CropAndResize.
pub(crate) static CROP_AND_RESIZE_GRAD_IMAGE: Op = Op {
    def: OpDef {
        name: "CropAndResizeGradImage",
        summary: "The gradient of CropAndResize to its images.",
        inputs: &[
            arg_of("grads", DType::F32),
            arg_of("boxes", DType::F32),
            arg_of("box_ind", DType::I32),
            arg_of("image_size", DType::I32).host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &[DType::F32, DType::F16, DType::F64]),
            str_attr(METHOD, "bilinear", &["bilinear", "nearest"]),
        ],
        shape: image_shape,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let dtype = p.outputs.first().map_or(DType::F32, |o| o.dtype);
        dispatch!(dtype, [F16 F32 F64], T => prepare_image::<T>(p), else Err(KernelError::DType(dtype)))
    })],
};

/// Gradient of the boxes of CropAndResize.
pub(crate) static CROP_AND_RESIZE_GRAD_BOXES: Op = Op {
    def: OpDef {
        name: "CropAndResizeGradBoxes",
        summary: "The gradient of CropAndResize to its boxes.",
        inputs: &[
            arg_of("grads", DType::F32),
            arg("image", "T"),
            arg_of("boxes", DType::F32),
            arg_of("box_ind", DType::I32),
        ],
        outputs: &[arg_of("output", DType::F32)],
        attrs: &[
            type_attr("T", PIXELS),
            str_attr(METHOD, "bilinear", &["bilinear"]),
        ],
        shape: boxes_shape,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        widened(p, &[1], &[], &|p| {
            dispatch!(p.dtype(1), [F32 F64 I64 U64], T => prepare_boxes::<T>(p), else
                Err(KernelError::DType(p.dtype(1))))
        })
    })],
};
