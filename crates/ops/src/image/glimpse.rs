//! ExtractGlimpse, ExtractGlimpseV2: windows of images, with noise beyond their edges.
//!
//! TensorFlow draws the noise from the C library's generator, which no attribute seeds. Here it comes from a sequence
//! without seeds, so it differs from run to run here as well; its distribution is the same. Pixels of the image, and the
//! zeros of `noise = "zero"`, are TensorFlow's.

use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{AttrDef, Effect, Gradient, arg_of, bool_attr, str_attr};
use thalweg_graph::{Attrs, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::images::expect_last;
use crate::random::box_muller::{normal_pair_f32, uniform_f32};
use crate::random::philox::Philox;
use crate::random::reserve::take_blocks;
use crate::support::shape_inputs::{checked_shape, invalid_value, vector_length};

const CENTERED: AttrDef = bool_attr("centered", true);
const NORMALIZED: AttrDef = bool_attr("normalized", true);
const UNIFORM: AttrDef = bool_attr("uniform_noise", true);
const NOISE: AttrDef = str_attr("noise", "uniform", &["", "uniform", "gaussian", "zero"]);

/// The pixels of a window beyond the image.
#[derive(Clone, Copy)]
enum Noise {
    /// Between the smallest and the largest value of the image.
    Uniform,
    /// With the mean and the deviation of each channel, within its values.
    Gaussian,
    Zero,
}

impl Noise {
    fn of(attrs: &Attrs) -> Noise {
        match (attrs.str(NOISE.name), attrs.bool(UNIFORM.name)) {
            ("zero", _) => Noise::Zero,
            ("uniform", _) | ("", true) => Noise::Uniform,
            _ => Noise::Gaussian,
        }
    }

    /// Fills a window.
    fn fill(self, image: &[f32], channels: usize, out: &mut [f32], mut word: impl FnMut() -> u32) {
        if image.is_empty() || matches!(self, Noise::Zero) {
            out.fill(0.0);
            return;
        }
        if matches!(self, Noise::Uniform) {
            let [least, most] = bounds(image.iter());
            let range = most - least;
            out.iter_mut()
                .for_each(|to| *to = least + uniform_f32(word()) * range);
            return;
        }
        for channel in 0..channels {
            let values = || image[channel..].iter().step_by(channels);
            let n = (image.len() / channels) as f64;
            let mean = (values().map(|&v| f64::from(v)).sum::<f64>() / n) as f32;
            let squares = values().map(|&v| f64::from(v - mean).powi(2));
            let sigma = (squares.sum::<f64>() / n).sqrt() as f32;
            let [least, most] = bounds(values());
            let mut pair = [0.0; 2];
            for (i, to) in out[channel..].iter_mut().step_by(channels).enumerate() {
                if i % 2 == 0 {
                    pair = normal_pair_f32(word(), word());
                }
                *to = (mean + pair[i % 2] * sigma).min(most).max(least);
            }
        }
    }
}

/// The smallest and the largest value.
fn bounds<'a>(values: impl Iterator<Item = &'a f32>) -> [f32; 2] {
    values.fold([f32::INFINITY, f32::NEG_INFINITY], |[least, most], &v| {
        [least.min(v), most.max(v)]
    })
}

/// The meaning of offsets.
#[derive(Clone, Copy)]
struct Offsets {
    /// The rules of ExtractGlimpse, not of ExtractGlimpseV2.
    first_version: bool,
    centered: bool,
    normalized: bool,
}

impl Offsets {
    /// First pixel of a window along an axis, which may lie outside of the image. It is rounded towards zero.
    fn start(self, offset: f32, image: usize, window: usize) -> i64 {
        let (image, window) = (image as f32, window as f32);
        let scaled = if self.normalized {
            offset * image
        } else {
            offset
        };
        let at = match (self.first_version, self.normalized, self.centered) {
            (true, _, true) | (false, true, true) => scaled / 2.0 + image / 2.0 - window / 2.0,
            (true, _, false) => scaled - window / 2.0,
            (false, false, true) => scaled + image / 2.0,
            (false, _, false) => scaled,
        };
        match at.is_nan() {
            true => i64::MIN,
            false => at as i64,
        }
    }
}

/// The part of an axis where a window covers the image.
struct Overlap {
    /// First pixel in the image.
    from: usize,
    /// First pixel in the window.
    to: usize,
    pixels: usize,
}

impl Overlap {
    fn new(start: i64, image: usize, window: usize) -> Overlap {
        let skipped = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
        let (from, to) = match start < 0 {
            true => (0, skipped.min(window)),
            false => (skipped.min(image), 0),
        };
        Overlap {
            from,
            to,
            pixels: (image - from).min(window - to),
        }
    }
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (&[_, height, width, channels], &[batch, lines, columns, _]) =
        (p.dims(0), p.output_dims(0))
    else {
        return Err(KernelError::Argument("images"));
    };
    let attrs = &p.node.attrs;
    let rule = Offsets {
        first_version: p.node.op.name == EXTRACT_GLIMPSE.def.name,
        centered: attrs.bool(CENTERED.name),
        normalized: attrs.bool(NORMALIZED.name),
    };
    let (noise, philox) = (Noise::of(attrs), Philox::of(attrs));
    let size = lines * columns * channels;
    Ok(Prepared::new(batch * size, move |cx| {
        let (x, offsets, out) = (
            cx.input::<f32>(0)?,
            cx.input::<f32>(2)?,
            cx.output::<f32>(0)?,
        );
        if out.is_empty() {
            return Ok(());
        }
        // One word for each number, and one more for each channel with an odd count of them.
        let blocks = (size + channels).div_ceil(4) as u64;
        let first = take_blocks(cx, blocks.wrapping_mul(batch as u64))?;
        let line = width * channels;
        for_chunks(cx.pool(), out, size, &|i, out| {
            let image = &x[i * height * line..][..height * line];
            let [down, across] = [(0, height, lines), (1, width, columns)].map(|(k, n, window)| {
                Overlap::new(rule.start(offsets[2 * i + k], n, window), n, window)
            });
            if down.pixels < lines || across.pixels < columns {
                let first = first.wrapping_add(blocks.wrapping_mul(i as u64));
                noise.fill(image, channels, out, philox.words(first));
            }
            let length = across.pixels * channels;
            for y in 0..down.pixels {
                let from = (down.from + y) * line + across.from * channels;
                let to = ((down.to + y) * columns + across.to) * channels;
                out[to..][..length].copy_from_slice(&image[from..][..length]);
            }
        });
        Ok(())
    }))
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (images, offsets) = (cx.ranked(0, 4)?, cx.ranked(2, 2)?);
    if vector_length(cx, 1)?.is_some_and(|n| n != 2) {
        return Err(invalid_value(1, "a size is a height and a width"));
    }
    expect_last(cx, 2, 2)?;
    let (attrs, uniform) = (cx.attrs(), ["", "uniform"]);
    if attrs.bool(UNIFORM.name) && !uniform.contains(&attrs.str(NOISE.name)) {
        return Err(InferError::Attr {
            attr: UNIFORM.name,
            reason: format!(
                "it is true, and noise is '{}': set it to false",
                attrs.str(NOISE.name)
            ),
        });
    }
    let batch = match (images.dim(0), offsets.dim(0)) {
        (Some(n), Some(m)) if n != m => {
            return Err(invalid_value(
                2,
                format!("there are {m} offsets, and {n} images"),
            ));
        }
        (n, m) => n.or(m),
    };
    let mut dims = [batch, None, None, images.dim(3)];
    let size = cx.ints(1).unwrap_or_default();
    for (dim, n) in dims[1..3].iter_mut().zip(size) {
        let side = usize::try_from(n).map_err(|_| invalid_value(1, format!("a side is {n}")))?;
        *dim = Some(side);
    }
    cx.set(0, checked_shape(1, Shape::partial(dims))?);
    Ok(())
}

/// Windows of images.
pub(crate) static EXTRACT_GLIMPSE: Op = Op {
    def: OpDef {
        name: "ExtractGlimpse",
        summary: "A window of each image, around an offset, with noise beyond the image.",
        inputs: &[
            arg_of("input", DType::F32),
            arg_of("size", DType::I32).host(),
            arg_of("offsets", DType::F32),
        ],
        outputs: &[arg_of("glimpse", DType::F32)],
        attrs: &[CENTERED, NORMALIZED, UNIFORM, NOISE],
        shape,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare)],
};

/// As [`EXTRACT_GLIMPSE`], and offsets are those of the first pixel unless they are both centered and normalized.
pub(crate) static EXTRACT_GLIMPSE_V2: Op = Op {
    def: OpDef {
        name: "ExtractGlimpseV2",
        summary: "A window of each image, at an offset, with noise beyond the image.",
        ..EXTRACT_GLIMPSE.def
    },
    kernels: &[cpu(prepare)],
};
