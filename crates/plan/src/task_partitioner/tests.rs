use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use thalweg_graph::op::Effect;
use thalweg_graph::partition::is_remote;
use thalweg_graph::{Graph, Output};
use thalweg_ops::{MathOps, SourceOps, StateOps};
use thalweg_tensor::Shape;

use super::*;
use crate::compile::client_channel;
use crate::testing::{Planner, graph};
use crate::wire_dtype::{Wire, WireType};

fn device(task: u32, index: u32) -> String {
    format!("/job:worker/task:{task}/device:CPU:{index}")
}

/// Two tasks with two devices each.
fn partitioner(wire: Option<Wire>) -> TaskPartitioner {
    let planner = Planner::cpus(&[1]);
    let full = |task, index| {
        let name = format!("/job:worker/replica:0/task:{task}/device:CPU:{index}");
        (DeviceSpec::parse(&name).unwrap(), task)
    };
    let devices = vec![full(0, 0), full(0, 1), full(1, 0), full(1, 1)];
    let options = PlanOptions {
        wire,
        ..planner.options
    };
    TaskPartitioner::new(planner.machine, options, devices)
}

fn on<'g>(g: &'g Graph, task: u32, index: u32, build: impl FnOnce() -> Output<'g>) -> Output<'g> {
    g.device(&*device(task, index), build)
}

fn names(part: &TaskPart) -> Vec<&str> {
    part.graph.nodes().map(|(_, n)| n.name.as_str()).collect()
}

fn fed(output: Output<'_>) -> (OutputId, DType, Dims) {
    (
        output.id(),
        output.dtype(),
        output.shape().to_dims().unwrap(),
    )
}

/// The sends and receives between tasks, by channel: the part, the place in it, the node.
type Ends = BTreeMap<i64, Vec<(usize, usize, Arc<thalweg_graph::Node>)>>;

fn ends(parts: &[TaskPart]) -> Ends {
    let mut ends = Ends::new();
    for (p, part) in parts.iter().enumerate() {
        for (id, node) in part.graph.nodes().filter(|(_, n)| is_remote(n)) {
            let channel = node.attrs.int("channel");
            ends.entry(channel)
                .or_default()
                .push((p, id.index(), node.clone()));
        }
    }
    ends
}

#[test]
fn an_edge_between_tasks_becomes_one_send_and_one_receive() {
    let g = graph();
    let x = on(&g, 0, 1, || g.placeholder("x", DType::F32, [2]));
    let y = on(&g, 0, 1, || x.tanh().named("y"));
    // Two users over there, one crossing.
    let z = on(&g, 1, 1, || (y.sin() + y).named("z"));
    let cut = partitioner(None);
    let cut = cut
        .cut(
            &g.snapshot(),
            &[Fetch::Value(z.id()), Fetch::Value(y.id())],
            &[fed(x)],
        )
        .unwrap();
    assert_eq!(cut.channels, [TaskChannel { from: 0, to: 1 }]);
    let [first, second] = &cut.parts[..] else {
        panic!("{cut:?}")
    };
    assert_eq!((first.task, second.task), (0, 1));
    assert_eq!((first.feeds.len(), second.feeds.len()), (1, 0));
    let fetches = |part: &TaskPart| part.fetches.iter().map(|(n, _)| *n).collect::<Vec<_>>();
    assert_eq!((fetches(first), fetches(second)), (vec![1], vec![0]));
    // Nodes that the cut adds are on the first device of their task, the others where they were placed.
    assert_eq!(first.devices, [1, 1, 0], "{:?}", names(first));
    assert_eq!(second.devices, [2, 3, 3], "{:?}", names(second));
    let ends = ends(&cut.parts);
    let effects: Vec<Effect> = ends[&0].iter().map(|(.., n)| n.op.effect).collect();
    assert_eq!(effects, [Effect::Send, Effect::Recv]);
    assert!(!first.separate_memory);
}

#[test]
fn a_feed_and_a_constant_are_in_every_part_that_uses_them() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [2]);
    let c = g.constant([1.0f32, 2.0]).named("c");
    let near = on(&g, 0, 0, || x + c);
    let far = on(&g, 1, 0, || x * c);
    let cut = partitioner(None);
    let fetches = [Fetch::Value(near.id()), Fetch::Value(far.id())];
    let cut = cut.cut(&g.snapshot(), &fetches, &[fed(x)]).unwrap();
    assert_eq!((cut.parts.len(), cut.channels.len()), (2, 0));
    for part in &cut.parts {
        assert_eq!(part.feeds.len(), 1);
        assert!(names(part).contains(&"c"), "{:?}", names(part));
    }
}

#[test]
fn floats_cross_in_the_wire_dtype_of_their_edge_and_other_dtypes_as_they_are() {
    let g = graph();
    let x = on(&g, 0, 0, || g.placeholder("x", DType::F32, [2]));
    let n = on(&g, 0, 0, || g.placeholder("n", DType::I32, [2]));
    let y = on(&g, 0, 0, || x.tanh().named("y"));
    let m = on(&g, 0, 0, || (n + n).named("m"));
    let far = on(&g, 1, 0, || y.sin().named("far"));
    let count = on(&g, 1, 0, || (m + m).named("count"));
    let asked = |e: &Edge<'_>| {
        let task = |d: &DeviceSpec| d.task.unwrap();
        assert_eq!((task(e.from), task(e.to), e.output), (0, 1, 0));
        match e.node {
            "y" => WireType::BF16,
            _ => WireType::F16,
        }
    };
    let fetches = [Fetch::Value(far.id()), Fetch::Value(count.id())];
    for (wire, dtypes) in [
        (None, [DType::F32, DType::I32]),
        (Some(Wire::each(asked)), [DType::BF16, DType::I32]),
        (Some(Wire::all(WireType::F32)), [DType::F32, DType::I32]),
    ] {
        let cut = partitioner(wire);
        let cut = cut.cut(&g.snapshot(), &fetches, &[fed(x), fed(n)]).unwrap();
        let ends = ends(&cut.parts);
        let sent: Vec<DType> = ends
            .values()
            .filter_map(|e| e[0].2.attrs.dtype("T"))
            .collect();
        assert_eq!(sent, dtypes);
        let casts = |part: &TaskPart| {
            part.graph
                .nodes()
                .filter(|(_, n)| n.op.name == "Cast")
                .count()
        };
        let narrowed = usize::from(dtypes[0] != DType::F32);
        assert_eq!(
            (casts(&cut.parts[0]), casts(&cut.parts[1])),
            (narrowed, narrowed)
        );
    }
}

#[test]
fn a_partial_run_gives_and_takes_values_through_the_first_task_as_they_are() {
    let g = graph();
    let x = on(&g, 1, 0, || g.placeholder("x", DType::F32, [2]));
    let y = on(&g, 1, 0, || x.tanh().named("y"));
    let z = on(&g, 1, 0, || y.sin().named("z"));
    let cut = partitioner(Some(Wire::all(WireType::F16)));
    let fetches = [Fetch::Value(y.id()), Fetch::Value(z.id())];
    let cut = cut.cut_partial(&g.snapshot(), &fetches, &[x.id()]).unwrap();
    assert!(
        cut.parts
            .iter()
            .all(|p| p.separate_memory && p.feeds.is_empty() && p.fetches.is_empty())
    );
    let ends = ends(&cut.parts);
    // The feed, then the fetches: each has one end here, the client has the other.
    let client = [0, 1, 2].map(client_channel);
    let effects = client.map(|c| match &ends[&c][..] {
        [(0, _, node)] => node.op.effect,
        other => panic!("{other:?}"),
    });
    assert_eq!(effects, [Effect::Recv, Effect::Send, Effect::Send]);
    assert!(
        ends.values()
            .flatten()
            .all(|(.., n)| n.attrs.dtype("T") == Some(DType::F32))
    );
}

#[test]
fn devices_that_come_later_leave_placed_nodes_where_they_are() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, []);
    let y = x.tanh();
    let few = partitioner(None);
    few.placed(&g.snapshot()).unwrap();
    let name = DeviceSpec::parse("/job:worker/replica:0/task:2/device:CPU:0").unwrap();
    let more = few.with(vec![(name, 2)]);
    assert_eq!((few.devices().len(), more.devices().len()), (4, 5));
    let z = on(&g, 2, 0, || y.sin());
    assert!(few.placed(&g.snapshot()).is_err());
    let cut = more
        .cut(&g.snapshot(), &[Fetch::Value(z.id())], &[fed(x)])
        .unwrap();
    let tasks: Vec<u32> = cut.parts.iter().map(|p| p.task).collect();
    assert_eq!(tasks, [0, 2]);
}

#[test]
fn a_variable_is_read_on_its_task_and_its_value_sent() {
    let g = graph();
    let w = g.device(&*device(0, 0), || g.variable("w", 1.0f32));
    let read = w.read().named("read");
    let y = on(&g, 1, 0, || (read + 1.0).named("y"));
    let cut = partitioner(None);
    let cut = cut
        .cut(&g.snapshot(), &[Fetch::Value(y.id())], &[])
        .unwrap();
    assert!(names(&cut.parts[0]).contains(&"read"));
    assert!(!names(&cut.parts[1]).contains(&"w"));
}

/// A node of a random graph: its op, its inputs among the nodes before it, its task and device.
type TaskNode = (u8, usize, usize, u32, u32);

/// Builds a random graph; returns the feed and all nodes behind it.
fn drawn<'g>(g: &'g Graph, nodes: &[TaskNode]) -> Vec<Output<'g>> {
    let mut all = vec![on(g, 0, 0, || {
        g.placeholder("x", DType::F32, Shape::known(&[2]))
    })];
    for &(op, a, b, task, index) in nodes {
        let (a, b) = (all[a % all.len()], all[b % all.len()]);
        all.push(on(g, task, index, || match op {
            0 => a.tanh(),
            1 => a + b,
            2 => a * b,
            // A control input in place of a value.
            _ => g.control_dependencies([b], || a.sin()),
        }));
    }
    all
}

#[test]
fn parts_that_run_in_their_order_never_wait_for_each_other_in_a_circle() {
    let node = (0u8..4, 0usize..30, 0usize..30, 0u32..2, 0u32..2);
    let nodes = proptest::collection::vec(node, 1..30);
    let cutter = partitioner(None);
    let mut runner = TestRunner::new(Config::with_cases(64));
    let checked = runner.run(&nodes, |nodes| {
        let g = graph();
        let all = drawn(&g, &nodes);
        // A cutter keeps the placement of one graph, which only grows.
        let cutter = TaskPartitioner::new(
            cutter.machine.clone(),
            cutter.options.clone(),
            cutter
                .devices()
                .iter()
                .cloned()
                .zip(cutter.tasks.iter().copied())
                .collect(),
        );
        let fetches: Vec<Fetch> = all[1..].iter().map(|o| Fetch::Value(o.id())).collect();
        let cut = cutter.cut(&g.snapshot(), &fetches, &[fed(all[0])]).unwrap();
        let ends = ends(&cut.parts);
        prop_assert_eq!(ends.len(), cut.channels.len());
        for (channel, ends) in &ends {
            let [(from, _, send), (to, _, recv)] = &ends[..] else {
                return Err(TestCaseError::fail(format!("channel {channel}: {ends:?}")));
            };
            let (from, to, send, recv) = match send.op.effect {
                Effect::Send => (from, to, send, recv),
                _ => (to, from, recv, send),
            };
            prop_assert_eq!(
                (send.op.effect, recv.op.effect),
                (Effect::Send, Effect::Recv)
            );
            let tasks = TaskChannel {
                from: cut.parts[*from].task,
                to: cut.parts[*to].task,
            };
            prop_assert_eq!(cut.channels[*channel as usize], tasks);
        }
        // Each task runs its nodes in turn, and stops at a receive until its value was sent.
        let mut at = vec![0; cut.parts.len()];
        let mut sent = BTreeSet::new();
        loop {
            let before = at.clone();
            for (p, part) in cut.parts.iter().enumerate() {
                while let Some((id, node)) = part.graph.nodes().nth(at[p]) {
                    let earlier = node
                        .inputs
                        .iter()
                        .map(|i| i.node)
                        .chain(node.controls.iter().copied());
                    prop_assert!(earlier.into_iter().all(|e| e.index() < id.index()));
                    let channel = node.attrs.int("channel");
                    match node.op.effect {
                        Effect::Recv if !sent.contains(&channel) => break,
                        Effect::Send => drop(sent.insert(channel)),
                        _ => {}
                    }
                    at[p] += 1;
                }
            }
            if at == before {
                break;
            }
        }
        let lengths: Vec<usize> = cut.parts.iter().map(|p| p.graph.len()).collect();
        prop_assert_eq!(at, lengths);
        // Every node is placed on a device of its task.
        for part in &cut.parts {
            prop_assert!(
                part.devices
                    .iter()
                    .all(|&d| cutter.tasks[d as usize] == part.task)
            );
        }
        Ok(())
    });
    checked.unwrap();
}
