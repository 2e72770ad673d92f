//! Pad, PadV2.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, InputGradients, arg, type_attr, type_attr_or};
use thalweg_graph::{GradCx, Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape};

use crate::array::box_copies::{BoxCopies, BoxCopy, CopySource, fill_outside};
use crate::support::gradient_nodes::{int_vector, reshape, shape_of};
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::{checked_shape, invalid_value};
use crate::support::shapes;
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};

const ATTRS: &[AttrDef] = &[
    type_attr("T", DType::ELEMENTS),
    type_attr_or("Tpaddings", DType::INDICES, DType::I32),
];

/// Padding before and after along each dimension, if known.
pub(super) fn paddings(cx: &Infer<'_>) -> Result<Option<Vec<(i64, i64)>>, InferError> {
    let shape = cx.ranked(1, 2)?;
    if let Some(d) = shape.dim(1)
        && d != 2
    {
        let reason = format!("{d} entries for each dimension: give one before and one after");
        return Err(invalid_value(1, reason));
    }
    if let (Some(rank), Some(n)) = (cx.shape(0).rank(), shape.dim(0))
        && rank != n
    {
        let reason = format!(
            "{} for a tensor of {}",
            counted(n, "pair"),
            counted(rank, "dimension")
        );
        return Err(invalid_value(1, reason));
    }
    let Some(values) = cx.ints(1) else {
        return Ok(None);
    };
    if let Some(bad) = values.iter().find(|&&v| v < 0) {
        return Err(invalid_value(1, format!("{bad} elements cannot be added")));
    }
    Ok(Some(values.chunks_exact(2).map(|p| (p[0], p[1])).collect()))
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    if cx.inputs() > 2 {
        shapes::expect_scalar(cx, 2)?;
    }
    let paddings = paddings(cx)?;
    let rank = cx.shape(0).rank().or(cx.shape(1).dim(0));
    let shape = match (paddings, cx.shape(0).dims()) {
        (Some(paddings), Some(dims)) => {
            let padded = |(d, &(before, after)): (&Option<usize>, &(i64, i64))| match d {
                None => Ok(None),
                Some(d) => (*d as i64)
                    .checked_add(before)
                    .and_then(|d| d.checked_add(after))
                    .map(|d| usize::try_from(d).ok())
                    .ok_or_else(|| invalid_value(1, "the padded tensor is too large")),
            };
            let dims: Result<Vec<_>, _> = dims.iter().zip(&paddings).map(padded).collect();
            checked_shape(1, Shape::partial(dims?))?
        }
        // A vector of more rows describes no valid shape.
        _ => rank
            .filter(|&r| r < 255)
            .map_or(Shape::unknown(), Shape::of_rank),
    };
    cx.set(0, shape);
    Ok(())
}

/// Slices the input's part out of the gradient; the padding value gets the sum of the rest.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, x, paddings) = (g.graph(), g.input(0), g.input(1));
    let before = match paddings.fact().value.and_then(|v| v.to_ints()) {
        Some(both) => {
            let before: Vec<i64> = both.iter().step_by(2).copied().collect();
            int_vector(graph, paddings.dtype(), &before)
        }
        None => {
            let zeros = int_vector(graph, paddings.dtype(), &[0, 0]);
            let column = int_vector(graph, paddings.dtype(), &[-1, 1]);
            let before = graph.op("Slice").input(paddings).input(zeros).input(column);
            reshape(before.output(), &[-1])
        }
    };
    let size = shape_of(x, paddings.dtype());
    let dx = graph.op("Slice").input(g.grad()).input(before).input(size);
    let dx = dx.output();
    if g.inputs() < 3 || g.input(2).fact().value.is_some() {
        return smallvec![Some(dx)];
    }
    let total = |x| {
        let flat = reshape(x, &[-1]);
        let axes = int_vector(graph, DType::I32, &[0]);
        let sum = graph.op("Sum").input(flat).input(axes);
        sum.attr("keep_dims", false).output()
    };
    smallvec![Some(dx), None, Some(total(g.grad()) - total(dx))]
}

fn nothing_added(cx: &Infer<'_>) -> Option<usize> {
    let paddings = paddings(cx).ok()??;
    paddings.iter().all(|&p| p == (0, 0)).then_some(0)
}

fn padded(p: &Prepare<'_>, from: CopySource) -> Result<BoxCopies, KernelError> {
    let (own, out) = (p.dims(0), p.output_dims(0));
    let inside: Vec<(usize, usize)> = p
        .ints(1)?
        .chunks_exact(2)
        .zip(own)
        .map(|(pair, &d)| (usize::try_from(pair[0]).unwrap_or(0), d))
        .collect();
    if inside.len() != out.len() {
        return Err(KernelError::Argument("a padding for each dimension"));
    }
    let mut parts = fill_outside(out, &inside, from)?;
    let (read, write) = (steps(own), steps(out));
    let axes: Vec<CopyAxis> = (0..out.len())
        .map(|i| CopyAxis {
            len: own[i],
            from: read[i],
            to: write[i],
        })
        .collect();
    let to = (0..out.len())
        .map(|i| inside[i].0 * write[i] as usize)
        .sum();
    parts.push(BoxCopy::of(
        CopySource::Input(0),
        StridedCopy::new(0, to, &axes)?,
    ));
    Ok(BoxCopies {
        dtype: p.dtype(0),
        elements: p.outputs[0].elements(),
        parts,
    })
}

/// Pads a tensor with zeros.
pub(crate) static PAD: Op = Op {
    def: OpDef {
        name: "Pad",
        summary: "The input with zeros before and after it along each dimension.",
        inputs: &[arg("input", "T"), arg("paddings", "Tpaddings").host()],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape,
        gradient: Gradient::Rule(gradient),
        same_as: nothing_added,
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(PAD, "T"),
        cpu(|p| padded(p, CopySource::Zero)?.on_cpu()),
        gpu(|p| padded(p, CopySource::Zero)?.on_gpu()),
    ],
};

/// Pads a tensor with a value.
pub(crate) static PAD_V2: Op = Op {
    def: OpDef {
        name: "PadV2",
        summary: "The input with a value before and after it along each dimension.",
        inputs: &[
            arg("input", "T"),
            arg("paddings", "Tpaddings").host(),
            arg("constant_values", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape,
        gradient: Gradient::Rule(gradient),
        same_as: nothing_added,
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(PAD_V2, "T"),
        cpu(|p| padded(p, CopySource::Input(2))?.on_cpu()),
        gpu(|p| padded(p, CopySource::Input(2))?.on_gpu()),
    ],
};
