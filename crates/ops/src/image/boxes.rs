//! DrawBoundingBoxes, DrawBoundingBoxesV2.

use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::DType;

use super::images::expect_last;
use crate::support::shape_inputs::invalid_value;
use crate::support::shapes::unchanged;

const ATTRS: &[AttrDef] = &[type_attr_or("T", &[DType::F32, DType::F16], DType::F32)];
const OUTPUT: &[Arg] = &[arg("output", "T")];
const ONLY_F32: &[(&str, &[DType])] = &[("T", &[DType::F32])];

/// Colours of boxes without others, in turn: yellow, blue, red, lime, purple, olive, maroon, navy blue, aqua, fuchsia.
const COLORS: [[f32; 4]; 10] = [
    [1.0, 1.0, 0.0, 1.0],
    [0.0, 0.0, 1.0, 1.0],
    [1.0, 0.0, 0.0, 1.0],
    [0.0, 1.0, 0.0, 1.0],
    [0.5, 0.0, 0.5, 1.0],
    [0.5, 0.5, 0.0, 1.0],
    [0.5, 0.0, 0.0, 1.0],
    [0.0, 0.0, 0.5, 1.0],
    [0.0, 1.0, 1.0, 1.0],
    [1.0, 0.0, 1.0, 1.0],
];

/// Draws the border of a box, where it lies in the image.
fn draw(image: &mut [f32], [height, width]: [usize; 2], bounds: [f32; 4], color: &[f32]) {
    let channels = color.len();
    // Conversions truncate, as in TensorFlow.
    let at = |i: usize, n: usize| (bounds[i] * (n as f32 - 1.0)) as i64;
    let (top, left) = (at(0, height), at(1, width));
    let (bottom, right) = (at(2, height), at(3, width));
    let (h, w) = (height as i64, width as i64);
    let inverted = top > bottom || left > right;
    if inverted || top >= h || bottom < 0 || left >= w || right < 0 {
        return;
    }
    let (lines, columns) = (
        top.max(0)..=bottom.min(h - 1),
        left.max(0)..=right.min(w - 1),
    );
    let mut put = |y: i64, x: i64| {
        let at = (y as usize * width + x as usize) * channels;
        image[at..][..channels].copy_from_slice(color);
    };
    for y in [top, bottom].into_iter().filter(|y| (0..h).contains(y)) {
        columns.clone().for_each(|x| put(y, x));
    }
    for x in [left, right].into_iter().filter(|x| (0..w).contains(x)) {
        lines.clone().for_each(|y| put(y, x));
    }
}

fn run(cx: &KernelCx<'_>, dims: [usize; 4], boxes: usize, own: bool) -> Result<(), KernelError> {
    let [_, height, width, channels] = dims;
    let (x, out) = (cx.input::<f32>(0)?, cx.output::<f32>(0)?);
    let (bounds, _) = cx.input::<f32>(1)?.as_chunks::<4>();
    out.copy_from_slice(x);
    if out.is_empty() || boxes == 0 {
        return Ok(());
    }
    let given: &[f32] = if own { cx.input(2)? } else { &[] };
    let columns = if own { cx.input_slots()[2].len } else { 0 };
    let colors: Vec<Vec<f32>> = match columns {
        0 => {
            // Grey images have white boxes.
            let first = |color: &[f32; 4]| if channels == 1 { 1.0 } else { color[0] };
            let one = |color: &[f32; 4]| [&[first(color)], &color[1..]].concat();
            COLORS
                .iter()
                .map(|color| one(color)[..channels].to_vec())
                .collect()
        }
        _ => given
            .chunks_exact(channels.max(1))
            .map(<[f32]>::to_vec)
            .collect(),
    };
    let images = out.chunks_exact_mut(height * width * channels);
    for (image, bounds) in images.zip(bounds.chunks_exact(boxes)) {
        for (&bounds, color) in bounds.iter().zip(colors.iter().cycle()) {
            draw(image, [height, width], bounds, color);
        }
    }
    Ok(())
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (Ok(dims), &[_, boxes, _]) = (<[usize; 4]>::try_from(p.dims(0)), p.dims(1)) else {
        return Err(KernelError::Argument("images and boxes"));
    };
    let own = p.inputs.len() > 2;
    if own && p.dims(2).get(1).is_some_and(|&n| n != dims[3]) {
        return Err(KernelError::Invalid(format!(
            "colours of {:?} do not have the {} channels of the images",
            p.dims(2),
            dims[3]
        )));
    }
    let n = p.outputs.first().map_or(0, |o| o.elements());
    Ok(Prepared::new(n, move |cx| run(cx, dims, boxes, own)))
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (images, boxes) = (cx.ranked(0, 4)?, cx.ranked(1, 3)?);
    expect_last(cx, 1, 4)?;
    if let (Some(a), Some(b)) = (images.dim(0), boxes.dim(0))
        && a != b
    {
        return Err(invalid_value(
            1,
            format!("boxes of {b} images for {a} images"),
        ));
    }
    if let Some(n) = images.dim(3).filter(|n| !matches!(n, 1 | 3 | 4)) {
        let text = format!("images have {n} channels, but must have 1, 3 or 4");
        return Err(invalid_value(0, text));
    }
    if cx.inputs() > 2 {
        cx.ranked(2, 2)?;
    }
    unchanged(cx)
}

/// Draws boxes in fixed colours.
pub(crate) static DRAW_BOUNDING_BOXES: Op = Op {
    def: OpDef {
        name: "DrawBoundingBoxes",
        summary: "Images with the borders of boxes, whose corners are in shares of the image's size.",
        inputs: &[arg("images", "T"), arg_of("boxes", DType::F32)],
        outputs: OUTPUT,
        attrs: ATTRS,
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare).only(ONLY_F32)],
};

/// Draws boxes in the colours of an input.
pub(crate) static DRAW_BOUNDING_BOXES_V2: Op = Op {
    def: OpDef {
        name: "DrawBoundingBoxesV2",
        summary: "Images with the borders of boxes in given colours.",
        inputs: &[
            arg("images", "T"),
            arg_of("boxes", DType::F32),
            arg_of("colors", DType::F32),
        ],
        outputs: OUTPUT,
        attrs: ATTRS,
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare).only(ONLY_F32)],
};
