//! ExtractImagePatches: the windows of images, each flattened to the channels of one pixel.

use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, attr, str_attr, type_attr};
use thalweg_graph::{AttrKind, Attrs, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, dispatch};

use super::format::{DataFormat, Padding, Sliding};
use super::patches_gradient::patches_gradient;
use crate::support::widened::as_uints;

const ATTRS: &[AttrDef] = &[
    attr("ksizes", AttrKind::Ints),
    attr("strides", AttrKind::Ints),
    attr("rates", AttrKind::Ints),
    type_attr("T", DType::PLAIN),
    str_attr("padding", "", &["SAME", "VALID"]),
];

/// Size of the windows, and their sliding.
fn windows(attrs: &Attrs) -> Result<([usize; 2], Sliding), InferError> {
    let format = DataFormat::Nhwc;
    let sliding = Sliding {
        format,
        padding: Padding::of(attrs, format)?,
        strides: format.pair(attrs, "strides")?,
        dilations: format.pair(attrs, "rates")?,
        may_be_empty: false,
    };
    Ok((format.pair(attrs, "ksizes")?, sliding))
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (size, sliding) = windows(cx.attrs())?;
    let images = cx.ranked(0, 4)?;
    let mut counts = [None, None];
    for axis in 0..2 {
        if let Some(input) = images.dim(axis + 1) {
            counts[axis] = Some(sliding.count(0, axis, input, size[axis])?.0);
        }
    }
    let too_large = || InferError::Value {
        input: 0,
        reason: "its windows are too large".to_owned(),
    };
    let window = size[0].checked_mul(size[1]).ok_or_else(too_large)?;
    let depth = match images.dim(3) {
        Some(d) => Some(d.checked_mul(window).ok_or_else(too_large)?),
        None => None,
    };
    let shape = Shape::partial([images.dim(0), counts[0], counts[1], depth]);
    if let Some(dims) = shape.to_dims()
        && thalweg_tensor::shape::checked_elements(&dims).is_none()
    {
        return Err(too_large());
    }
    cx.set(0, shape);
    Ok(())
}

fn prepare<T: Element>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let invalid = |e: InferError| KernelError::Invalid(e.to_string());
    let (size, sliding) = windows(&p.node.attrs).map_err(invalid)?;
    let (&[_, lines, columns, depth], &[_, out_lines, out_columns, out_depth]) =
        (p.dims(0), p.output_dims(0))
    else {
        return Err(KernelError::Argument("images"));
    };
    let before = |axis: usize, input| {
        Ok(sliding
            .count(0, axis, input, size[axis])
            .map_err(invalid)?
            .1)
    };
    let before: Result<[usize; 2], KernelError> =
        before(0, lines).and_then(|l| Ok([l, before(1, columns)?]));
    let (before, line) = (before?, out_columns * out_depth);
    // Position of element `k` of window `i` along an axis, if it is within the image.
    let source = move |axis: usize, i: usize, k: usize, len: usize| {
        let at = i * sliding.strides[axis] + k * sliding.dilations[axis];
        at.checked_sub(before[axis]).filter(|&at| at < len)
    };
    if p.outputs[0].elements() == 0 {
        return Ok(Prepared::new(0, |_| Ok(())));
    }
    Ok(Prepared::new(p.outputs[0].elements(), move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        for_chunks(cx.pool(), out, line, &|task, out| {
            let (image, i) = (task / out_lines, task % out_lines);
            let pixels = out.chunks_exact_mut(depth);
            for (element, out) in pixels.enumerate() {
                let (j, k) = (element / (size[0] * size[1]), element % (size[0] * size[1]));
                let at = source(0, i, k / size[1], lines).zip(source(1, j, k % size[1], columns));
                match at {
                    Some((l, c)) => {
                        let from = ((image * lines + l) * columns + c) * depth;
                        out.copy_from_slice(&x[from..from + depth]);
                    }
                    None => out.fill(T::default()),
                }
            }
        });
        Ok(())
    }))
}

/// Extracts the windows of images.
pub(crate) static EXTRACT_IMAGE_PATCHES: Op = Op {
    def: OpDef {
        name: "ExtractImagePatches",
        summary: "The windows of images, with the elements of each as the channels of one pixel; beyond the edge they are zeros.",
        inputs: &[arg("images", "T")],
        outputs: &[arg("patches", "T")],
        attrs: ATTRS,
        shape,
        gradient: Gradient::Rule(|g| {
            patches_gradient(g, "ExtractImagePatches", 2, &["ksizes", "strides", "rates"])
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        as_uints(
            p,
            &[0],
            &[0],
            &|p| dispatch!(p.dtype(0), SIZES, T => prepare::<T>(p), else Err(KernelError::DType(p.dtype(0)))),
        )
    })],
};
