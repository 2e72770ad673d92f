//! Tile.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, cpu, gpu};
use thalweg_graph::op::{Gradient, InputGradients, arg, type_attr, type_attr_or};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape};

use crate::array::box_copies::BoxCopies;
use crate::support::gradient_nodes::{int_scalar, int_vector, shape_of};
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::{checked_shape, ints_per_dim, invalid_value};
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};

fn tiled(cx: &Infer<'_>) -> Result<Shape, InferError> {
    let multiples = ints_per_dim(cx, 1)?;
    let length = cx.shape(1).dim(0);
    if let (Some(rank), Some(n)) = (cx.shape(0).rank(), length)
        && rank != n
    {
        let reason = format!(
            "{} for a tensor of {}",
            counted(n, "number"),
            counted(rank, "dimension")
        );
        return Err(invalid_value(1, reason));
    }
    if let Some(bad) = multiples.iter().flatten().find(|&&m| m < 0) {
        return Err(invalid_value(
            1,
            format!("{bad} repetitions: use at least 0"),
        ));
    }
    let (Some(multiples), Some(dims)) = (multiples, cx.shape(0).dims()) else {
        let rank = cx.shape(0).rank().or(length);
        return Ok(rank.map_or(Shape::unknown(), Shape::of_rank));
    };
    let tiled = |(d, &m): (&Option<usize>, &i64)| match (d, usize::try_from(m)) {
        (Some(d), Ok(m)) => match d.checked_mul(m) {
            Some(d) => Ok(Some(d)),
            None => Err(invalid_value(1, "the repeated tensor is too large")),
        },
        (None, Ok(0)) => Ok(Some(0)),
        _ => Ok(None),
    };
    let dims: Result<Vec<_>, _> = dims.iter().zip(&multiples).map(tiled).collect();
    checked_shape(1, Shape::partial(dims?))
}

/// Reshapes the gradient so that the repetitions have axes of their own, and sums over these.
fn tile_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, x, multiples) = (g.graph(), g.input(0), g.input(1));
    let rank = x.shape().rank().or(multiples.shape().dim(0));
    let known = multiples.fact().value.and_then(|v| v.to_ints());
    let split: Output<'g> = match (known, x.shape().to_dims()) {
        (Some(times), Some(dims)) => {
            let both = times.iter().zip(&dims);
            let both: Vec<i64> = both.flat_map(|(&m, &d)| [m, d as i64]).collect();
            int_vector(graph, DType::I64, &both)
        }
        _ => {
            let dims = shape_of(x, multiples.dtype());
            let pairs = graph.op("Pack").input(multiples).input(dims);
            let pairs = pairs.attr("axis", 1).output();
            let flat = int_vector(graph, DType::I32, &[-1]);
            graph.op("Reshape").input(pairs).input(flat).output()
        }
    };
    let axes = match rank {
        Some(rank) => {
            let axes: Vec<i64> = (0..rank as i64).map(|i| 2 * i).collect();
            int_vector(graph, DType::I32, &axes)
        }
        None => {
            let int = |v: i64| int_scalar(graph, DType::I32, v);
            let end = graph.op("Size").input(split).output();
            let axes = graph.op("Range").input(int(0)).input(end).input(int(2));
            axes.output()
        }
    };
    let dy = graph.op("Reshape").input(g.grad()).input(split).output();
    let sum = graph.op("Sum").input(dy).input(axes);
    smallvec![Some(sum.attr("keep_dims", false).output())]
}

/// Repeats a tensor along each dimension.
pub(crate) static TILE: Op = Op {
    def: OpDef {
        name: "Tile",
        summary: "The input, multiples[i] times along each dimension i.",
        inputs: &[arg("input", "T"), arg("multiples", "Tmultiples").host()],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr_or("Tmultiples", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            let shape = tiled(cx)?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(tile_gradient),
        same_as: |cx| cx.ints(1)?.iter().all(|&m| m == 1).then_some(0),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(TILE, "T"),
        cpu(|p| tile_moves(p)?.on_cpu()),
        gpu(|p| tile_moves(p)?.on_gpu()),
    ],
};

fn tile_moves(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    let (own, out) = (p.dims(0), p.output_dims(0));
    let (read, write) = (steps(own), steps(out));
    if own.len() != out.len() {
        return Err(KernelError::Argument("a multiple for each dimension"));
    }
    let mut axes = Vec::with_capacity(2 * own.len());
    for i in 0..own.len() {
        axes.push(CopyAxis {
            len: out[i].checked_div(own[i]).unwrap_or(0),
            from: 0,
            to: (own[i] as isize).saturating_mul(write[i]),
        });
        axes.push(CopyAxis {
            len: own[i],
            from: read[i],
            to: write[i],
        });
    }
    Ok(BoxCopies::one(p, StridedCopy::new(0, 0, &axes)?))
}
