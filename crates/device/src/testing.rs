//! Helpers of the unit tests: nodes of ops that only the test has.

use smallvec::SmallVec;
use thalweg_graph::{Attrs, DeviceSpec, Node, OpDef, Origin};

/// A node without inputs.
pub(crate) fn bare_node(op: &'static OpDef) -> Node {
    Node {
        name: op.name.to_owned(),
        op,
        inputs: SmallVec::new(),
        controls: SmallVec::new(),
        attrs: Attrs::default(),
        device: DeviceSpec::default(),
        colocation: SmallVec::new(),
        outputs: SmallVec::new(),
        origin: Origin::Other("a test".into()),
    }
}
