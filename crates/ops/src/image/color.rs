//! AdjustContrastv2, AdjustHue, AdjustSaturation, RGBToHSV, HSVToRGB.

use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{Kernel, KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_image::{Size, pixels};
use thalweg_tensor::{DType, Element};

use super::images::{at_least, expect_last, image_error};
use crate::support::elementwise::CHUNK;
use crate::support::shapes::{expect_scalar, unchanged};
use crate::support::widened::widened;

const HALF_OR_FLOAT: &[AttrDef] = &[type_attr_or("T", &[DType::F16, DType::F32], DType::F32)];
const FLOAT: &[AttrDef] = &[type_attr_or("T", DType::FLOATS, DType::F32)];
const INPUT: &[Arg] = &[arg("images", "T")];
const OUTPUT: &[Arg] = &[arg("output", "T")];
/// TensorFlow's CPU has `f32` alone for adjustments.
const ONLY_F32: &[(&str, &[DType])] = &[("T", &[DType::F32])];
/// Numbers of a pixel.
const COLOR: usize = 3;

/// The number of scalar input 1.
fn factor(cx: &KernelCx<'_>) -> Result<f32, KernelError> {
    match cx.input::<f32>(1)? {
        &[x] => Ok(x),
        _ => Err(KernelError::Argument("a scalar")),
    }
}

/// Kernel that replaces each colour, by a number that `prepare` returns.
fn each_color(
    p: &Prepare<'_>,
    prepare: fn(&KernelCx<'_>) -> Result<f32, KernelError>,
    f: fn([f32; 3], f32) -> [f32; 3],
) -> Result<Prepared, KernelError> {
    let n = p.outputs.first().map_or(0, |o| o.elements());
    Ok(Prepared::new(16 * n, move |cx| {
        let by = prepare(cx)?;
        replace(cx, &|color| f(color, by))
    }))
}

/// Replaces each colour.
fn replace<T: Element>(
    cx: &KernelCx<'_>,
    f: &(dyn Fn([T; COLOR]) -> [T; COLOR] + Sync),
) -> Result<(), KernelError> {
    let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
    let chunk = CHUNK / COLOR * COLOR;
    for_chunks(cx.pool(), out, chunk, &|task, out| {
        let from = x[task * chunk..][..out.len()].as_chunks::<COLOR>().0;
        let to = out.as_chunks_mut::<COLOR>().0;
        to.iter_mut().zip(from).for_each(|(to, &x)| *to = f(x));
    });
    Ok(())
}

fn adjusted_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    at_least(cx, 0, 3)?;
    expect_scalar(cx, 1)?;
    unchanged(cx)
}

fn adjusted_color_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    adjusted_shape(cx)?;
    expect_last(cx, 0, COLOR)
}

fn converted_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    at_least(cx, 0, 1)?;
    expect_last(cx, 0, COLOR)?;
    unchanged(cx)
}

fn contrast(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let n = p.outputs.first().map_or(0, |o| o.elements());
    let [.., height, width, channels] = *p.dims(0) else {
        return Err(KernelError::Argument("images"));
    };
    let size = Size::new(height, width, channels);
    Ok(Prepared::new(8 * n, move |cx| {
        let factor = factor(cx)?;
        let (x, out) = (cx.input::<f32>(0)?, cx.output::<f32>(0)?);
        out.copy_from_slice(x);
        for image in out.chunks_exact_mut(size.elements().max(1)) {
            pixels::adjust_contrast(image, size, factor).map_err(image_error)?;
        }
        Ok(())
    }))
}

/// Moves pixels away from the mean of their channel.
pub(crate) static ADJUST_CONTRAST: Op = Op {
    def: OpDef {
        name: "AdjustContrastv2",
        summary: "Each number moved away from the mean of its image's channel by a factor.",
        inputs: &[arg("images", "T"), arg_of("contrast_factor", DType::F32)],
        outputs: OUTPUT,
        attrs: HALF_OR_FLOAT,
        shape: adjusted_shape,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(contrast).only(ONLY_F32)],
};

/// Shifts the hue.
pub(crate) static ADJUST_HUE: Op = Op {
    def: OpDef {
        name: "AdjustHue",
        summary: "Colours with their hue shifted by a part of the colour circle.",
        inputs: &[arg("images", "T"), arg_of("delta", DType::F32)],
        outputs: OUTPUT,
        attrs: HALF_OR_FLOAT,
        shape: adjusted_color_shape,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| each_color(p, factor, pixels::shift_hue)).only(ONLY_F32)],
};

/// Multiplies the saturation.
pub(crate) static ADJUST_SATURATION: Op = Op {
    def: OpDef {
        name: "AdjustSaturation",
        summary: "Colours with their saturation multiplied, to at most 1.",
        inputs: &[arg("images", "T"), arg_of("scale", DType::F32)],
        outputs: OUTPUT,
        attrs: HALF_OR_FLOAT,
        shape: adjusted_color_shape,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| each_color(p, factor, pixels::scale_saturation)).only(ONLY_F32)],
};

/// Kernel that converts each colour. Halves are computed as `f32`.
fn converted(
    p: &Prepare<'_>,
    single: fn([f32; 3]) -> [f32; 3],
    double: fn([f64; 3]) -> [f64; 3],
) -> Result<Prepared, KernelError> {
    widened(p, &[0], &[0], &|p| {
        let (n, is_double) = (p.outputs[0].elements(), p.dtype(0) == DType::F64);
        Ok(Prepared::new(16 * n, move |cx| match is_double {
            true => replace(cx, &double),
            false => replace(cx, &single),
        }))
    })
}

/// A conversion of colours.
const fn conversion(name: &'static str, summary: &'static str, kernels: &'static [Kernel]) -> Op {
    Op {
        def: OpDef {
            name,
            summary,
            inputs: INPUT,
            outputs: OUTPUT,
            attrs: FLOAT,
            shape: converted_shape,
            gradient: Gradient::Missing,
            ..OpDef::EMPTY
        },
        kernels,
    }
}

/// RGB to HSV.
pub(crate) static RGB_TO_HSV: Op = conversion(
    "RGBToHSV",
    "Hue, saturation and value of colours in red, green and blue.",
    &[cpu(|p| {
        converted(p, pixels::rgb_to_hsv, pixels::rgb_to_hsv)
    })],
);

/// HSV to RGB.
pub(crate) static HSV_TO_RGB: Op = conversion(
    "HSVToRGB",
    "Red, green and blue of colours in hue, saturation and value.",
    &[cpu(|p| {
        converted(p, pixels::hsv_to_rgb, pixels::hsv_to_rgb)
    })],
);
