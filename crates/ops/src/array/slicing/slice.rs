//! Slice.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, cpu, gpu};
use thalweg_graph::op::{Gradient, InputGradients, arg, type_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape};

use crate::array::box_copies::BoxCopies;
use crate::support::gradient_nodes::{int_vector, reshape, shape_of};
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::{checked_shape, ints_per_dim, invalid_value};
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};

/// Shape of a slice; a dimension is known if its begin and size are known.
fn sliced(cx: &Infer<'_>) -> Result<Shape, InferError> {
    let (begin, size) = (ints_per_dim(cx, 1)?, ints_per_dim(cx, 2)?);
    let lengths = [cx.shape(1).dim(0), cx.shape(2).dim(0)];
    let Some(rank) = cx.shape(0).rank().or(lengths[0]).or(lengths[1]) else {
        return Ok(Shape::unknown());
    };
    for (i, length) in lengths.into_iter().enumerate() {
        if let Some(n) = length
            && n != rank
        {
            let what = format!(
                "{} for a tensor of {}",
                counted(n, "number"),
                counted(rank, "dimension")
            );
            return Err(invalid_value(i + 1, what));
        }
    }
    let mut shape = Vec::with_capacity(rank);
    for i in 0..rank {
        let d = cx.shape(0).dim(i);
        let begin = begin.as_ref().map(|b| b[i]);
        let size = size.as_ref().map(|s| s[i]);
        let all = d.map(|d| d as i64);
        if let Some(b) = begin
            && (b < 0 || all.is_some_and(|d| b > d))
        {
            let end = all.map_or("its length".to_owned(), |d| d.to_string());
            let reason = format!("dimension {i} cannot begin at {b}: use 0..={end}");
            return Err(invalid_value(1, reason));
        }
        if let Some(s) = size {
            let room = all.map(|d| d - begin.unwrap_or(0));
            if s < -1 || room.is_some_and(|room| s > room) {
                let most = room.map_or("its length".to_owned(), |d| d.to_string());
                let reason =
                    format!("{s} elements of dimension {i}: use 0..={most}, or -1 for the rest");
                return Err(invalid_value(2, reason));
            }
        }
        shape.push(match (size, all, begin) {
            (Some(-1), Some(d), Some(b)) => usize::try_from(d - b).ok(),
            (Some(s), _, _) => usize::try_from(s).ok(),
            (None, _, _) => None,
        });
    }
    checked_shape(2, Shape::partial(shape))
}

/// Pads the gradient with zeros outside the slice.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, x, y) = (g.graph(), g.input(0), g.output(0));
    let begin = g.input(1).fact().value.and_then(|v| v.to_ints());
    let known = match (begin, x.shape().to_dims(), y.shape().to_dims()) {
        (Some(begin), Some(x), Some(y)) => {
            let after = |i: usize| x[i] as i64 - begin[i] - y[i] as i64;
            Some((0..x.len()).flat_map(|i| [begin[i], after(i)]).collect())
        }
        _ => None,
    };
    let paddings = match known {
        Some(both) => {
            let both: Vec<i64> = both;
            reshape(int_vector(graph, DType::I64, &both), &[-1, 2])
        }
        None => {
            let dtype = g.input(1).dtype();
            let begin = g.input(1);
            let after = shape_of(x, dtype) - shape_of(y, dtype) - begin;
            let both = graph.op("Pack").input(begin).input(after);
            both.attr("axis", 1).output()
        }
    };
    let dx = graph.op("Pad").input(g.grad()).input(paddings);
    smallvec![Some(dx.output())]
}

/// A box of the input, by begin and size.
pub(crate) static SLICE: Op = Op {
    def: OpDef {
        name: "Slice",
        summary: "A box of the input: along each dimension, size elements from begin; -1 takes the rest.",
        inputs: &[
            arg("input", "T"),
            arg("begin", "Index").host(),
            arg("size", "Index").host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr("Index", DType::INDICES),
        ],
        shape: |cx| {
            let shape = sliced(cx)?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(gradient),
        // A slice as long as the input in every dimension begins at the first element.
        same_as: |cx| {
            let shape = sliced(cx).ok()?;
            (shape.is_known() && shape == *cx.shape(0)).then_some(0)
        },
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(SLICE, "T"),
        cpu(|p| slice_moves(p)?.on_cpu()),
        gpu(|p| slice_moves(p)?.on_gpu()),
    ],
};

fn slice_moves(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    let (begin, from, out) = (p.ints(1)?, steps(p.dims(0)), p.output_dims(0));
    let to = steps(out);
    if begin.len() != from.len() || out.len() != from.len() {
        return Err(KernelError::Argument("a begin for each dimension"));
    }
    let start: i64 = begin.iter().zip(&from).map(|(&b, &s)| b * s as i64).sum();
    let start = usize::try_from(start).map_err(|_| KernelError::Argument("a begin"))?;
    let axes: Vec<CopyAxis> = (0..out.len())
        .map(|i| CopyAxis {
            len: out[i],
            from: from[i],
            to: to[i],
        })
        .collect();
    Ok(BoxCopies::one(p, StridedCopy::new(start, 0, &axes)?))
}
