//! The kernels of a session, by op.

use rustc_hash::FxHashMap;
use thalweg_device::{DeviceType, Kernel, Op};
use thalweg_graph::Node;

/// The kernels that a session has, by op.
pub type Kernels = FxHashMap<&'static str, &'static Op>;

/// Finds the kernel of this node on a device of this type.
pub fn find(
    kernels: &Kernels,
    device: DeviceType,
    node: &Node,
) -> Option<(&'static Op, &'static Kernel)> {
    // An op on references runs as the op on handles that stands for it.
    let name = node.op.on_handles.unwrap_or(node.op.name);
    let op = *kernels.get(name)?;
    let kernel = op.kernels.iter().find(|k| k.takes(device, node))?;
    Some((op, kernel))
}
