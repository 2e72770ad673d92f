//! The steps of optimizers: each updates a variable and its slots in one pass over their elements.

mod adagrad;
mod adam;
mod descent;
mod fused;
mod rms_prop;

use thalweg_device::Op;
use thalweg_graph::op::ArgType;
use thalweg_graph::{DType, Infer, InferError};

use crate::shapes::expect_scalar;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &descent::GRADIENT_DESCENT,
    &descent::MOMENTUM,
    &adam::ADAM,
    &adagrad::ADAGRAD,
    &adagrad::ADAGRAD_V2,
    &rms_prop::RMS_PROP,
    &rms_prop::CENTERED_RMS_PROP,
];

/// The shape rule of all of them: the variables hold `T` and have the gradient's shape; the rates
/// are scalars.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let inputs = cx.op().inputs;
    let is_grad = |name: &str| matches!(name, "grad" | "delta");
    let grad = inputs.iter().position(|arg| is_grad(arg.name));
    let mut shape = grad.map_or(cx.shape(inputs.len()), |i| cx.shape(i)).clone();
    for (i, arg) in inputs.iter().enumerate() {
        if arg.ty == ArgType::Is(DType::Resource) {
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
        } else if Some(i) != grad {
            expect_scalar(cx, i)?;
        }
    }
    Ok(())
}
