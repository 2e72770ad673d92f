//! Devices of the nodes of a function's body.

use crate::function::Function;
use crate::node::{Node, OutputId};

/// By node of a body: the device of the first handle that it takes, or else `home`. `arguments` has the device of each
/// argument.
pub(super) fn body_devices(function: &Function, arguments: &[u32], home: u32) -> Vec<u32> {
    let mut devices = vec![home; function.body.len()];
    let is_handle = |o: &OutputId| {
        function
            .body
            .fact(*o)
            .is_some_and(|f| f.dtype.is_handle() || f.reference)
    };
    for (&input, &device) in function.inputs.iter().zip(arguments) {
        let output = OutputId {
            node: input,
            index: 0,
        };
        if is_handle(&output) {
            devices[input.index()] = device;
        }
    }
    for (id, node) in function.body.nodes() {
        let first = |node: &Node| node.inputs.iter().copied().find(is_handle);
        if let Some(handle) = first(node)
            && let Some(&device) = devices.get(handle.node.index())
        {
            devices[id.index()] = device;
        }
    }
    devices
}
