//! ImageProjectiveTransformV2, ImageProjectiveTransformV3: images seen through a projective transform of coordinates.

use thalweg_cpu::Writer;
use thalweg_cpu::number::Number;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg, arg_of, attr, str_attr, type_attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use crate::support::shape_inputs::{checked_shape, invalid_value};

const DTYPES: &[DType] = &[
    DType::U8,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

/// Replaces a coordinate outside of an image by one inside. The formulas are those of TensorFlow's `image_ops.h`.
#[derive(Clone, Copy)]
enum Fill {
    Constant,
    Reflect,
    Wrap,
    Nearest,
}

impl Fill {
    fn of(mode: &str) -> Result<Fill, KernelError> {
        Ok(match mode {
            "CONSTANT" => Fill::Constant,
            "REFLECT" => Fill::Reflect,
            "WRAP" => Fill::Wrap,
            "NEAREST" => Fill::Nearest,
            _ => {
                return Err(KernelError::Invalid(format!(
                    "Invalid fill_mode '{mode}': it is CONSTANT, REFLECT, WRAP or NEAREST"
                )));
            }
        })
    }

    /// The coordinate that is read for `x` along an axis of `length` pixels, which is at least 1.
    #[inline(always)]
    fn map(self, x: f32, length: usize) -> f32 {
        let (n, last) = (length as f32, (length - 1) as f32);
        let inside = match self {
            Fill::Constant => return x,
            Fill::Nearest => x,
            _ if length == 1 => 0.0,
            Fill::Reflect if x < 0.0 => {
                let period = 2.0 * n;
                let x = match x < period {
                    true => period * (-x / period).trunc() + x,
                    false => x,
                };
                if x < -n { x + period } else { -x - 1.0 }
            }
            Fill::Reflect if x > last => {
                let period = 2.0 * n;
                let x = x - period * (x / period).trunc();
                if x >= n { period - x - 1.0 } else { x }
            }
            Fill::Wrap if x < 0.0 => x + n * ((-x / last).trunc() + 1.0),
            Fill::Wrap if x > last => x - n * (x / last).trunc(),
            Fill::Reflect | Fill::Wrap => x,
        };
        inside.clamp(0.0, last)
    }
}

/// One image, and the value of pixels outside of it.
struct Pixels<'a, T> {
    pixels: &'a [T],
    sides: [usize; 2],
    depth: usize,
    outside: T,
}

impl<T: Number> Pixels<'_, T> {
    /// The pixel at a whole coordinate.
    #[inline(always)]
    fn at(&self, [y, x]: [f32; 2], channel: usize) -> T {
        let [lines, columns] = self.sides;
        let inside = y >= 0.0 && x >= 0.0 && y < lines as f32 && x < columns as f32;
        match inside {
            true => self.pixels[(y as usize * columns + x as usize) * self.depth + channel],
            false => self.outside,
        }
    }

    #[inline(always)]
    fn float(&self, at: [f32; 2], channel: usize) -> f32 {
        self.at(at, channel).to_f64() as f32
    }

    #[inline(always)]
    fn nearest(&self, at: [f32; 2], channel: usize) -> T {
        self.at([at[0].round(), at[1].round()], channel)
    }

    #[inline(always)]
    fn bilinear(&self, [y, x]: [f32; 2], channel: usize) -> T {
        let [top, left] = [y.floor(), x.floor()];
        let [bottom, right] = [top + 1.0, left + 1.0];
        let [a, b] = [
            self.float([top, left], channel),
            self.float([top, right], channel),
        ];
        let [c, d] = [
            self.float([bottom, left], channel),
            self.float([bottom, right], channel),
        ];
        let upper = (right - x) * a + (x - left) * b;
        let lower = (right - x) * c + (x - left) * d;
        T::from_f64(f64::from((bottom - y) * upper + (y - top) * lower))
    }
}

/// The source of an output pixel; `None` at infinity.
#[inline(always)]
fn source(
    transform: &[f32; 8],
    [x, y]: [f32; 2],
    fill: Fill,
    sides: [usize; 2],
) -> Option<[f32; 2]> {
    let [a0, a1, a2, b0, b1, b2, c0, c1] = *transform;
    let scale = c0 * x + c1 * y + 1.0;
    if scale == 0.0 {
        return None;
    }
    let from_x = (a0 * x + a1 * y + a2) / scale;
    let from_y = (b0 * x + b1 * y + b2) / scale;
    let at = [fill.map(from_y, sides[0]), fill.map(from_x, sides[1])];
    at.iter().all(|x| x.is_finite()).then_some(at)
}

fn transformed<T: Number>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (&[batch, lines, columns, depth], &[count, 8]) =
        (cx.tensor(0)?.dims(), cx.tensor(1)?.dims())
    else {
        return Err(KernelError::Argument("images, and transforms of 8 numbers"));
    };
    if count != 1 && count != batch {
        return Err(KernelError::Invalid(format!(
            "transforms must be one, or one for each of the {batch} images: there are {count}"
        )));
    }
    let [rows, cells] = output_size(cx)?;
    let outside = match cx.inputs() {
        4 => match *cx.slice::<f32>(3)? {
            [value] => value,
            _ => return Err(KernelError::Argument("one fill_value")),
        },
        _ => 0.0,
    };
    let fill = Fill::of(cx.attrs().str("fill_mode"))?;
    let bilinear = match cx.attrs().str("interpolation") {
        "BILINEAR" => true,
        "NEAREST" => false,
        other => {
            return Err(KernelError::Invalid(format!(
                "Invalid interpolation '{other}': it is NEAREST or BILINEAR"
            )));
        }
    };
    let (x, transforms) = (cx.slice::<T>(0)?, cx.slice::<f32>(1)?);
    let (transforms, _) = transforms.as_chunks::<8>();
    let mut out = cx.zeros(cx.tensor(0)?.dtype(), &[batch, rows, cells, depth])?;
    if out.is_empty() {
        return Ok(vec![out]);
    }
    let outside = T::from_f64(f64::from(outside));
    let to = out.as_mut_slice::<T>()?;
    if x.is_empty() {
        to.fill(outside);
        return Ok(vec![out]);
    }
    let mut stop = cx.stop_check();
    let image_size = lines * columns * depth;
    for (image, to) in to.chunks_exact_mut(rows * cells * depth).enumerate() {
        stop.ticks(to.len())?;
        let pixels = Pixels {
            pixels: &x[image * image_size..][..image_size],
            sides: [lines, columns],
            depth,
            outside,
        };
        let transform = &transforms[if count == 1 { 0 } else { image }];
        for_chunks(cx.cpu().pool(), to, cells * depth, &|row, to| {
            cx.cpu().isa().run(Writer(
                to,
                #[inline(always)]
                |to: &mut [T]| pixels.transform_row(transform, (fill, bilinear), row, to),
            ));
        });
    }
    Ok(vec![out])
}

impl<T: Number> Pixels<'_, T> {
    /// Computes a row of an output.
    #[inline(always)]
    fn transform_row(
        &self,
        transform: &[f32; 8],
        (fill, bilinear): (Fill, bool),
        row: usize,
        to: &mut [T],
    ) {
        for (cell, to) in to.chunks_exact_mut(self.depth).enumerate() {
            let from = source(transform, [cell as f32, row as f32], fill, self.sides);
            for (channel, to) in to.iter_mut().enumerate() {
                *to = match from {
                    None => self.outside,
                    Some(from) if bilinear => self.bilinear(from, channel),
                    Some(from) => self.nearest(from, channel),
                };
            }
        }
    }
}

fn output_size(cx: &TensorCx<'_>) -> Result<[usize; 2], KernelError> {
    let &[rows, cells] = &cx.ints(2)?[..] else {
        return Err(KernelError::Argument("an output_shape of two numbers"));
    };
    match [rows, cells].map(|n| usize::try_from(n).ok().filter(|&n| n > 0)) {
        [Some(rows), Some(cells)] => Ok([rows, cells]),
        _ => Err(KernelError::Invalid(format!(
            "output dimensions must be positive: output_shape is [{rows}, {cells}]"
        ))),
    }
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let images = cx.ranked(0, 4)?;
    if cx.ranked(1, 2)?.dim(1).is_some_and(|n| n != 8) {
        return Err(invalid_value(1, "a transform has 8 numbers"));
    }
    if cx.ranked(2, 1)?.dim(0).is_some_and(|n| n != 2) {
        return Err(invalid_value(2, "it must have two elements"));
    }
    if cx.inputs() > 3 {
        cx.ranked(3, 0)?;
    }
    let size = match cx.ints(2).as_deref() {
        Some(&[rows, cells]) => [rows, cells].map(|n| usize::try_from(n).ok()),
        _ => [None, None],
    };
    let all = Shape::partial([images.dim(0), size[0], size[1], images.dim(3)]);
    let shape = checked_shape(2, all)?;
    cx.set(0, shape);
    Ok(())
}

/// Images through a transform; pixels from outside are zero.
pub(crate) static PROJECTIVE_TRANSFORM_V2: Op = Op {
    def: OpDef {
        name: "ImageProjectiveTransformV2",
        summary: "Images whose pixels are read through a projective transform of coordinates.",
        inputs: &[
            arg("images", "dtype"),
            arg_of("transforms", DType::F32),
            arg_of("output_shape", DType::I32).host(),
        ],
        outputs: &[arg("transformed_images", "dtype")],
        attrs: &[
            type_attr("dtype", DTYPES),
            attr("interpolation", AttrKind::Str),
            str_attr("fill_mode", "CONSTANT", &[]),
        ],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(kernel)],
};

/// As [`PROJECTIVE_TRANSFORM_V2`], with the value of pixels from outside.
pub(crate) static PROJECTIVE_TRANSFORM_V3: Op = Op {
    def: OpDef {
        name: "ImageProjectiveTransformV3",
        summary: "Images whose pixels are read through a projective transform of coordinates, with a value for those outside.",
        inputs: &[
            arg("images", "dtype"),
            arg_of("transforms", DType::F32),
            arg_of("output_shape", DType::I32).host(),
            arg_of("fill_value", DType::F32),
        ],
        ..PROJECTIVE_TRANSFORM_V2.def
    },
    kernels: &[cpu_tensors(kernel)],
};

fn kernel(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let dtype = cx.tensor(0)?.dtype();
    dispatch!(dtype, [U8 I32 I64 F16 BF16 F32 F64], T => transformed::<T>(cx),
        else Err(KernelError::DType(dtype)))
}
