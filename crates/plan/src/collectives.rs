//! Collectives of a step: all ranks run them one after the other, in one order.
//!
//! The order of a plan follows from its graph alone, so ranks that run the same graph have the same. A node waits for the
//! collective before it, so threads cannot change that order, and neither can devices. Ranks that negotiate have no order.

use rustc_hash::FxHashSet;
use thalweg_device::{Device, KernelError, PlannedCollective};
use thalweg_graph::op::Effect;
use thalweg_graph::{GraphData, Node, NodeId};
use thalweg_ops::{gpu_collective, planned_collective};

use crate::error::{SessionError, failed};
use crate::request::PlanContext;

/// Returns the reason that a collective on a GPU runs on its host, if it does; `None` for other nodes.
pub(crate) fn on_host(node: &Node, device: &Device, context: PlanContext<'_>) -> Option<String> {
    let gpu = device.gpu()?;
    // Without ranks the collective's kernel returns the error.
    let ranks = context.collectives?;
    if node.op.effect != Effect::Collective {
        return None;
    }
    if ranks.for_gpus().is_none() {
        return Some("what carries values between these ranks has nothing for GPUs".to_owned());
    }
    let carried = gpu.driver().communicators().map_err(|e| e.to_string());
    carried.and_then(|_| gpu_collective(node)).err()
}

/// Lets each collective of a graph wait for the one before it in `order`, unless ranks negotiate; returns the list that
/// ranks compare.
///
/// # Errors
/// A collective in a function: it runs when its call does, at no place of its own in the order.
pub(crate) fn order_collectives(
    graph: &mut GraphData,
    (order, devices): (&[NodeId], &[u32]),
    context: PlanContext<'_>,
) -> Result<Vec<PlannedCollective>, SessionError> {
    let ranks = context.collectives.and_then(|c| c.ranks(0).ok());
    let ranks = ranks.map(|of| of.size);
    let ordered = !context.collectives.is_some_and(|c| c.negotiates());
    let mut planned = Vec::new();
    let mut known = FxHashSet::default();
    let mut last: Option<NodeId> = None;
    for &id in order {
        let node = graph.node(id);
        refuse_in_functions(graph, node, &mut known)?;
        let Some(mut collective) = planned_collective(graph, node, ranks) else {
            continue;
        };
        let device = devices
            .get(id.index())
            .map(|&d| &context.devices[d as usize]);
        collective.on_gpus = device.is_some_and(|d| d.gpu().is_some());
        planned.push(collective);
        if let (Some(last), true) = (last.replace(id), ordered) {
            graph.wait_for(id, last);
        }
    }
    Ok(planned)
}

/// # Errors
/// A function that this node calls, or one that is called there, has a collective.
fn refuse_in_functions<'a>(
    graph: &'a GraphData,
    node: &'a Node,
    known: &mut FxHashSet<String>,
) -> Result<(), SessionError> {
    let mut stack = node.functions();
    while let Some(name) = stack.pop() {
        let Some(function) = graph.function(name) else {
            continue;
        };
        if !known.insert(name.to_owned()) {
            continue;
        }
        for (_, inner) in function.body.nodes() {
            if inner.op.effect == Effect::Collective {
                return Err(failed(
                    inner,
                    KernelError::Invalid(inside(name, &node.name)),
                ));
            }
            stack.extend(inner.functions());
        }
    }
    Ok(())
}

fn inside(function: &str, caller: &str) -> String {
    format!(
        "it is in function '{function}', which '{caller}' calls: ranks would not run it in one order; build it outside of \
         functions, branches and loops"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use thalweg_graph::{Attr, Func, Function, Origin};
    use thalweg_ops::{CollectiveOps, MathOps, ReduceOp, SourceOps};
    use thalweg_tensor::DType;

    use crate::testing::{IdleRanks, Planner, bare_node, bare_op, graph};

    fn ranks(negotiate: bool) -> Planner {
        let mut planner = Planner::cpus(&[1]);
        planner.machine.collectives = Some(Arc::new(IdleRanks { negotiate }));
        planner
    }

    /// Two all-reduces that do not use each other, and a node behind the second.
    fn two(planner: &Planner) -> (GraphData, Vec<PlannedCollective>) {
        let g = graph();
        let x = g.placeholder("x", DType::F32, [-1, 2]);
        let first = x.all_reduce(ReduceOp::Sum).named("first");
        let second = x.all_reduce(ReduceOp::Max).named("second");
        (first + second.tanh()).named("last");
        let mut data = (*g.snapshot()).clone();
        let order: Vec<NodeId> = data.ids().collect();
        let devices = vec![0; data.len()];
        let planned = order_collectives(&mut data, (&order, &devices), planner.context());
        (data, planned.unwrap())
    }

    #[test]
    fn a_collective_waits_for_the_one_before_it_unless_ranks_negotiate() {
        for (planner, waits) in [
            (Planner::cpus(&[1]), true),
            (ranks(false), true),
            (ranks(true), false),
        ] {
            let (data, planned) = two(&planner);
            let [first, second] = ["first", "second"].map(|n| data.find(n).unwrap());
            assert_eq!(data.node(second).controls.contains(&first), waits);
            assert!(data.node(first).controls.is_empty());
            let texts: Vec<String> = planned.iter().map(PlannedCollective::to_string).collect();
            let expected = [
                "first = HorovodAllreduce(sum) f32[?,2]",
                "second = HorovodAllreduce(max) f32[?,2]",
            ];
            assert_eq!(texts, expected);
        }
    }

    #[test]
    fn a_collective_in_a_function_is_an_error_however_deep_it_is() {
        static CALL: thalweg_graph::OpDef = bare_op("Call", Effect::Pure);
        static SUM: thalweg_graph::OpDef = bare_op("Sum", Effect::Collective);
        let function = |name: &str, body: GraphData| Function {
            name: name.to_owned(),
            arguments: Vec::new(),
            results: Vec::new(),
            body,
            inputs: Vec::new(),
            outputs: Vec::new(),
            controls: Vec::new(),
            attrs: Vec::new(),
            origin: Origin::Other("a test".into()),
        };
        let call = |name: &str| {
            let mut node = bare_node(&CALL, &[], &[]);
            node.attrs.set("f", Attr::Func(Func::named(name)));
            node
        };
        let mut data = GraphData::new();
        let mut body = GraphData::new();
        body.push(bare_node(&SUM, &[], &[]));
        data.define(function("inner", body));
        let mut body = GraphData::new();
        // A function that calls itself is visited once.
        body.push(call("outer"));
        body.push(call("inner"));
        data.define(function("outer", body));
        data.push(call("outer"));
        let order: Vec<NodeId> = data.ids().collect();
        let planner = ranks(false);
        let planned = order_collectives(&mut data, (&order, &[0]), planner.context());
        assert_eq!(
            planned.unwrap_err().to_string(),
            "node 'Sum' (Sum), made at a test: it is in function 'inner', which 'Call' calls: ranks would not run it in \
             one order; build it outside of functions, branches and loops"
        );
    }

    #[test]
    fn a_collective_on_a_gpu_runs_on_the_host_where_ranks_have_nothing_for_gpus() {
        let mut planner = Planner::with_gpu();
        let g = graph();
        let x = g.placeholder("x", DType::F32, [2]);
        let sum = x.all_reduce(ReduceOp::Sum);
        let data = g.snapshot();
        let reason = |node: NodeId, device: usize, planner: &Planner| {
            on_host(
                data.node(node),
                &planner.machine.devices[device],
                planner.context(),
            )
        };
        // Without ranks its kernel returns the error.
        assert_eq!(reason(sum.id().node, 1, &planner), None);
        planner.machine.collectives = Some(Arc::new(IdleRanks { negotiate: false }));
        let why = "what carries values between these ranks has nothing for GPUs";
        assert_eq!(reason(sum.id().node, 1, &planner).as_deref(), Some(why));
        assert_eq!(reason(sum.id().node, 0, &planner), None);
        assert_eq!(reason(x.id().node, 1, &planner), None);
    }
}
