//! The kernels of a session, by op.

use rustc_hash::FxHashMap;
use thalweg_device::{DeviceType, Kernel, Op};
use thalweg_graph::{GraphData, Node};
use thalweg_tensor::DType;

use crate::error::SessionError;

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

/// The dtypes of a node's inputs and outputs.
pub(crate) fn dtypes<'a>(graph: &'a GraphData, node: &'a Node) -> impl Iterator<Item = DType> + 'a {
    let inputs = node.inputs.iter().filter_map(|&i| graph.fact(i));
    inputs.chain(&node.outputs).map(|fact| fact.dtype)
}

/// The error of a node of these dtypes that has no kernel on this type of device.
pub(crate) fn no_kernel(
    kernels: &Kernels,
    node: &Node,
    dtypes: impl Iterator<Item = DType>,
    device: DeviceType,
) -> SessionError {
    let op = node.op.name.to_owned();
    let (node, origin, name) = (node.name.clone(), node.origin.clone(), node.op.on_handles);
    if !kernels.contains_key(name.unwrap_or(&op)) {
        return SessionError::UnknownOp { node, op, origin };
    }
    SessionError::NoKernel {
        node,
        op,
        origin,
        device: device.to_string(),
        dtypes: dtypes.map(|d| d.to_string()).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use thalweg_graph::Output;
    use thalweg_ops::SourceOps;
    use thalweg_tensor::{DType, Tensor};

    use crate::testing::{Planner, graph};

    #[test]
    fn a_kernel_is_found_by_op_device_and_dtypes() {
        let kernels = Planner::cpus(&[1]).machine.kernels;
        let g = graph();
        let x = g.placeholder("x", DType::F32, [2]);
        let strings = g.constant(Tensor::from("text"));
        let joined = g.op("StringJoin").inputs([strings, strings]).output();
        let sum = x + x;
        let data = g.snapshot();
        let has = |device, output: Output<'_>| {
            find(&kernels, device, data.node(output.id().node)).is_some()
        };
        for (output, cpu, gpu) in [(sum, true, true), (joined, true, false), (x, false, false)] {
            assert_eq!(
                (has(DeviceType::Cpu, output), has(DeviceType::Gpu, output)),
                (cpu, gpu)
            );
        }
    }

    #[test]
    fn an_op_on_references_has_the_kernel_of_the_op_on_handles() {
        let kernels = Planner::cpus(&[1]).machine.kernels;
        let g = graph();
        let w = g.op("VariableV2").attr("dtype", DType::F32);
        let w = w.attr("shape", thalweg_tensor::Shape::scalar()).output();
        let assign = g.op("Assign").input(w).input(g.constant(1.0f32)).output();
        let data = g.snapshot();
        let (op, _) = find(&kernels, DeviceType::Cpu, data.node(assign.id().node)).unwrap();
        assert_eq!(op.def.name, "AssignVariableOp");
    }
}
