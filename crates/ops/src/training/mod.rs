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
