//! Axes of reductions, and the shape rule.

use smallvec::SmallVec;
use thalweg_device::gpu::Launches;
use thalweg_device::{KernelError, Prepare};
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, bool_attr, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape};

const AXES: Arg = arg("reduction_indices", "Tidx").host();
const KEEP: AttrDef = bool_attr("keep_dims", false);
const INDEX: AttrDef = type_attr_or("Tidx", DType::INDICES, DType::I32);

/// Base definition of reductions of numbers.
pub(super) const NUMBERS: OpDef = OpDef {
    inputs: &[arg("input", "T"), AXES],
    outputs: &[arg("output", "T")],
    attrs: &[KEEP, type_attr("T", DType::NUMBERS), INDEX],
    shape,
    same_as,
    ..OpDef::EMPTY
};

/// Base definition of reductions of real and complex numbers.
pub(super) const ALL_NUMBERS: OpDef = OpDef {
    attrs: &[KEEP, type_attr("T", DType::ALL_NUMBERS), INDEX],
    ..NUMBERS
};

/// Base definition of reductions of bools.
pub(super) const BOOLS: OpDef = OpDef {
    inputs: &[arg_of("input", DType::Bool), AXES],
    outputs: &[arg_of("output", DType::Bool)],
    attrs: &[KEEP, INDEX],
    shape,
    gradient: Gradient::None,
    same_as,
    ..OpDef::EMPTY
};

/// For each dimension: `true` if it is reduced.
pub(super) type Reduced = SmallVec<[bool; 6]>;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (input, keep) = (cx.shape(0), cx.attrs().bool("keep_dims"));
    let Some(dims) = input.dims() else {
        return Ok(());
    };
    let rank = dims.len();
    if let Some(axes) = cx.ints(1) {
        let mut reduced: Reduced = SmallVec::from_elem(false, rank);
        for axis in axes {
            let i = cx.axis(1, axis, rank)?;
            if std::mem::replace(&mut reduced[i], true) {
                return Err(InferError::Value {
                    input: 1,
                    reason: format!(
                        "axis {axis} is dimension {i}, which is listed twice: list each once"
                    ),
                });
            }
        }
        let left = dims.iter().zip(&reduced);
        let shape = match keep {
            true => Shape::partial(left.map(|(d, r)| if *r { Some(1) } else { *d })),
            false => Shape::partial(left.filter(|(_, r)| !**r).map(|(d, _)| *d)),
        };
        cx.set(0, shape);
    } else if keep {
        cx.set(0, Shape::of_rank(rank));
    } else if let Some(count) = cx.shape(1).elements() {
        // No axis may be listed twice, so each removes one dimension.
        let left = rank.checked_sub(count).ok_or_else(|| InferError::Value {
            input: 1,
            reason: format!("more axes are listed, {count}, than there are dimensions, {rank}"),
        })?;
        cx.set(0, Shape::of_rank(left));
    }
    Ok(())
}

/// The output equals input 0 over no axes, or over dimensions of 1 that are kept.
fn same_as(cx: &Infer<'_>) -> Option<usize> {
    let axes = cx.ints(1)?;
    let input = cx.shape(0);
    let single = |&a: &i64| {
        let axis = input.rank().and_then(|rank| resolve_axis(a, rank));
        axis.and_then(|i| input.dim(i)) == Some(1)
    };
    let same = axes.is_empty() || cx.attrs().bool("keep_dims") && axes.iter().all(single);
    same.then_some(0)
}

/// Dimensions that a node reduces.
///
/// # Errors
/// [`KernelError::Invalid`] if the input has no such axis; the shape rule refuses such a node before.
pub(super) fn reduced(p: &Prepare<'_>) -> Result<Reduced, KernelError> {
    let rank = p.dims(0).len();
    let mut reduced: Reduced = SmallVec::from_elem(false, rank);
    for axis in p.ints(1)? {
        let i = resolve_axis(axis, rank).ok_or_else(|| {
            KernelError::Invalid(format!(
                "axis {axis} is not one of a tensor with {}",
                counted(rank, "dimension")
            ))
        })?;
        reduced[i] = true;
    }
    Ok(reduced)
}

/// GPU launches of a reduction over axes.
///
/// # Errors
/// As [`reduced`].
pub(super) fn on_gpu(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    crate::gpu::reduce(p, p.node.op.name, p.dims(0), &reduced(p)?)
}

/// Number of elements that are reduced to one output.
///
/// # Errors
/// As [`reduced`].
pub(super) fn reduced_count(p: &Prepare<'_>) -> Result<usize, KernelError> {
    let reduced = reduced(p)?;
    let own = p.dims(0).iter().zip(&reduced).filter(|(_, r)| **r);
    Ok(own.fold(1, |n: usize, (&d, _)| n.saturating_mul(d)))
}
