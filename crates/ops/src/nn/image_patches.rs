//! ExtractImagePatches: the windows of images, each flattened to the channels of one pixel.

use smallvec::smallvec;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{AttrDef, Gradient, InputGradients, arg, attr, str_attr, type_attr};
use thalweg_graph::{AttrKind, Attrs, GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, Element, Shape, Tensor, dispatch};

use super::format::{DataFormat, Padding, Sliding};
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

/// Each element of an image gets the sum of the gradients of all windows that contain it. The same op applied to the
/// elements' indices, from 1, gives the elements that each window contains.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, x, dy) = (g.graph(), g.input(0), g.grad());
    let ints = |values: &[i32]| {
        let node = graph.op("Const").attr("value", Tensor::vector(values));
        node.attr("dtype", DType::I32).output()
    };
    let int = |value: i32| {
        let node = graph.op("Const").attr("value", Tensor::scalar(value));
        node.attr("dtype", DType::I32).output()
    };
    let shape = |x: Output<'g>| graph.op("Shape").input(x).output();
    let reshape = |x: Output<'g>, to: Output<'g>| graph.op("Reshape").input(x).input(to).output();
    let dim = |of: Output<'g>, i: i32| {
        let node = graph.op("GatherV2").input(of).input(int(i));
        node.input(int(0)).output()
    };
    let pack = |of: &[Output<'g>]| {
        let node = graph.op("Pack").inputs(of.iter().copied());
        node.attr("N", of.len() as i64).output()
    };
    let turned =
        |x: Output<'g>, order: &[i32]| graph.op("Transpose").input(x).input(ints(order)).output();
    let from = shape(x);
    let [batch, lines, columns, depth] = [0, 1, 2, 3].map(|i| dim(from, i));
    let pixels = lines * columns;
    let all = graph.op("Range").input(int(1)).input(pixels + 1);
    let numbers = reshape(
        all.input(int(1)).output(),
        pack(&[int(1), lines, columns, int(1)]),
    );
    let mut numbers = graph.op("ExtractImagePatches").input(numbers);
    for name in ["ksizes", "strides", "rates"] {
        numbers = numbers.attr(name, g.attrs().ints(name).to_vec());
    }
    let numbers = numbers.attr("padding", g.attrs().str("padding")).output();
    let ids = reshape(numbers, ints(&[-1])) - 1;
    // [image, window and element of it, channel] to [window and element of it, image, channel].
    let each = pack(&[batch, graph.op("Size").input(numbers).output(), depth]);
    let rows = turned(reshape(dy, each), &[1, 0, 2]);
    let sums = graph.op("UnsortedSegmentSum").input(rows).input(ids);
    let sums = turned(sums.input(pixels).output(), &[1, 0, 2]);
    smallvec![Some(reshape(sums, from))]
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
        gradient: Gradient::Rule(gradient),
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
