//! DeviceIndex.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Effect, Gradient, arg_of, attr};
use thalweg_graph::{Attr, AttrKind, DeviceSpec, OpDef};
use thalweg_tensor::{DType, Tensor};

fn index(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let own = cx.environment().device();
    let own = DeviceSpec::parse(&own)
        .ok()
        .and_then(|spec| spec.device_type);
    let names = match cx.attrs().get("device_names") {
        Some(Attr::Strs(names)) => &names[..],
        _ => return Err(KernelError::Argument("device_names")),
    };
    let is_own = |name: &[u8]| own.as_deref().is_some_and(|own| own.as_bytes() == name);
    let found = names.iter().position(|name| is_own(name));
    let index = i32::try_from(found.unwrap_or(names.len()));
    let index = index.map_err(|_| KernelError::Argument("fewer device_names"))?;
    Ok(vec![Tensor::scalar(index)])
}

/// The place of the node's kind of device in a list.
pub(crate) static DEVICE_INDEX: Op = Op {
    def: OpDef {
        name: "DeviceIndex",
        summary: "The index of the type of the node's device in a list of types; the list's length if it is not there.",
        outputs: &[arg_of("index", DType::I32)],
        attrs: &[attr("device_names", AttrKind::Strs)],
        shape: crate::support::shapes::scalar,
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(index)],
};
