//! ScaleAndTranslate, ScaleAndTranslateGrad: images of another scale at another place, by a kernel that weighs pixels.

use smallvec::smallvec;
use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Arg, AttrDef, Gradient, InputGradients, arg, arg_of, bool_attr, str_attr, type_attr,
};
use thalweg_graph::{Attrs, GradCx, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use crate::support::shape_inputs::{checked_shape, invalid_value};

const KERNELS: &[&str] = &[
    "lanczos1",
    "lanczos3",
    "lanczos5",
    "gaussian",
    "box",
    "triangle",
    "keyscubic",
    "mitchellcubic",
];
const KERNEL: AttrDef = str_attr("kernel_type", "lanczos3", KERNELS);
const ANTIALIAS: AttrDef = bool_attr("antialias", true);

/// A function that weighs pixels by their distance.
#[derive(Clone, Copy)]
enum Weighting {
    Lanczos(f32),
    Gaussian,
    Box,
    Triangle,
    KeysCubic,
    MitchellCubic,
}

impl Weighting {
    fn of(attrs: &Attrs) -> Weighting {
        match attrs.str("kernel_type") {
            "lanczos1" => Weighting::Lanczos(1.0),
            "lanczos5" => Weighting::Lanczos(5.0),
            "gaussian" => Weighting::Gaussian,
            "box" => Weighting::Box,
            "triangle" => Weighting::Triangle,
            "keyscubic" => Weighting::KeysCubic,
            "mitchellcubic" => Weighting::MitchellCubic,
            _ => Weighting::Lanczos(3.0),
        }
    }

    fn radius(self) -> f32 {
        match self {
            Weighting::Lanczos(radius) => radius,
            Weighting::Gaussian => 1.5,
            Weighting::Box | Weighting::Triangle => 1.0,
            Weighting::KeysCubic | Weighting::MitchellCubic => 2.0,
        }
    }

    /// The weight at a distance of at least 0.
    fn at(self, x: f32) -> f32 {
        match self {
            Weighting::Lanczos(radius) => {
                if x > radius {
                    return 0.0;
                }
                if x <= 1e-3 {
                    return 1.0;
                }
                let pi = std::f32::consts::PI;
                radius * (pi * x).sin() * (pi * x / radius).sin() / (pi * pi * x * x)
            }
            Weighting::Gaussian => {
                let deviation = 0.5;
                match x >= 1.5 {
                    true => 0.0,
                    false => (-x * x / (2.0 * deviation * deviation)).exp(),
                }
            }
            Weighting::Box => match x {
                _ if x < 0.5 => 1.0,
                0.5 => 0.5,
                _ => 0.0,
            },
            Weighting::Triangle => (1.0 - x).max(0.0),
            Weighting::KeysCubic => match x {
                _ if x >= 2.0 => 0.0,
                _ if x >= 1.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
                _ => ((1.5 * x - 2.5) * x) * x + 1.0,
            },
            Weighting::MitchellCubic => match x {
                _ if x >= 2.0 => 0.0,
                _ if x >= 1.0 => (((-7.0 / 18.0) * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0,
                _ => (((7.0 / 6.0) * x - 2.0) * x) * x + 8.0 / 9.0,
            },
        }
    }
}

/// Pixels along an axis of which an output pixel is the weighted sum.
struct Span {
    start: usize,
    weights: Vec<f32>,
}

/// The spans of all `outputs` of an axis of `inputs` pixels.
fn spans(
    weighting: Weighting,
    antialias: bool,
    [outputs, inputs]: [usize; 2],
    [scale, translation]: [f32; 2],
) -> Vec<Span> {
    let inverse = 1.0 / scale;
    let offset = -inverse * translation;
    let wide = if antialias { inverse.max(1.0) } else { 1.0 };
    let reach = weighting.radius() * wide;
    let span = |x: usize| {
        let sample = (x as f32 + 0.5) * inverse + offset;
        let inside = sample >= 0.0 && sample <= inputs as f32;
        if !inside || inputs == 0 {
            return Span {
                start: 0,
                weights: Vec::new(),
            };
        }
        let last = inputs - 1;
        let start = ((sample - reach - 0.5).ceil().max(0.0) as usize).min(last);
        let end = ((sample + reach - 0.5).floor().max(0.0) as usize).min(last) + 1;
        let weigh = |i: usize| weighting.at(((i as f32 + 0.5 - sample) / wide).abs());
        let mut weights: Vec<f32> = (start..end).map(weigh).collect();
        let sum: f32 = weights.iter().sum();
        match sum.abs() >= 1000.0 * f32::MIN_POSITIVE {
            true => weights.iter_mut().for_each(|w| *w /= sum),
            false => weights.fill(0.0),
        }
        Span { start, weights }
    };
    (0..outputs).map(span).collect()
}

/// Two numbers of an input.
fn pair(cx: &TensorCx<'_>, i: usize) -> Result<[f32; 2], KernelError> {
    match *cx.slice::<f32>(i)? {
        [a, b] => Ok([a, b]),
        _ => Err(KernelError::Argument("two numbers")),
    }
}

/// The spans of lines and of columns.
fn both_spans(
    cx: &TensorCx<'_>,
    outputs: [usize; 2],
    inputs: [usize; 2],
) -> Result<[Vec<Span>; 2], KernelError> {
    let (weighting, antialias) = (Weighting::of(cx.attrs()), cx.attrs().bool("antialias"));
    let (scale, translation) = (pair(cx, cx.inputs() - 2)?, pair(cx, cx.inputs() - 1)?);
    if scale.iter().any(|&s| !(s > 0.0 && s.is_finite())) {
        return Err(KernelError::Invalid(format!(
            "Scale must be greater than zero, and finite: it is {scale:?}"
        )));
    }
    if translation.iter().any(|t| !t.is_finite()) {
        return Err(KernelError::Invalid(format!(
            "translation must be finite: it is {translation:?}"
        )));
    }
    // No span may be longer than what memory holds for all of them.
    let longest = outputs
        .iter()
        .zip(inputs)
        .try_fold(0usize, |all, (&o, i)| o.checked_mul(i)?.checked_add(all));
    let longest = longest.and_then(|n| n.checked_mul(size_of::<f32>()));
    let _held =
        crate::support::tensors::reserved(longest.unwrap_or(usize::MAX), Some(cx.memory()))?;
    let of = |axis: usize| {
        let sizes = [outputs[axis], inputs[axis]];
        spans(
            weighting,
            antialias,
            sizes,
            [scale[axis], translation[axis]],
        )
    };
    Ok([of(0), of(1)])
}

fn scaled<T: Number>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (&[batch, lines, columns, depth], &[rows, cells]) =
        (cx.tensor(0)?.dims(), &cx.ints(1)?[..])
    else {
        return Err(KernelError::Argument("images and a size"));
    };
    let size = [rows, cells].map(|n| usize::try_from(n).ok().filter(|&n| n > 0));
    let [Some(rows), Some(cells)] = size else {
        return Err(KernelError::Invalid(
            "output dimensions must be positive".to_owned(),
        ));
    };
    let [of_lines, of_columns] = both_spans(cx, [rows, cells], [lines, columns])?;
    let x = cx.slice::<T>(0)?;
    let mut out = cx.zeros(DType::F32, &[batch, rows, cells, depth])?;
    if out.is_empty() {
        return Ok(vec![out]);
    }
    let to = out.as_mut_slice::<f32>()?;
    let mut between = cx.zeros(DType::F32, &[rows, columns, depth])?;
    let between = between.as_mut_slice::<f32>()?;
    let (line, mut stop) = (columns * depth, cx.stop_check());
    for image in 0..batch {
        between.fill(0.0);
        for (span, to) in of_lines.iter().zip(between.chunks_exact_mut(line.max(1))) {
            for (i, &weight) in span.weights.iter().enumerate() {
                let from = &x[(image * lines + span.start + i) * line..][..line];
                stop.ticks(line)?;
                for (to, &x) in to.iter_mut().zip(from) {
                    *to += x.to_f64() as f32 * weight;
                }
            }
        }
        for row in 0..rows {
            for (cell, span) in of_columns.iter().enumerate() {
                let to = &mut to[((image * rows + row) * cells + cell) * depth..][..depth];
                stop.ticks(span.weights.len() * depth)?;
                for (i, &weight) in span.weights.iter().enumerate() {
                    let from = &between[row * line + (span.start + i) * depth..][..depth];
                    to.iter_mut()
                        .zip(from)
                        .for_each(|(to, &x)| *to += x * weight);
                }
            }
        }
    }
    Ok(vec![out])
}

fn gradients(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (&[batch, rows, cells, depth], original) = (cx.tensor(0)?.dims(), cx.tensor(1)?.dims())
    else {
        return Err(KernelError::Argument("images"));
    };
    let &[images, lines, columns, channels] = original else {
        return Err(KernelError::Argument("images"));
    };
    if images != batch || channels != depth {
        return Err(KernelError::Argument(
            "gradients of as many images and channels",
        ));
    }
    let [of_lines, of_columns] = both_spans(cx, [rows, cells], [lines, columns])?;
    let dy = cx.slice::<f32>(0)?;
    let mut dx = cx.zeros(DType::F32, original)?;
    if dx.is_empty() {
        return Ok(vec![dx]);
    }
    let to = dx.as_mut_slice::<f32>()?;
    let mut between = cx.zeros(DType::F32, &[rows, columns, depth])?;
    let between = between.as_mut_slice::<f32>()?;
    let (line, mut stop) = (columns * depth, cx.stop_check());
    for image in 0..batch {
        between.fill(0.0);
        for row in 0..rows {
            for (cell, span) in of_columns.iter().enumerate() {
                let from = &dy[((image * rows + row) * cells + cell) * depth..][..depth];
                stop.ticks(span.weights.len() * depth)?;
                for (i, &weight) in span.weights.iter().enumerate() {
                    let to = &mut between[row * line + (span.start + i) * depth..][..depth];
                    to.iter_mut()
                        .zip(from)
                        .for_each(|(to, &x)| *to += x * weight);
                }
            }
        }
        for (span, from) in of_lines.iter().zip(between.chunks_exact(line.max(1))) {
            for (i, &weight) in span.weights.iter().enumerate() {
                let to = &mut to[(image * lines + span.start + i) * line..][..line];
                stop.ticks(line)?;
                for (to, &x) in to.iter_mut().zip(from) {
                    *to += x * weight;
                }
            }
        }
    }
    Ok(vec![dx])
}

fn pairs(cx: &Infer<'_>, inputs: impl IntoIterator<Item = usize>) -> Result<(), InferError> {
    for i in inputs {
        if cx.ranked(i, 1)?.dim(0).is_some_and(|n| n != 2) {
            return Err(invalid_value(i, "it must have two elements"));
        }
    }
    Ok(())
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let images = cx.ranked(0, 4)?;
    pairs(cx, 1..4)?;
    let size = match cx.ints(1).as_deref() {
        Some(&[lines, columns]) => [lines, columns].map(|n| usize::try_from(n).ok()),
        _ => [None, None],
    };
    let all = Shape::partial([images.dim(0), size[0], size[1], images.dim(3)]);
    let shape = checked_shape(1, all)?;
    cx.set(0, shape);
    Ok(())
}

fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let graph = g.graph();
    let mut images = g.input(0);
    if images.dtype() != DType::F32 {
        let node = graph.op("Cast").input(images);
        images = node.attr("DstT", DType::F32).output();
    }
    let node = graph.op("ScaleAndTranslateGrad");
    let node = node.input(g.grad()).input(images);
    let node = node.input(g.input(2)).input(g.input(3));
    let node = node.attr("kernel_type", g.attrs().str("kernel_type"));
    let dx = node.attr("antialias", g.attrs().bool("antialias")).output();
    let dtype = g.input(0).dtype();
    if !dtype.is_float() {
        return InputGradients::new();
    }
    match dtype {
        DType::F32 => smallvec![Some(dx)],
        _ => {
            let node = graph.op("Cast").input(dx);
            smallvec![Some(node.attr("DstT", dtype).output())]
        }
    }
}

const PLACE: [Arg; 2] = [
    arg_of("scale", DType::F32),
    arg_of("translation", DType::F32),
];

/// Scales and moves images.
pub(crate) static SCALE_AND_TRANSLATE: Op = Op {
    def: OpDef {
        name: "ScaleAndTranslate",
        summary: "Images of another size that show the input at another scale and place.",
        inputs: &[
            arg("images", "T"),
            arg_of("size", DType::I32).host(),
            PLACE[0],
            PLACE[1],
        ],
        outputs: &[arg_of("resized_images", DType::F32)],
        attrs: &[
            type_attr(
                "T",
                &[
                    DType::I8,
                    DType::U8,
                    DType::I16,
                    DType::U16,
                    DType::I32,
                    DType::I64,
                    DType::BF16,
                    DType::F16,
                    DType::F32,
                    DType::F64,
                ],
            ),
            KERNEL,
            ANTIALIAS,
        ],
        shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(0)?.dtype();
        dispatch!(dtype, NUMBERS, T => scaled::<T>(cx), else Err(KernelError::DType(dtype)))
    })],
};

/// Gradient of the images.
pub(crate) static SCALE_AND_TRANSLATE_GRAD: Op = Op {
    def: OpDef {
        name: "ScaleAndTranslateGrad",
        summary: "The gradients of images that were scaled and moved.",
        inputs: &[
            arg("grads", "T"),
            arg("original_image", "T"),
            PLACE[0],
            PLACE[1],
        ],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &[DType::F32]), KERNEL, ANTIALIAS],
        shape: |cx| {
            let gradients = cx.ranked(0, 4)?;
            pairs(cx, [2, 3])?;
            let images = cx.ranked(1, 4)?;
            for axis in [0, 3] {
                if let (Some(found), Some(expected)) = (gradients.dim(axis), images.dim(axis))
                    && found != expected
                {
                    return Err(invalid_value(
                        0,
                        format!("dimension {axis} is {found}, and that of the images {expected}"),
                    ));
                }
            }
            cx.set(0, images);
            Ok(())
        },
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(gradients)],
};
