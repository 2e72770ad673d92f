//! Random graphs: every placement keeps requests, kernels and variables together.

#[path = "support/sketch.rs"]
mod sketch;

use proptest::prelude::*;
use sketch::{ADD, CONST, DECODE, HANDLE, READ, SHAPE, Sketch, UPDATE, specs, strict};
use thalweg_graph::NodeId;
use thalweg_graph::place::place;

/// Builds a graph from a list of numbers: the op, the inputs and the request of each node.
fn random(nodes: &[(u8, usize, usize, u8)]) -> Sketch {
    let mut s = Sketch::default();
    let (mut values, mut handles): (Vec<NodeId>, Vec<NodeId>) = (Vec::new(), Vec::new());
    for (i, &(kind, a, b, asks)) in nodes.iter().enumerate() {
        let name = format!("n{i}");
        let device = match asks % 12 {
            n @ 0..=2 => format!("::CPU:{n}"),
            3 => "::GPU".to_owned(),
            _ => String::new(),
        };
        let pick = |from: &[NodeId], n: usize| from[n % from.len()];
        let id = match kind % 8 {
            0 if !handles.is_empty() => s.add(&READ, &name, &[pick(&handles, a)]),
            1 if !handles.is_empty() && !values.is_empty() => {
                s.add(&UPDATE, &name, &[pick(&handles, a), pick(&values, b)])
            }
            2 => {
                handles.push(s.on(&HANDLE, &name, &[], &device, &[]));
                continue;
            }
            3 if !values.is_empty() => s.add(&SHAPE, &name, &[pick(&values, a)]),
            4 if !values.is_empty() => s.add(&DECODE, &name, &[pick(&values, a)]),
            5 => s.add(&CONST, &name, &[]),
            _ if !values.is_empty() => s.on(
                &ADD,
                &name,
                &[pick(&values, a), pick(&values, b)],
                &device,
                &[],
            ),
            _ => s.add(&CONST, &name, &[]),
        };
        values.push(id);
    }
    s
}

proptest! {
    #[test]
    fn a_placement_keeps_requests_kernels_and_variables_together(
        nodes in prop::collection::vec(any::<(u8, usize, usize, u8)>(), 1..60),
    ) {
        let devices = specs(&["a:0:CPU:0", "a:0:CPU:1", "a:0:CPU:2", "a:0:GPU:0"]);
        let s = random(&nodes);
        let placement = place(&s.0, &strict(&devices)).expect("each request has a device");
        prop_assert_eq!(placement.len(), s.0.len());
        for (id, node) in s.0.nodes() {
            let device = placement.name(id);
            prop_assert!(node.device.admits(device), "{} on {device}", node.name);
            let is_cpu = device.device_type.as_deref() == Some("CPU");
            prop_assert!(is_cpu || node.op.name != "Decode");
            if matches!(node.op.name, "ReadVariableOp" | "AssignSub") {
                prop_assert_eq!(placement.device(node.inputs[0].node), placement.device(id));
            }
        }
    }
}
