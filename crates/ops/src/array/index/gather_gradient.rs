//! Gradient of GatherV2: adds the gradient of each slice to the gradient of its source.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use thalweg_graph::error::Reason;
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::InputGradients;
use thalweg_graph::{GradCx, Output};
use thalweg_tensor::{DType, Tensor};

use crate::array::shape::reshape::reshape_like;
use crate::support::gradient_nodes::{int_scalar, int_vector, shape_of};

/// Number of leading dimensions that parameters and indices share.
pub(super) fn batch_dims(batch_dims: i64, rank: usize) -> Option<usize> {
    let dims = match batch_dims < 0 {
        true => batch_dims.checked_add(rank as i64)?,
        false => batch_dims,
    };
    usize::try_from(dims).ok().filter(|&b| b <= rank)
}

/// A number of elements: known at build time, or computed by the graph.
#[derive(Clone, Copy)]
enum GraphSize<'g> {
    Known(i64),
    /// A scalar of `i64`.
    Later(Output<'g>),
}

impl<'g> GraphSize<'g> {
    /// Product of these dimensions of `x`.
    fn of(x: Output<'g>, dims: Range<usize>) -> GraphSize<'g> {
        let (graph, shape) = (x.graph(), x.shape());
        let known = |i: usize| i64::try_from(shape.dim(i)?).ok();
        let end = dims.end.min(shape.rank().unwrap_or(dims.end));
        // Without a known rank, the end of the range is unknown.
        let open = dims.end == usize::MAX && shape.rank().is_none();
        let product = (dims.start..end).try_fold(1i64, |n, i| n.checked_mul(known(i)?));
        if let (Some(n), false) = (product, open) {
            return GraphSize::Known(n);
        }
        let int = |v: i64| int_vector(graph, DType::I64, &[v]);
        let len = if open { -1 } else { (end - dims.start) as i64 };
        let part = graph.op("Slice").input(shape_of(x, DType::I64));
        let part = part.input(int(dims.start as i64)).input(int(len)).output();
        let axes = int_vector(graph, DType::I32, &[0]);
        let product = graph.op("Prod").input(part).input(axes);
        GraphSize::Later(product.attr("keep_dims", false).output())
    }

    fn times(self, other: GraphSize<'g>, x: Output<'g>) -> GraphSize<'g> {
        match (self, other) {
            (GraphSize::Known(1), n) | (n, GraphSize::Known(1)) => n,
            (GraphSize::Known(a), GraphSize::Known(b)) => GraphSize::Known(a.saturating_mul(b)),
            (a, b) => GraphSize::Later(a.scalar(x, DType::I64) * b.scalar(x, DType::I64)),
        }
    }

    /// As a scalar, in the graph of `x`.
    fn scalar(self, x: Output<'g>, dtype: DType) -> Output<'g> {
        match self {
            GraphSize::Known(n) => int_scalar(x.graph(), dtype, n),
            GraphSize::Later(n) if dtype == DType::I64 => n,
            GraphSize::Later(n) => x.graph().op("Cast").input(n).attr("DstT", dtype).output(),
        }
    }
}

/// Reshapes `x` to these sizes.
fn reshape<'g>(x: Output<'g>, sizes: &[GraphSize<'g>]) -> Output<'g> {
    let graph = x.graph();
    let known: Option<Vec<i64>> = sizes
        .iter()
        .map(|s| match s {
            GraphSize::Known(n) => Some(*n),
            GraphSize::Later(_) => None,
        })
        .collect();
    let to = match known {
        Some(dims) => int_vector(graph, DType::I64, &dims),
        None => {
            let dims = sizes.iter().map(|s| s.scalar(x, DType::I64));
            graph.op("Pack").inputs(dims).output()
        }
    };
    graph.op("Reshape").input(x).input(to).output()
}

/// Swaps dimensions `i` and `i + 1` of `x`, which has `rank` dimensions.
fn swap<'g>(x: Output<'g>, i: usize, rank: usize) -> Output<'g> {
    let mut perm: Vec<i64> = (0..rank as i64).collect();
    perm.swap(i, i + 1);
    let perm = int_vector(x.graph(), DType::I32, &perm);
    x.graph().op("Transpose").input(x).input(perm).output()
}

/// The axis and the number of batch dimensions, if they are known.
fn axes(g: &GradCx<'_, '_>) -> Option<(usize, usize)> {
    if g.inputs() == 2 {
        return Some((0, 0));
    }
    let axis = g.input(2).fact().value.as_ref().and_then(Tensor::to_ints)?;
    let (axis, asked) = (*axis.first()?, g.attrs().int("batch_dims"));
    let axis = match g.input(0).shape().rank() {
        Some(rank) => resolve_axis(axis, rank)?,
        None => usize::try_from(axis).ok()?,
    };
    let batch = match g.input(1).shape().rank() {
        Some(rank) => batch_dims(asked, rank)?,
        None => usize::try_from(asked).ok()?,
    };
    (batch <= axis).then_some((axis, batch))
}

/// Gradient of GatherV2 and Gather.
pub(super) fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let Some((axis, batch)) = axes(g) else {
        let graph = g.graph();
        let text = "the gradient of GatherV2 needs an axis that is a constant, and known ranks where it or batch_dims is negative";
        let reason = Reason::Argument(text.to_owned());
        return smallvec![Some(graph.fail("gradient", "GatherV2", reason))];
    };
    let dx = of_slices(g.input(0), g.input(1), g.grad(), axis, batch);
    smallvec![Some(dx)]
}

/// Gradient of `params`, given the gradient `dy` of the slices along `axis` at `indices`; `batch` dimensions are
/// shared.
pub(crate) fn of_slices<'g>(
    params: Output<'g>,
    indices: Output<'g>,
    dy: Output<'g>,
    axis: usize,
    batch: usize,
) -> Output<'g> {
    let graph = params.graph();
    let shared = GraphSize::of(params, 0..batch);
    let outer = GraphSize::of(params, batch..axis);
    let len = GraphSize::of(params, axis..axis + 1);
    let inner = GraphSize::of(params, axis + 1..usize::MAX);
    let count = GraphSize::of(indices, batch..usize::MAX);
    let is_one = |size: &GraphSize<'g>| matches!(size, GraphSize::Known(1));
    let many: SmallVec<[GraphSize<'g>; 4]> = [shared].into_iter().filter(|s| !is_one(s)).collect();

    // Indices into the slices of all batches together.
    let mut ids = [&many[..], &[count]].concat();
    let mut into = reshape(indices, &ids);
    if !many.is_empty() {
        let dtype = indices.dtype();
        let int = |v: i64| int_scalar(graph, dtype, v);
        let each = graph.op("Range").input(int(0));
        let each = each.input(shared.scalar(params, dtype)).input(int(1));
        let starts = each.output() * len.scalar(params, dtype);
        into = into + reshape(starts, &[shared, GraphSize::Known(1)]);
    }
    let mut data;
    if is_one(&outer) {
        ids.push(inner);
        data = reshape(dy, &ids);
    } else {
        let dims = [&many[..], &[outer, count, inner]].concat();
        data = swap(reshape(dy, &dims), many.len(), dims.len());
    }
    let slices = shared.times(len, params).scalar(params, DType::I64);
    data = graph
        .op("UnsortedSegmentSum")
        .input(data)
        .input(into)
        .input(slices)
        .output();
    if !is_one(&outer) {
        let dims = [&many[..], &[len, outer, inner]].concat();
        data = swap(reshape(data, &dims), many.len(), dims.len());
    }
    reshape_like(data, params)
}
