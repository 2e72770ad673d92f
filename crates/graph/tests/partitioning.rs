//! Partitioning: the crossings match the cut edges, and the order of the whole never waits.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use support::{constant, graph, placeholder};
use thalweg_graph::partition::{Partitioned, RECV, SEND, partition};
use thalweg_graph::simplify::known;
use thalweg_graph::{Graph, GraphData, NodeId, Operation, Output};
use thalweg_tensor::DType;

/// Builds nodes from numbers: inputs and controls are taken from earlier nodes.
fn build(g: &Graph, genes: &[(u8, u8, u8, u8)]) {
    let mut values: Vec<Output<'_>> = vec![constant(g, 1.0f32)];
    let mut nodes: Vec<Operation<'_>> = vec![g.op("Random").build()];
    values.push(nodes[0].output(0));
    for &(kind, x, y, control) in genes {
        let x = values[usize::from(x) % values.len()];
        let y = values[usize::from(y) % values.len()];
        let node = match kind % 4 {
            0 => g.op("AddV2").input(x).input(y),
            1 => g.op("Twice").input(x),
            2 => g.op("Random"),
            _ => g.op("NoOp"),
        };
        let node = match control % 3 {
            0 => node.control(nodes[usize::from(control) / 3 % nodes.len()]),
            _ => node,
        };
        let node = node.build();
        nodes.push(node);
        let outputs = g.snapshot().node(node.id()).outputs.len();
        values.extend((0..outputs as u32).map(|i| node.output(i)));
    }
    assert!(g.errors().is_empty(), "{:?}", g.errors());
}

fn cut(data: &GraphData, devices: &[u32]) -> Partitioned {
    let order: Vec<NodeId> = data.ids().collect();
    partition(data.clone(), &order, devices, false, &|_| None)
}

/// The expected crossings: each value once for each device that uses it, and the completion of a
/// node once for each device that only waits for it.
fn crossings(data: &GraphData, devices: &[u32]) -> usize {
    let on = |n: NodeId| devices[n.index()];
    let mut values = BTreeSet::new();
    let mut orders = BTreeSet::new();
    for (id, node) in data.nodes() {
        for input in &node.inputs {
            let constant = known(data.node(input.node));
            if on(input.node) != on(id) && !(constant && data.node(input.node).controls.is_empty())
            {
                values.insert((input.node, input.index, on(id)));
            }
        }
        for &control in &node.controls {
            if on(control) != on(id) {
                orders.insert((control, on(id)));
            }
        }
    }
    let told: BTreeSet<_> = values.iter().map(|&(n, _, d)| (n, d)).collect();
    values.len() + orders.difference(&told).count()
}

/// Runs the segments in turn: every node must find its inputs and controls there already, and every
/// receive a value that was sent.
fn run_in_turn(cut: &Partitioned) -> BTreeMap<String, u32> {
    let mut done: Vec<usize> = vec![0; cut.parts.len()];
    let mut sent = BTreeSet::new();
    let mut ran = BTreeMap::new();
    for &(part, end) in &cut.segments {
        let graph = &cut.parts[part as usize].graph;
        for (id, node) in graph.nodes().take(end as usize).skip(done[part as usize]) {
            for used in node
                .inputs
                .iter()
                .map(|i| i.node)
                .chain(node.controls.iter().copied())
            {
                assert!(
                    used < id,
                    "{} is used before it has run",
                    graph.node(used).name
                );
            }
            let channel = node.attrs.int("channel");
            if std::ptr::eq(node.op, &SEND) {
                sent.insert(channel);
            } else if std::ptr::eq(node.op, &RECV) {
                assert!(sent.contains(&channel), "{} waits", node.name);
            } else {
                *ran.entry(node.name.clone()).or_default() += 1;
            }
        }
        done[part as usize] = end as usize;
    }
    for (part, done) in cut.parts.iter().zip(done) {
        assert_eq!(part.graph.len(), done);
    }
    ran
}

proptest! {
    #[test]
    fn each_value_crosses_once_to_each_device_that_uses_it(
        genes in proptest::collection::vec(any::<(u8, u8, u8, u8)>(), 1..60),
        devices in proptest::collection::vec(0u32..8, 64),
        count in 1u32..9,
    ) {
        let g = graph();
        build(&g, &genes);
        let data = g.snapshot();
        let devices: Vec<u32> = devices[..data.len()].iter().map(|d| d % count).collect();
        let cut = cut(&data, &devices);
        prop_assert_eq!(cut.channels.len(), crossings(&data, &devices));
        for c in &cut.channels {
            prop_assert!(c.from != c.to);
            prop_assert!(std::ptr::eq(cut.parts[c.from as usize].graph.node(c.send).op, &SEND));
            prop_assert!(std::ptr::eq(cut.parts[c.to as usize].graph.node(c.recv).op, &RECV));
        }
        let ran = run_in_turn(&cut);
        for (id, node) in data.nodes() {
            let times = ran.get(&node.name).copied().unwrap_or(0);
            if known(node) && node.controls.is_empty() {
                prop_assert!(times >= 1);
            } else {
                prop_assert_eq!(times, 1, "{} ran {} times", node.name, times);
            }
            let (part, here) = cut.node(id).unwrap();
            let part = &cut.parts[part as usize];
            prop_assert_eq!(part.device, devices[id.index()]);
            prop_assert_eq!(&part.graph.node(here).name, &node.name);
        }
    }
}

#[test]
fn a_value_that_two_nodes_of_a_device_use_is_sent_once() {
    let g = graph();
    let x = g.op("Random").output();
    let twice = g.op("Twice").input(x).build();
    g.op("AddV2")
        .input(twice.output(0))
        .input(twice.output(0))
        .build();
    g.op("AddV2")
        .input(twice.output(0))
        .input(twice.output(1))
        .build();
    let cut = cut(&g.snapshot(), &[0, 0, 1, 1]);
    assert_eq!(cut.channels.len(), 2);
    // Right after the node that makes them, so that they are sent early.
    let sender = &cut.parts[0].graph;
    let ops: Vec<_> = sender.nodes().map(|(_, n)| n.op.name).collect();
    assert_eq!(ops, ["Random", "Twice", "_Send", "_Send"]);
}

#[test]
fn a_value_that_arrives_tells_that_its_node_has_run() {
    let g = graph();
    let x = g.op("Random").build();
    g.op("Twice").input(x.output(0)).control(x).build();
    g.op("NoOp").control(x).build();
    assert_eq!(cut(&g.snapshot(), &[0, 1, 1]).channels.len(), 1);
    // If only the order matters, an empty value crosses.
    let cut = cut(&g.snapshot(), &[0, 0, 1]);
    assert_eq!(cut.channels.len(), 1);
    let channel = cut.channels[0];
    let recv = cut.parts[1].graph.node(channel.recv);
    assert_eq!(recv.outputs[0].to_string(), "f32[0]");
    assert!(cut.parts[0].graph.node(channel.send).inputs.is_empty());
}

#[test]
fn constants_and_feeds_are_in_every_part_that_uses_them() {
    use thalweg_graph::simplify::{DEFAULT_FOLD_TIME, SimplifyOptions, simplify};
    let g = graph();
    let x = placeholder(&g, "x", [2]);
    let c = constant(&g, 1.0f32);
    let a = g.op("AddV2").input(x).input(c).output();
    let b = g
        .op("AddV2")
        .input(x)
        .input(c)
        .attr("scale", 2.0f32)
        .output();
    let options = SimplifyOptions {
        fold_time: DEFAULT_FOLD_TIME,
        evaluate: None,
        share: true,
        devices: Some(&[0, 0, 0, 1]),
        ops: None,
    };
    let fact = thalweg_graph::Fact::new(DType::F32, [2].into());
    let s = simplify(
        &g.snapshot(),
        &[(x.id(), fact)],
        &[a.id(), b.id()],
        &[],
        &options,
    )
    .unwrap();
    let order: Vec<NodeId> = s.graph.ids().collect();
    let cut = partition(s.graph.clone(), &order, &s.devices, false, &|_| None);
    assert!(cut.channels.is_empty());
    assert_eq!(cut.feed(s.feeds[0].unwrap()).len(), 2);
    assert!(cut.parts.iter().all(|p| p.graph.len() == 3));
}
