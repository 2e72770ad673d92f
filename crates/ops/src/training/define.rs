//! Attributes, arguments and base definition of optimizer ops.

use thalweg_graph::op::{
    Arg, ArgType, AttrDef, Effect, Gradient, arg, arg_of, bool_attr, type_attr,
};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use crate::support::shapes::expect_scalar;

/// Dtypes that optimizers compute in.
pub(super) const FLOATS: &[(&str, &[DType])] = &[("T", DType::FLOATS)];

const T: AttrDef = type_attr("T", DType::NUMBERS);
const INDEX: AttrDef = type_attr("Tindices", DType::INDICES);
const LOCKING: AttrDef = bool_attr("use_locking", false);

/// Attributes of an op that takes a whole gradient.
pub(super) const DENSE: &[AttrDef] = &[T, LOCKING];
/// [`DENSE`] with `use_nesterov`.
pub(super) const DENSE_NESTEROV: &[AttrDef] = &[T, LOCKING, bool_attr("use_nesterov", false)];
/// [`DENSE`] with `update_slots`.
pub(super) const DENSE_SLOTS: &[AttrDef] = &[T, LOCKING, bool_attr("update_slots", true)];
/// [`DENSE`] with `multiply_linear_by_lr`.
pub(super) const DENSE_BY_LR: &[AttrDef] = &[T, LOCKING, bool_attr("multiply_linear_by_lr", false)];
/// Attributes of an op that takes rows of a gradient.
pub(super) const SPARSE: &[AttrDef] = &[T, INDEX, LOCKING];
/// [`SPARSE`] with `use_nesterov`.
pub(super) const SPARSE_NESTEROV: &[AttrDef] =
    &[T, INDEX, LOCKING, bool_attr("use_nesterov", false)];
/// [`SPARSE`] with `update_slots`.
pub(super) const SPARSE_SLOTS: &[AttrDef] = &[T, INDEX, LOCKING, bool_attr("update_slots", true)];
/// [`SPARSE`] with `multiply_linear_by_lr`.
pub(super) const SPARSE_BY_LR: &[AttrDef] =
    &[T, INDEX, LOCKING, bool_attr("multiply_linear_by_lr", false)];

/// Handle of a variable that the op updates.
pub(super) const fn var(name: &'static str) -> Arg {
    arg_of(name, DType::Resource)
}

/// A gradient or a rate.
pub(super) const fn t(name: &'static str) -> Arg {
    arg(name, "T")
}

/// Indices of the variables' rows that the gradient's rows belong to.
pub(super) const INDICES: Arg = arg("indices", "Tindices");

/// Definition of an optimizer op.
pub(super) const fn optimizer(
    name: &'static str,
    summary: &'static str,
    inputs: &'static [Arg],
    attrs: &'static [AttrDef],
) -> OpDef {
    OpDef {
        name,
        summary,
        inputs,
        attrs,
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    }
}

/// Returns `true` if an argument is a variable that the op updates.
pub(super) const fn is_variable(arg: &Arg) -> bool {
    arg.reference || matches!(arg.ty, ArgType::Is(DType::Resource))
}

/// Shape rule of all optimizer ops: the variables hold `T` and have the shape of the gradient, or of the
/// variable whose rows it has; the rates are scalars. The first variable is passed on if there is an output.
pub(super) fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let inputs = cx.op().inputs;
    let named = |names: &[&str]| inputs.iter().position(|arg| names.contains(&arg.name));
    let (grad, indices) = (named(&["grad", "delta"]), named(&["indices"]));
    let whole = grad.map_or(cx.shape(inputs.len()), |i| cx.shape(i)).clone();
    let mut shape = match indices {
        None => whole,
        Some(i) => {
            let count = cx.ranked(i, 1)?;
            shape_of_rows(&whole, &count).ok_or_else(|| InferError::Mismatch {
                what: "the gradient must have a row for each index".to_owned(),
                left: whole,
                right: count,
            })?
        }
    };
    for (i, arg) in inputs.iter().enumerate() {
        if is_variable(arg) {
            let Some((dtype, own)) = cx.variable(i) else {
                continue;
            };
            if let Some(asked) = cx.attrs().dtype("T")
                && asked != dtype
            {
                return Err(InferError::Attr {
                    attr: "T",
                    reason: format!("{} holds {dtype}, not {asked}", arg.name),
                });
            }
            shape = shape.merge(&own).ok_or_else(|| InferError::Mismatch {
                what: format!(
                    "{} must have the shape of the gradient and of all slots",
                    arg.name
                ),
                left: own,
                right: shape.clone(),
            })?;
        } else if Some(i) != grad && Some(i) != indices {
            expect_scalar(cx, i)?;
        }
    }
    if let Some((dtype, shape)) = cx.variable(0) {
        cx.set_variable(0, dtype, shape);
    }
    Ok(())
}

/// Shape of a variable, from the shapes of rows of it and of their indices; `None` if their numbers
/// differ.
pub(super) fn shape_of_rows(rows: &Shape, indices: &Shape) -> Option<Shape> {
    let Some(dims) = rows.dims() else {
        return Some(Shape::unknown());
    };
    let (&count, row) = dims.split_first()?;
    match (count, indices.dim(0)) {
        (Some(rows), Some(indices)) if rows != indices => None,
        _ => Some(Shape::partial(
            [None].into_iter().chain(row.iter().copied()),
        )),
    }
}
