//! CropAndResize: windows of images, each resized.

use smallvec::smallvec;
use thalweg_cpu::number::Number;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, InputGradients, arg, arg_of, float_attr, str_attr, type_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use crate::support::shape_inputs::{checked_shape, invalid_value, vector_length};
use crate::support::widened::widened;

/// The attribute of interpolation.
pub(super) const METHOD: &str = "method";
/// Dtypes of pixels; unlike other ops on images, without `bf16`.
pub(super) const PIXELS: &[DType] = &[
    DType::U8,
    DType::U16,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::F32,
    DType::F64,
];

/// Positions in the image of the pixels of a crop along an axis, from `start` to `end` in shares of the image.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    start: f32,
    end: f32,
    /// Pixels of the image.
    from: usize,
    /// Pixels of the crop.
    to: usize,
}

impl Axis {
    /// The axes of a box: of lines, and of columns.
    pub(super) fn pair(bounds: [f32; 4], from: [usize; 2], to: [usize; 2]) -> (Axis, Axis) {
        let axis = |i: usize| Axis {
            start: bounds[i],
            end: bounds[i + 2],
            from: from[i],
            to: to[i],
        };
        (axis(0), axis(1))
    }

    /// Position of pixel `i`, or none outside of the image.
    pub(super) fn position(&self, i: usize) -> Option<f32> {
        let last = self.from as f32 - 1.0;
        let at = match self.to > 1 {
            true => {
                let scale = (self.end - self.start) * last / (self.to - 1) as f32;
                self.start * last + i as f32 * scale
            }
            // The middle, computed in f64 as in TensorFlow.
            false => (0.5 * f64::from(self.start + self.end) * f64::from(last)) as f32,
        };
        (at >= 0.0 && at <= last).then_some(at)
    }

    /// The pixels of the image around pixel `i`, or none outside of the image.
    pub(super) fn pixels(&self, i: usize) -> Option<Pixels> {
        let at = self.position(i)?;
        Some(Pixels {
            low: at.floor() as usize,
            high: at.ceil() as usize,
            nearest: at.round() as usize,
            share: at - at.floor(),
        })
    }
}

/// The pixels of an image around a position on an axis.
#[derive(Clone, Copy)]
pub(super) struct Pixels {
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) nearest: usize,
    /// The share of the higher one.
    pub(super) share: f32,
}

/// The image of a box.
pub(super) fn image_number(
    element: usize,
    number: i32,
    batch: usize,
) -> Result<usize, KernelError> {
    let found = usize::try_from(number).ok().filter(|&n| n < batch);
    found.ok_or_else(|| {
        KernelError::Invalid(format!(
            "box {element} is one of image {number}, but there are {batch} images"
        ))
    })
}

/// Checks the shapes of boxes, input `boxes`, and of the numbers of their images, input `numbers`, for as many crops.
pub(super) fn crops_of(
    cx: &Infer<'_>,
    crops: &Shape,
    boxes: usize,
    numbers: usize,
) -> Result<Option<usize>, InferError> {
    let corners = cx.ranked(boxes, 2)?;
    if corners.dim(1).is_some_and(|n| n != 4) {
        let text = "a box is two corners, so the second dimension must be 4";
        return Err(invalid_value(boxes, text));
    }
    let counts = [crops.dim(0), corners.dim(0), cx.ranked(numbers, 1)?.dim(0)];
    let mut known = counts.into_iter().flatten();
    let first = known.next();
    match known.find(|&n| Some(n) != first) {
        Some(_) => Err(invalid_value(
            numbers,
            format!("there are not as many crops, boxes and numbers of images: {counts:?}"),
        )),
        None => Ok(first),
    }
}

/// Options of a node, and the dimensions of its images and crops.
struct Options {
    images: [usize; 4],
    crops: [usize; 4],
    nearest: bool,
    outside: f32,
}

/// Columns of a crop whose places are kept at a time.
const COLUMNS: usize = 64;

fn run<T: Number>(cx: &KernelCx<'_>, o: &Options) -> Result<(), KernelError> {
    let [batch, height, width, channels] = o.images;
    let [_, lines, columns, _] = o.crops;
    let (images, out) = (cx.input::<T>(0)?, cx.output::<f32>(0)?);
    let (boxes, _) = cx.input::<f32>(1)?.as_chunks::<4>();
    let numbers = cx.input::<i32>(2)?;
    if out.is_empty() {
        return Ok(());
    }
    for (element, (bounds, &number)) in boxes.iter().zip(numbers).enumerate() {
        if !bounds.iter().all(|x| x.is_finite()) {
            return Err(KernelError::Element {
                input: 1,
                element: element * 4,
                reason: format!("the box {bounds:?} is not finite"),
            });
        }
        image_number(element, number, batch)?;
    }
    for_chunks(
        cx.pool(),
        out,
        lines * columns * channels,
        &|element, out| {
            let image = numbers[element] as usize * height * width * channels;
            let pixel =
                |y: usize, x: usize| &images[image + (y * width + x) * channels..][..channels];
            let (down, across) = Axis::pair(boxes[element], [height, width], [lines, columns]);
            let write = |y: Option<Pixels>, x: Option<Pixels>, out: &mut [f32]| match (y, x) {
                (Some(y), Some(x)) if o.nearest => nearest(pixel(y.nearest, x.nearest), out),
                (Some(y), Some(x)) => {
                    let top = [pixel(y.low, x.low), pixel(y.low, x.high)];
                    let bottom = [pixel(y.high, x.low), pixel(y.high, x.high)];
                    bilinear([top, bottom], [y.share, x.share], out);
                }
                _ => out.fill(o.outside),
            };
            // The places of some columns at a time are found once for all lines, without memory of their own.
            for first in (0..columns).step_by(COLUMNS) {
                let count = COLUMNS.min(columns - first);
                let mut places = [None; COLUMNS];
                for (j, place) in places[..count].iter_mut().enumerate() {
                    *place = across.pixels(first + j);
                }
                for (i, out) in out.chunks_exact_mut(columns * channels).enumerate() {
                    let y = down.pixels(i);
                    let out = &mut out[first * channels..][..count * channels];
                    for (x, out) in places.iter().zip(out.chunks_exact_mut(channels)) {
                        write(y, *x, out);
                    }
                }
            }
        },
    );
    Ok(())
}

fn nearest<T: Number>(pixel: &[T], out: &mut [f32]) {
    let pairs = out.iter_mut().zip(pixel);
    pairs.for_each(|(out, x)| *out = x.to_f64() as f32);
}

/// Between the pixels of two lines, by the shares of the lower line and of the right pixels.
fn bilinear<T: Number>([top, bottom]: [[&[T]; 2]; 2], [down, right]: [f32; 2], out: &mut [f32]) {
    let mix = |a: f32, b: f32, share: f32| a + (b - a) * share;
    let line = |a: &T, b: &T| mix(a.to_f64() as f32, b.to_f64() as f32, right);
    let lines = top[0]
        .iter()
        .zip(top[1])
        .zip(bottom[0].iter().zip(bottom[1]));
    for (out, ((a, b), (c, d))) in out.iter_mut().zip(lines) {
        *out = mix(line(a, b), line(c, d), down);
    }
}

fn prepare<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let four = |dims: &[usize]| <[usize; 4]>::try_from(dims);
    let (Ok(images), Ok(crops)) = (four(p.dims(0)), four(p.output_dims(0))) else {
        return Err(KernelError::Argument("images"));
    };
    let options = Options {
        images,
        crops,
        nearest: p.node.attrs.str(METHOD) == "nearest",
        outside: p.node.attrs.float("extrapolation_value"),
    };
    let n = p.outputs.first().map_or(0, |o| o.elements());
    Ok(Prepared::new(8 * n, move |cx| run::<T>(cx, &options)))
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let image = cx.ranked(0, 4)?;
    for axis in [1, 2] {
        if image.dim(axis) == Some(0) {
            return Err(invalid_value(0, "images have no pixels"));
        }
    }
    let count = crops_of(cx, &Shape::of_rank(4), 1, 2)?;
    if vector_length(cx, 3)?.is_some_and(|n| n != 2) {
        return Err(invalid_value(3, "a size is a height and a width"));
    }
    let mut sides = [None, None];
    for (side, n) in sides.iter_mut().zip(cx.ints(3).unwrap_or_default()) {
        match usize::try_from(n) {
            Ok(n) if n > 0 => *side = Some(n),
            _ => return Err(invalid_value(3, format!("a side of {n} is not positive"))),
        }
    }
    let shape = Shape::partial([count, sides[0], sides[1], image.dim(3)]);
    let shape = checked_shape(3, shape)?;
    cx.set(0, shape);
    Ok(())
}

/// The images have one if they are floats; the boxes have that of bilinear interpolation in any case, as in TensorFlow.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (image, graph) = (g.input(0), g.graph());
    let [boxes, numbers] = [g.input(1), g.input(2)];
    let node = graph.op("CropAndResizeGradBoxes").input(g.grad());
    let of_boxes = node.input(image).input(boxes).input(numbers).output();
    if !matches!(image.dtype(), DType::F16 | DType::F32 | DType::F64) {
        return smallvec![None, Some(of_boxes)];
    }
    let size = graph.op("Shape").input(image).output();
    let node = graph.op("CropAndResizeGradImage").input(g.grad());
    let node = node.input(boxes).input(numbers).input(size);
    let node = node.attr("T", image.dtype());
    let node = node.attr(METHOD, g.attrs().str(METHOD));
    smallvec![Some(node.output()), Some(of_boxes)]
}

/// Resizes windows of images.
pub(crate) static CROP_AND_RESIZE: Op = Op {
    def: OpDef {
        name: "CropAndResize",
        summary: "Windows of images, given by boxes in shares of the image's size, each resized to one size.",
        inputs: &[
            arg("image", "T"),
            arg_of("boxes", DType::F32),
            arg_of("box_ind", DType::I32),
            arg_of("crop_size", DType::I32).host(),
        ],
        outputs: &[arg_of("crops", DType::F32)],
        attrs: &[
            type_attr("T", PIXELS),
            str_attr(METHOD, "bilinear", &["bilinear", "nearest"]),
            float_attr("extrapolation_value", 0.0),
        ],
        shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        if p.dtype(0) == DType::U8 {
            return prepare::<u8>(p);
        }
        widened(p, &[0], &[], &|p| {
            dispatch!(p.dtype(0), [F32 F64 I64 U64], T => prepare::<T>(p), else
                Err(KernelError::DType(p.dtype(0))))
        })
    })],
};
