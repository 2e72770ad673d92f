//! Descriptions of collectives, which ranks compare before they run them.

use thalweg_device::{PlannedCollective, ReduceOp};
use thalweg_graph::op::Effect;
use thalweg_graph::{GraphData, Node, OutputId};
use thalweg_tensor::DType;

use super::{allgather, alltoall, collective_bcast, collective_v2};

/// Description of a node, if it is a collective. `ranks` is the number of all ranks, if known.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{CollectiveOps, NewGraph, ReduceOp, SourceOps, planned_collective};
/// use thalweg_tensor::DType;
///
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [-1, 2]);
/// let sum = x.all_reduce(ReduceOp::Sum).named("sum");
/// let data = g.snapshot();
/// let planned = planned_collective(&data, data.node(sum.id().node), None).unwrap();
/// assert_eq!(planned.to_string(), "sum = HorovodAllreduce(sum) f32[?,2]");
/// assert!(planned_collective(&data, data.node(x.id().node), None).is_none());
/// ```
pub fn planned_collective(
    graph: &GraphData,
    node: &Node,
    ranks: Option<usize>,
) -> Option<PlannedCollective> {
    if node.op.effect != Effect::Collective {
        return None;
    }
    let is = |op: &thalweg_device::Op| node.op.name == op.def.name;
    // The received value has the shape of the sent one.
    let value = match is(&collective_bcast::RECEIVE) {
        true => node.outputs.first(),
        false => node.inputs.first().and_then(|&i| graph.fact(i)),
    };
    let dims = value.and_then(|f| f.shape.dims());
    let mut dims = dims.map_or(Vec::new(), <[_]>::to_vec);
    let differs = [
        &allgather::ALL_GATHER,
        &alltoall::ALL_TO_ALL,
        &collective_v2::GATHER,
    ];
    if let (true, Some(rows)) = (differs.iter().any(|op| is(op)), dims.first_mut()) {
        *rows = None;
    }
    let sends = is(&collective_bcast::SEND) || is(&collective_bcast::RECEIVE);
    Some(PlannedCollective {
        name: match sends {
            true => collective_bcast_name(graph, node),
            false => node.name.clone(),
        },
        set: process_set(graph, node, ranks),
        op: match sends {
            true => "CollectiveBcastV2".to_owned(),
            false => op_with_attrs(node),
        },
        dtype: value.map_or(DType::F32, |f| f.dtype),
        dims,
        on_gpus: false,
    })
}

/// Integer at the input of this name, if known.
fn int(graph: &GraphData, node: &Node, name: &str) -> Option<i64> {
    let value = |input: &OutputId| graph.fact(*input)?.value.as_ref()?.to_ints();
    let at = node.op.inputs.iter().position(|arg| arg.name == name)?;
    Some(*node.inputs.get(at).and_then(value)?.first()?)
}

/// Process set of a node, as its kernel determines it.
fn process_set(graph: &GraphData, node: &Node, ranks: Option<usize>) -> i32 {
    let key = match node.op.attr("process_set_id") {
        Some(_) => node.attrs.int("process_set_id"),
        None => match int(graph, node, "group_size") {
            Some(size) if usize::try_from(size).ok() == ranks => 0,
            _ => int(graph, node, "group_key").unwrap_or(0),
        },
    };
    i32::try_from(key).unwrap_or(0)
}

/// Name of a broadcast whose nodes have different names.
fn collective_bcast_name(graph: &GraphData, node: &Node) -> String {
    let int = |name| int(graph, node, name);
    match (int("group_key"), int("instance_key")) {
        (Some(group), Some(instance)) => collective_bcast::broadcast_name(group, instance),
        _ => "a broadcast".to_owned(),
    }
}

/// The op, with those of its attributes that must be the same on all ranks and are not the defaults.
fn op_with_attrs(node: &Node) -> String {
    let attrs = &node.attrs;
    let mut what = Vec::new();
    if node.op.attr("reduce_op").is_some() {
        let op = ReduceOp::of_number(attrs.int("reduce_op"));
        what.push(op.map_or(String::new(), |op| op.to_string()));
    }
    for name in ["merge_op", "final_op"] {
        if node.op.attr(name).is_some() {
            what.push(attrs.str(name).to_owned());
        }
    }
    for name in ["prescale_factor", "postscale_factor"] {
        if node.op.attr(name).is_some() && attrs.float(name) != 1.0 {
            what.push(format!("{name} {}", attrs.float(name)));
        }
    }
    if node.op.attr("root_rank").is_some() {
        what.push(format!("root {}", attrs.int("root_rank")));
    }
    match what.is_empty() {
        true => node.op.name.to_owned(),
        false => format!("{}({})", node.op.name, what.join(", ")),
    }
}
