//! Placement by cost: the estimate of a step, and groups that go where it is shortest.

#[path = "support/sketch.rs"]
mod sketch;

use proptest::prelude::*;
use sketch::{ADD, CONST, DECODE, HANDLE, READ, SHAPE, Sketch, UPDATE, specs, strict};
use thalweg_graph::place::{
    Costs, Estimate, Link, Schedule, Why, bytes, estimate, place, schedule,
};
use thalweg_graph::{DeviceSpec, GraphData, NodeId, OutputId};

const US: u64 = 1000;

/// 1 us and a byte a nanosecond: a tensor of 256 floats takes 2024 ns.
const FAST: Link = Link {
    latency: US,
    bandwidth: 1_000_000_000,
};
const SENT: u64 = US + 1024;

fn two() -> Vec<DeviceSpec> {
    specs(&["a:0:CPU:0", "a:0:CPU:1"])
}

/// The schedule where every node takes `node` nanoseconds.
fn scheduled(
    data: &GraphData,
    devices: &[DeviceSpec],
    node: &dyn Fn(NodeId, usize) -> u64,
    link: Link,
) -> Schedule {
    let size = |o: OutputId| data.fact(o).map_or(0, bytes);
    let costs = Costs {
        node,
        bytes: &size,
        link: &|_, _| link,
    };
    schedule(data, &strict(devices), &costs).expect("a schedule")
}

/// Chains of these lengths that begin with a node without inputs and end in one sum.
fn chains(lengths: &[usize]) -> Sketch {
    let mut s = Sketch::default();
    let ends: Vec<NodeId> = lengths
        .iter()
        .enumerate()
        .map(|(c, &length)| {
            let mut at = s.add(&CONST, &format!("c{c}"), &[]);
            for i in 0..length {
                at = s.add(&ADD, &format!("c{c}/{i}"), &[at]);
            }
            at
        })
        .collect();
    s.add(&ADD, "sum", &ends);
    s
}

fn cost_of_ops(data: &GraphData) -> impl Fn(NodeId, usize) -> u64 {
    |id, _| {
        if data.node(id).op.name == "Add" {
            10 * US
        } else {
            0
        }
    }
}

#[test]
fn a_step_is_estimated_as_it_would_run() {
    // x -> a, x -> b on the other device, sum where a is.
    let devices = two();
    let mut s = Sketch::default();
    let x = s.on(&ADD, "x", &[], ":::0", &[]);
    let a = s.on(&ADD, "a", &[x], ":::0", &[]);
    let b = s.on(&ADD, "b", &[x], ":::1", &[]);
    let c = s.on(&ADD, "c", &[x], ":::1", &[]);
    s.on(&ADD, "sum", &[a, b, c], ":::0", &[]);
    let placement = place(&s.0, &strict(&devices)).expect("a placement");
    let size = |o: OutputId| s.0.fact(o).map_or(0, bytes);
    let costs = Costs {
        node: &cost_of_ops(&s.0),
        bytes: &size,
        link: &|_, _| FAST,
    };
    let expected = Estimate {
        // x, its way there, b, c, c's way back, sum.
        step: 10 * US + SENT + 20 * US + SENT + 10 * US,
        busy: vec![30 * US, 20 * US],
        // x goes to b and c once.
        transfers: 3,
        bytes: 3 * 1024,
    };
    assert_eq!(estimate(&s.0, &placement, &costs), expected);
}

#[test]
fn independent_chains_go_to_devices_of_their_own() {
    let s = chains(&[20, 20]);
    let found = scheduled(&s.0, &two(), &cost_of_ops(&s.0), FAST);
    assert_eq!(found.plain.step, 410 * US);
    assert_eq!(found.estimate.step, 200 * US + SENT + 10 * US);
    let device = |name: &str| found.placement.device(s.0.find(name).expect("a node"));
    for c in ["c0", "c1"] {
        let places = (0..20).map(|i| device(&format!("{c}/{i}")));
        assert!(
            places.clone().all(|d| d == device(c)),
            "{}",
            found.placement.report(&s.0)
        );
    }
    assert_ne!(device("c0"), device("c1"));
    let free = s.0.find("c0/3").expect("a node");
    assert_eq!(found.placement.why(free), Why::Cost);
}

#[test]
fn chains_stay_together_where_links_are_slow() {
    let s = chains(&[20, 20]);
    let slow = Link {
        latency: 1_000_000,
        bandwidth: 1_000_000,
    };
    let found = scheduled(&s.0, &two(), &cost_of_ops(&s.0), slow);
    assert_eq!(found.estimate, found.plain);
    assert_eq!(found.estimate.transfers, 0);
}

#[test]
fn a_link_that_nothing_gets_through_is_not_used() {
    let s = chains(&[5, 5]);
    let none = Link {
        latency: 0,
        bandwidth: 0,
    };
    let found = scheduled(&s.0, &two(), &cost_of_ops(&s.0), none);
    assert_eq!(found.estimate, found.plain);
}

#[test]
fn the_longer_chain_goes_to_the_faster_device() {
    let s = chains(&[10, 30]);
    let cost = |id: NodeId, device: usize| match s.0.node(id).op.name {
        "Add" => [20 * US, 10 * US][device],
        _ => 0,
    };
    let found = scheduled(&s.0, &two(), &cost, FAST);
    let device = |name: &str| found.placement.device(s.0.find(name).expect("a node"));
    assert_eq!((device("c0/5"), device("c1/5")), (0, 1));
    assert!(found.estimate.step < 320 * US, "{:?}", found.estimate);
}

#[test]
fn a_variable_goes_where_it_is_used() {
    // Two layers, each pinned; their variables are free, with an update that follows a gradient.
    let devices = two();
    let mut s = Sketch::default();
    let mut at = s.on(&ADD, "x", &[], ":::0", &[]);
    for layer in 0..2 {
        let v = s.add(&HANDLE, &format!("v{layer}"), &[]);
        let read = s.add(&READ, &format!("r{layer}"), &[v]);
        at = s.on(
            &ADD,
            &format!("y{layer}"),
            &[at, read],
            &format!(":::{layer}"),
            &[],
        );
        let gradient = s.on(
            &ADD,
            &format!("g{layer}"),
            &[at],
            &format!(":::{layer}"),
            &[],
        );
        s.add(&UPDATE, &format!("u{layer}"), &[v, gradient]);
    }
    let found = scheduled(&s.0, &devices, &cost_of_ops(&s.0), FAST);
    let device = |name: &str| found.placement.device(s.0.find(name).expect("a node"));
    assert_eq!((device("v0"), device("v1"), device("u1")), (0, 1, 1));
    assert_eq!(found.estimate.transfers, 1);
    assert!(found.estimate.step < found.plain.step);
}

#[test]
fn absurd_costs_are_no_reason_to_panic() {
    let s = chains(&[3, 3]);
    let link = Link {
        latency: u64::MAX,
        bandwidth: 1,
    };
    let found = scheduled(&s.0, &two(), &|_, _| u64::MAX, link);
    assert_eq!(found.estimate.step, u64::MAX);
    let nothing = scheduled(&GraphData::new(), &[], &|_, _| 0, link);
    assert_eq!(nothing.estimate.step, 0);
}

/// A graph by a list of numbers: of each node what it is, what it uses, what it asks for.
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
    fn a_schedule_is_never_worse_and_keeps_what_must_be_kept(
        nodes in prop::collection::vec(any::<(u8, usize, usize, u8)>(), 1..60),
        seed in any::<u64>(),
        latency in 0u64..50_000,
    ) {
        let devices = specs(&["a:0:CPU:0", "a:0:CPU:1", "a:0:CPU:2", "a:0:GPU:0"]);
        let s = random(&nodes);
        let cost = |id: NodeId, device: usize| {
            (seed.rotate_left((id.index() * 7 + device * 13) as u32 % 64)) % (20 * US)
        };
        let link = Link { latency, bandwidth: 1_000_000_000 };
        let size = |o: OutputId| s.0.fact(o).map_or(0, bytes);
        let costs = Costs { node: &cost, bytes: &size, link: &|_, _| link };
        // A read may share a device with an update that runs elsewhere only: no placement then.
        let Ok(plain) = place(&s.0, &strict(&devices)) else {
            prop_assert!(schedule(&s.0, &strict(&devices), &costs).is_err());
            return Ok(());
        };
        let found = schedule(&s.0, &strict(&devices), &costs).expect("a schedule");
        prop_assert!(found.estimate.step <= found.plain.step);
        prop_assert_eq!(&found.plain, &estimate(&s.0, &plain, &costs));
        prop_assert_eq!(&found.estimate, &estimate(&s.0, &found.placement, &costs));
        let busiest = found.estimate.busy.iter().max().copied().unwrap_or(0);
        prop_assert!(found.estimate.step >= busiest);
        for (id, node) in s.0.nodes() {
            let device = found.placement.name(id);
            prop_assert!(node.device.admits(device), "{} on {device}", node.name);
            let is_cpu = device.device_type.as_deref() == Some("CPU");
            prop_assert!(is_cpu || node.op.name != "Decode");
            if matches!(node.op.name, "ReadVariableOp" | "AssignSub") {
                prop_assert_eq!(found.placement.device(node.inputs[0].node), found.placement.device(id));
            }
        }
    }
}
