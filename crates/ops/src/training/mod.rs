//! Optimizer steps: each op updates a variable and its slots in one pass over their elements.

mod adadelta;
mod adagrad;
mod adam;
mod add_sign_power_sign;
mod arithmetic;
mod define;
mod ftrl;
mod gradient_descent_momentum;
mod optimizer_kernel;
mod references;
mod rms_prop;

use thalweg_device::Op;
use thalweg_graph::op::{Arg, ArgType};
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::{DType, Shape};

use crate::support::shapes::expect_scalar;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &gradient_descent_momentum::GRADIENT_DESCENT,
    &gradient_descent_momentum::MOMENTUM,
    &gradient_descent_momentum::SPARSE_MOMENTUM,
    &gradient_descent_momentum::KERAS_MOMENTUM,
    &gradient_descent_momentum::SPARSE_KERAS_MOMENTUM,
    &gradient_descent_momentum::PROXIMAL_GRADIENT_DESCENT,
    &gradient_descent_momentum::SPARSE_PROXIMAL_GRADIENT_DESCENT,
    &adam::ADAM,
    &adam::AMSGRAD,
    &adam::ADA_MAX,
    &adagrad::ADAGRAD,
    &adagrad::SPARSE_ADAGRAD,
    &adagrad::ADAGRAD_V2,
    &adagrad::SPARSE_ADAGRAD_V2,
    &adagrad::PROXIMAL_ADAGRAD,
    &adagrad::SPARSE_PROXIMAL_ADAGRAD,
    &adagrad::ADAGRAD_DA,
    &adagrad::SPARSE_ADAGRAD_DA,
    &adadelta::ADADELTA,
    &adadelta::SPARSE_ADADELTA,
    &rms_prop::RMS_PROP,
    &rms_prop::SPARSE_RMS_PROP,
    &rms_prop::CENTERED_RMS_PROP,
    &rms_prop::SPARSE_CENTERED_RMS_PROP,
    &ftrl::FTRL,
    &ftrl::SPARSE_FTRL,
    &ftrl::FTRL_V2,
    &ftrl::SPARSE_FTRL_V2,
    &add_sign_power_sign::ADD_SIGN,
    &add_sign_power_sign::POWER_SIGN,
    &references::APPLY_GRADIENT_DESCENT,
    &references::APPLY_PROXIMAL_GRADIENT_DESCENT,
    &references::APPLY_MOMENTUM,
    &references::APPLY_ADAGRAD,
    &references::APPLY_ADAGRAD_V2,
    &references::APPLY_ADAGRAD_DA,
    &references::APPLY_PROXIMAL_ADAGRAD,
    &references::APPLY_ADADELTA,
    &references::APPLY_ADAM,
    &references::APPLY_ADA_MAX,
    &references::APPLY_RMS_PROP,
    &references::APPLY_CENTERED_RMS_PROP,
    &references::APPLY_FTRL,
    &references::APPLY_FTRL_V2,
    &references::APPLY_ADD_SIGN,
    &references::APPLY_POWER_SIGN,
    &references::SPARSE_APPLY_PROXIMAL_GRADIENT_DESCENT,
    &references::SPARSE_APPLY_MOMENTUM,
    &references::SPARSE_APPLY_ADAGRAD,
    &references::SPARSE_APPLY_ADAGRAD_V2,
    &references::SPARSE_APPLY_ADAGRAD_DA,
    &references::SPARSE_APPLY_PROXIMAL_ADAGRAD,
    &references::SPARSE_APPLY_ADADELTA,
    &references::SPARSE_APPLY_RMS_PROP,
    &references::SPARSE_APPLY_CENTERED_RMS_PROP,
    &references::SPARSE_APPLY_FTRL,
    &references::SPARSE_APPLY_FTRL_V2,
];

/// Returns `true` if an argument is a variable that the op updates.
const fn is_variable(arg: &Arg) -> bool {
    arg.reference || matches!(arg.ty, ArgType::Is(DType::Resource))
}

/// Shape rule of all optimizer ops: the variables hold `T` and have the shape of the gradient, or of the
/// variable whose rows it has; the rates are scalars. The first variable is passed on if there is an output.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
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
fn shape_of_rows(rows: &Shape, indices: &Shape) -> Option<Shape> {
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
