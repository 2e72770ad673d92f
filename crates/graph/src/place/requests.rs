//! Requests of nodes for devices.

use std::borrow::Cow;

use crate::attr::Attr;
use crate::data::GraphData;
use crate::device::DeviceSpec;
use crate::node::Node;

/// The device that a node asks for. A call whose target is constant asks for the target, with open parts as the node has
/// them.
pub(super) fn requested<'a>(data: &'a GraphData, node: &'a Node) -> Cow<'a, DeviceSpec> {
    match target(data, node) {
        Some(target) => Cow::Owned(target.or(&node.device)),
        None => Cow::Borrowed(&node.device),
    }
}

fn target(data: &GraphData, node: &Node) -> Option<DeviceSpec> {
    let input = node
        .inputs
        .first()
        .filter(|_| node.op.name == "RemoteCall")?;
    let constant = data.node(input.node);
    let value = match constant.attrs.get("value")? {
        Attr::Tensor(value) if constant.op.name == "Const" => value,
        _ => return None,
    };
    let name = std::str::from_utf8(value.as_strings().ok()?.first()?).ok()?;
    DeviceSpec::parse(name).ok()
}
