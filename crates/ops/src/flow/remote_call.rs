//! RemoteCall.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Effect, Gradient, arg_of, args_of, attr};
use thalweg_graph::{AttrKind, DeviceSpec, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::if_while_call::{OUTPUT, TIN, TOUT, arguments, function};

/// Fails if the target is another device than the node's. The placer has put the node on a target that is constant.
fn check_target(cx: &TensorCx<'_>) -> Result<(), KernelError> {
    let Some(target) = cx.strings(0)?.only() else {
        return Err(KernelError::Invalid(
            "target must be one string: the name of a device".to_owned(),
        ));
    };
    let target = String::from_utf8_lossy(target);
    let wrong = |why: String| KernelError::Invalid(format!("target '{target}' {why}"));
    let wanted = DeviceSpec::parse(&target).map_err(|e| wrong(format!("is no device: {e}")))?;
    let own = cx.environment().device();
    let here = DeviceSpec::parse(&own).map_err(|e| wrong(format!("has no place: {e}")))?;
    let wanted = wanted.or(&here);
    let is_cpu = |spec: &DeviceSpec| spec.device_type.as_deref() == Some("CPU");
    // The CPU devices of a task share its memory: a call on one is a call on the other.
    let alike = is_cpu(&here)
        && is_cpu(&wanted)
        && DeviceSpec {
            index: here.index,
            ..wanted.clone()
        } == here;
    match wanted == here || alike {
        true => Ok(()),
        false => Err(wrong(format!(
            "is not the device of the node, {own}: make it a constant, so that the call is placed there, or put the node \
             there"
        ))),
    }
}

fn run(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    check_target(cx)?;
    cx.environment()
        .call(function(cx, "f")?, arguments(cx, 1)?, None)
}

/// Calls a function on a device.
pub(crate) static REMOTE_CALL: Op = Op {
    def: OpDef {
        name: "RemoteCall",
        summary: "Calls a function on the device that a string names.",
        inputs: &[arg_of("target", DType::String), args_of("args", "Tin")],
        outputs: &[OUTPUT],
        attrs: &[TIN, TOUT, attr("f", AttrKind::Func)],
        shape: |_| Ok(()),
        gradient: Gradient::Missing,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(run)],
};
