//! Gradients through loops. The forward loop pushes the values that each iteration starts from onto lists. The
//! backward loop pops them, recomputes the iteration, and computes its gradient.

mod backward;
mod differentiated;

use thalweg_graph::error::Reason;
use thalweg_graph::op::InputGradients;
use thalweg_graph::{Attr, Fact, Func, Function, GradCx, Output, OutputId};
use thalweg_tensor::{DType, Shape};

use super::gradient::{is_differentiable, report_no_gradient};
use backward::backward;
use differentiated::{Loop, int};

/// Gradient of a loop.
pub(super) fn repeat<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let graph = g.graph();
    let none = || InputGradients::from_elem(None, g.inputs());
    let name = g.attrs().func("body").map_or("", |f| f.name.as_str());
    let Some(body) = graph.function(name) else {
        let text = format!("the graph has no function '{name}'");
        graph.report(name, "gradients", Reason::Argument(text));
        return none();
    };
    // An earlier gradient may have added lists to the loop's values.
    let inputs: Vec<Output<'g>> = (0..g.inputs()).map(|i| g.input(i)).collect();
    let argument = |i: usize| OutputId {
        node: body.inputs[i],
        index: 0,
    };
    let changes: Vec<bool> = (0..inputs.len())
        .map(|i| body.outputs.get(i) != Some(&argument(i)))
        .collect();
    let (live, needed) = live(g, &body, &inputs);
    let wanted: Vec<OutputId> = (0..inputs.len())
        .filter(|&i| changes[i] && live[i])
        .map(|i| body.outputs[i])
        .collect();
    let kept = match body.unrepeatable(&wanted) {
        Ok(kept) => kept,
        Err(node) => {
            report_no_gradient(graph, &body, &node);
            return none();
        }
    };
    let listable = |i: &usize| {
        let dtype = inputs[*i].dtype();
        changes[*i] && (live[*i] || needed[*i]) && (dtype.size() > 0 || dtype == DType::Variant)
    };
    let saved: Vec<OutputId> = (0..inputs.len())
        .filter(listable)
        .map(argument)
        .chain(kept)
        .collect();
    if saved.is_empty() {
        // No value that matters changes between iterations, so the number of iterations does not matter either.
        return (0..inputs.len()).map(|i| g.dy(i)).collect();
    }
    let looped = Loop {
        body,
        inputs,
        changes,
        live,
        saved,
    };
    let lists = save_values(g, &looped);
    backward(g, &looped, &lists)
}

/// For each value: `true` if its gradient may differ from zero; and `true` if an iteration needs the value for such
/// gradients. A value has a gradient if it has one after the loop, or if such a value is computed from it.
fn live<'g>(g: &GradCx<'_, 'g>, body: &Function, inputs: &[Output<'g>]) -> (Vec<bool>, Vec<bool>) {
    let mut live: Vec<bool> = (0..inputs.len()).map(|i| g.dy(i).is_some()).collect();
    loop {
        let results = body.outputs.iter().zip(&live);
        let roots = results.filter(|(_, live)| **live).map(|(o, _)| o.node);
        let nodes = body.body.needed(roots, |_| false);
        let needed: Vec<bool> = body.inputs.iter().map(|n| nodes[n.index()]).collect();
        let mut now = live.clone();
        for (i, live) in now.iter_mut().enumerate() {
            *live |= needed[i] && is_differentiable(&inputs[i].fact());
        }
        if now == live {
            return (live, needed);
        }
        live = now;
    }
}

/// Makes the loop push the saved values onto lists; returns the final lists.
fn save_values<'g>(g: &GradCx<'_, 'g>, looped: &Loop<'g>) -> Vec<Output<'g>> {
    let graph = g.graph();
    let had = g.inputs();
    let facts: Vec<Fact> = looped
        .saved
        .iter()
        .filter_map(|o| looped.body.body.fact(*o).cloned())
        .collect();
    let mut turn = Function::clone(&looped.body);
    turn.drop_argument_attrs();
    turn.name = format!("{}_kept_{had}", turn.name);
    let list = Fact::new(DType::Variant, Shape::scalar());
    for (&saved, fact) in looped.saved.iter().zip(&facts) {
        let before = turn.push_argument(graph, &list);
        let after = turn.push_node(
            graph,
            "TensorListPushBack",
            &[before, saved],
            &[("element_dtype", Attr::Type(fact.dtype))],
        );
        turn.push_result(after, &list);
    }
    let name = g.attrs().func("cond").map_or("", |f| f.name.as_str());
    let Some(test) = graph.function(name) else {
        return Vec::new();
    };
    let mut test = Function::clone(&test);
    test.drop_argument_attrs();
    test.name = format!("{}_kept_{had}", test.name);
    looped.saved.iter().for_each(|_| {
        test.push_argument(graph, &list);
    });
    let empty = |fact: &Fact| {
        graph
            .op("EmptyTensorList")
            .input(int(graph, -1))
            .input(int(graph, -1))
            .attr("element_dtype", fact.dtype)
            .output()
    };
    let empty: Vec<Output<'g>> = facts.iter().map(empty).collect();
    let mut dtypes = g.attrs().types("T").to_vec();
    dtypes.extend(empty.iter().map(|_| DType::Variant));
    let mut changed = vec![
        ("T", Attr::Types(dtypes)),
        ("cond", Attr::Func(Func::named(&test.name))),
        ("body", Attr::Func(Func::named(&turn.name))),
    ];
    let mut shapes = g.attrs().shapes("output_shapes").to_vec();
    if shapes.len() == had {
        shapes.extend(empty.iter().map(|_| Shape::scalar()));
        changed.push(("output_shapes", Attr::Shapes(shapes)));
    }
    graph.define(turn);
    graph.define(test);
    let operation = g.output(0).operation();
    graph.extend_call(operation, &empty, changed);
    (0..empty.len())
        .map(|i| operation.output((had + i) as u32))
        .collect()
}
