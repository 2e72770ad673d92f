//! ApplyGradientDescent and the other optimizer steps on references; the ops on handles run in their place.

use thalweg_device::Op;
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, arg};

use super::define::is_variable;
use super::{
    adadelta, adagrad, adam, add_sign_power_sign, ftrl, gradient_descent_momentum, rms_prop,
};

/// The same arguments, with references to variables of `T` in place of handles.
const fn on_references<const N: usize>(of: &OpDef) -> [Arg; N] {
    let mut inputs = [arg("", ""); N];
    let mut i = 0;
    while i < N {
        inputs[i] = of.inputs[i];
        if is_variable(&inputs[i]) {
            inputs[i] = arg(inputs[i].name, "T").reference();
        }
        i += 1;
    }
    inputs
}

// The definition of an op on references follows from the one on handles. A macro, since a function could not hold
// the list of its inputs.
macro_rules! references {
    ($($NAME:ident $name:literal $handles:path;)*) => {$(
        #[doc = concat!("`", stringify!($handles), "` on references.")]
        pub(crate) static $NAME: Op = Op {
            def: OpDef {
                name: $name,
                inputs: &on_references::<{ $handles.def.inputs.len() }>(&$handles.def),
                outputs: &[arg("out", "T").reference()],
                on_handles: Some($handles.def.name),
                ..$handles.def
            },
            kernels: &[],
        };
    )*};
}

references! {
    APPLY_GRADIENT_DESCENT "ApplyGradientDescent" gradient_descent_momentum::GRADIENT_DESCENT;
    APPLY_PROXIMAL_GRADIENT_DESCENT "ApplyProximalGradientDescent" gradient_descent_momentum::PROXIMAL_GRADIENT_DESCENT;
    APPLY_MOMENTUM "ApplyMomentum" gradient_descent_momentum::MOMENTUM;
    APPLY_ADAGRAD "ApplyAdagrad" adagrad::ADAGRAD;
    APPLY_ADAGRAD_V2 "ApplyAdagradV2" adagrad::ADAGRAD_V2;
    APPLY_ADAGRAD_DA "ApplyAdagradDA" adagrad::ADAGRAD_DA;
    APPLY_PROXIMAL_ADAGRAD "ApplyProximalAdagrad" adagrad::PROXIMAL_ADAGRAD;
    APPLY_ADADELTA "ApplyAdadelta" adadelta::ADADELTA;
    APPLY_ADAM "ApplyAdam" adam::ADAM;
    APPLY_ADA_MAX "ApplyAdaMax" adam::ADA_MAX;
    APPLY_RMS_PROP "ApplyRMSProp" rms_prop::RMS_PROP;
    APPLY_CENTERED_RMS_PROP "ApplyCenteredRMSProp" rms_prop::CENTERED_RMS_PROP;
    APPLY_FTRL "ApplyFtrl" ftrl::FTRL;
    APPLY_FTRL_V2 "ApplyFtrlV2" ftrl::FTRL_V2;
    APPLY_ADD_SIGN "ApplyAddSign" add_sign_power_sign::ADD_SIGN;
    APPLY_POWER_SIGN "ApplyPowerSign" add_sign_power_sign::POWER_SIGN;
    SPARSE_APPLY_PROXIMAL_GRADIENT_DESCENT "SparseApplyProximalGradientDescent" gradient_descent_momentum::SPARSE_PROXIMAL_GRADIENT_DESCENT;
    SPARSE_APPLY_MOMENTUM "SparseApplyMomentum" gradient_descent_momentum::SPARSE_MOMENTUM;
    SPARSE_APPLY_ADAGRAD "SparseApplyAdagrad" adagrad::SPARSE_ADAGRAD;
    SPARSE_APPLY_ADAGRAD_V2 "SparseApplyAdagradV2" adagrad::SPARSE_ADAGRAD_V2;
    SPARSE_APPLY_ADAGRAD_DA "SparseApplyAdagradDA" adagrad::SPARSE_ADAGRAD_DA;
    SPARSE_APPLY_PROXIMAL_ADAGRAD "SparseApplyProximalAdagrad" adagrad::SPARSE_PROXIMAL_ADAGRAD;
    SPARSE_APPLY_ADADELTA "SparseApplyAdadelta" adadelta::SPARSE_ADADELTA;
    SPARSE_APPLY_RMS_PROP "SparseApplyRMSProp" rms_prop::SPARSE_RMS_PROP;
    SPARSE_APPLY_CENTERED_RMS_PROP "SparseApplyCenteredRMSProp" rms_prop::SPARSE_CENTERED_RMS_PROP;
    SPARSE_APPLY_FTRL "SparseApplyFtrl" ftrl::SPARSE_FTRL;
    SPARSE_APPLY_FTRL_V2 "SparseApplyFtrlV2" ftrl::SPARSE_FTRL_V2;
}
