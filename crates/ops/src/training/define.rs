//! Attributes, arguments and base definition of optimizer ops.

use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, AttrDef, Effect, Gradient, arg, arg_of, bool_attr, type_attr};
use thalweg_tensor::DType;

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
        shape: super::shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    }
}
