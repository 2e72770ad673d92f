//! Gradients through loops. The way forward puts what each turn starts from on lists; the way back is
//! a loop that takes it off again, computes the turn once more, and goes back through it.

use std::sync::Arc;

use thalweg_graph::error::Reason;
use thalweg_graph::op::InputGradients;
use thalweg_graph::{
    Attr, Fact, Func, Function, GradCx, Graph, Output, OutputId, Value, gradients_with,
};
use thalweg_tensor::{DType, Shape, Tensor};

use super::build::{define, types};
use super::gradient::{again, gradient_fact, is_smooth, plain, refuse, zeros};

/// What a loop is, as its gradient sees it.
struct Loop<'g> {
    body: Arc<Function>,
    inputs: Vec<Output<'g>>,
    /// By value: whether a turn may change it.
    changes: Vec<bool>,
    /// What a turn puts on lists: its arguments that change, and what it cannot compute again.
    saved: Vec<OutputId>,
}

/// Of a loop.
pub(super) fn repeat<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let graph = g.graph();
    let none = || InputGradients::from_elem(None, g.inputs());
    let name = g.attrs().func("body").map_or("", |f| f.name.as_str());
    let Some(body) = graph.function(name) else {
        let text = format!("the graph has no function '{name}'");
        graph.report(name, "gradients", Reason::Argument(text));
        return none();
    };
    // A loop that was given lists by an earlier gradient has them as further values.
    let inputs: Vec<Output<'g>> = (0..g.inputs()).map(|i| g.input(i)).collect();
    let argument = |i: usize| OutputId {
        node: body.inputs[i],
        index: 0,
    };
    let changes: Vec<bool> = (0..inputs.len())
        .map(|i| body.outputs.get(i) != Some(&argument(i)))
        .collect();
    let wanted: Vec<OutputId> = (0..inputs.len())
        .filter(|&i| changes[i] && is_smooth(&inputs[i].fact()))
        .map(|i| body.outputs[i])
        .collect();
    let kept = match body.unrepeatable(&wanted) {
        Ok(kept) => kept,
        Err(node) => {
            refuse(graph, &body, &node);
            return none();
        }
    };
    let listable = |i: &usize| changes[*i] && inputs[*i].dtype().size() > 0;
    let saved: Vec<OutputId> = (0..inputs.len())
        .filter(listable)
        .map(argument)
        .chain(kept)
        .collect();
    if saved.is_empty() {
        // Nothing changes from turn to turn: nothing depends on how many there were.
        return (0..inputs.len()).map(|i| g.dy(i)).collect();
    }
    let looped = Loop {
        body,
        inputs,
        changes,
        saved,
    };
    let lists = save(g, &looped);
    backward(g, &looped, &lists)
}

fn int<'g>(graph: &'g Graph, value: i32) -> Output<'g> {
    Value::Tensor(Tensor::scalar(value)).on(graph)
}

/// Makes the loop put what is to be saved on lists; gives where the lists are after it.
fn save<'g>(g: &GradCx<'_, 'g>, looped: &Loop<'g>) -> Vec<Output<'g>> {
    let graph = g.graph();
    let had = g.inputs();
    let facts: Vec<Fact> = looped
        .saved
        .iter()
        .filter_map(|o| looped.body.body.fact(*o).cloned())
        .collect();
    let mut turn = Function::clone(&looped.body);
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
    graph.widen(operation, &empty, changed);
    (0..empty.len())
        .map(|i| operation.output((had + i) as u32))
        .collect()
}

/// The loop that goes back. Its values: the turns that are left, the lists, the gradients of what
/// changes, the sums of gradients of what does not, and then what does not change.
fn backward<'g>(g: &GradCx<'_, 'g>, looped: &Loop<'g>, lists: &[Output<'g>]) -> InputGradients<'g> {
    let graph = g.graph();
    let Loop {
        body,
        inputs,
        changes,
        saved,
    } = looped;
    let smooth: Vec<usize> = (0..inputs.len())
        .filter(|&i| is_smooth(&inputs[i].fact()))
        .collect();
    let fixed: Vec<usize> = (0..inputs.len()).filter(|&i| !changes[i]).collect();
    let Some(&first) = lists.first() else {
        return InputGradients::from_elem(None, inputs.len());
    };
    let turns = graph.op("TensorListLength").input(first).output();
    let start = |&i: &usize| match (changes[i], g.dy(i)) {
        (true, Some(dy)) => dy,
        (true, None) => zeros(graph, g.output(i as u32)),
        (false, _) => zeros(graph, inputs[i]),
    };
    let starts: Vec<Output<'g>> = smooth.iter().map(start).collect();
    let mut initial = vec![turns];
    initial.extend(lists);
    initial.extend(&starts);
    initial.extend(fixed.iter().map(|&i| inputs[i]));
    // A gradient has the shape of what it is of, whatever the first one is known to have.
    let mut facts: Vec<Fact> = initial.iter().map(|o| plain(o.fact())).collect();
    for (k, &i) in smooth.iter().enumerate() {
        let said = g.attrs().shapes("output_shapes").get(i).cloned();
        let own = gradient_fact(&inputs[i].fact());
        facts[1 + lists.len() + k].shape = match changes[i] {
            true => said.unwrap_or_default(),
            false => own.shape,
        };
    }
    let (test, turn) = (
        graph.body(&format!("{}_back_cond", body.name)),
        graph.body(&format!("{}_back", body.name)),
    );
    let arguments = |of: &'g Graph| -> Vec<Output<'g>> {
        facts.iter().map(|f| of.argument("value", f)).collect()
    };
    let (asked, given) = (arguments(test), arguments(turn));
    let goes_on = test
        .op("Greater")
        .input(asked[0])
        .input(int(test, 0))
        .output();
    let mut results = vec![turn.op("Sub").input(given[0]).input(int(turn, 1)).output()];
    // What the turn started from, and what it cannot compute again.
    let mut stand_in: Vec<(OutputId, Output<'g>)> = Vec::new();
    for (k, &of) in saved.iter().enumerate() {
        let fact = body
            .body
            .fact(of)
            .cloned()
            .unwrap_or(Fact::new(DType::F32, Shape::unknown()));
        let popped = turn
            .op("TensorListPopBack")
            .input(given[1 + k])
            .input(int(turn, -1))
            .attr("element_dtype", fact.dtype)
            .build();
        results.push(popped.output(0));
        let value = turn
            .op("EnsureShape")
            .input(popped.output(1))
            .attr("shape", fact.shape)
            .output();
        stand_in.push((of, value));
    }
    let fixed_at = |i: usize| {
        let k = fixed.iter().position(|&f| f == i).unwrap_or(0);
        given[1 + lists.len() + smooth.len() + k]
    };
    let started = (0..inputs.len()).map(|i| {
        let of = OutputId {
            node: body.inputs[i],
            index: 0,
        };
        let popped = stand_in
            .iter()
            .find(|(o, _)| *o == of)
            .map(|(_, value)| *value);
        match changes[i] {
            true => popped.unwrap_or_else(|| turn.invalid()),
            false => fixed_at(i),
        }
    });
    let forward = again(turn, body, started.collect(), &stand_in);
    let dys: Vec<Output<'g>> = (0..smooth.len())
        .map(|k| given[1 + lists.len() + k])
        .collect();
    let changing: Vec<usize> = (0..smooth.len()).filter(|&k| changes[smooth[k]]).collect();
    let ys: Vec<Output<'g>> = changing
        .iter()
        .map(|&k| forward.results[smooth[k]])
        .collect();
    let seeds: Vec<Option<Output<'g>>> = changing.iter().map(|&k| Some(dys[k])).collect();
    let xs: Vec<Output<'g>> = smooth.iter().map(|&i| forward.arguments[i]).collect();
    let found = gradients_with(&ys, &xs, &seeds, &[]);
    for (k, &i) in smooth.iter().enumerate() {
        let own = found.get(k).copied().flatten();
        results.push(match (changes[i], own) {
            (true, Some(d)) => d,
            (true, None) => zeros(turn, xs[k]),
            (false, Some(d)) => dys[k] + d,
            (false, None) => dys[k],
        });
    }
    results.extend(fixed.iter().map(|&i| fixed_at(i)));
    let closed = graph.close_bodies(&[(test, &asked, &[goes_on]), (turn, &given, &results)]);
    let mut functions = closed.functions.into_iter();
    let (Some(test), Some(mut turn)) = (functions.next(), functions.next()) else {
        return InputGradients::from_elem(None, inputs.len());
    };
    for &node in turn.inputs.iter().skip(initial.len()) {
        turn.outputs.push(OutputId { node, index: 0 });
    }
    let captured = turn.arguments.iter().skip(initial.len());
    turn.results.extend(captured.cloned());
    let all: Vec<Output<'g>> = initial.iter().chain(&closed.captured).copied().collect();
    let mut shapes: Vec<Shape> = facts.into_iter().map(|f| f.shape).collect();
    shapes.extend(closed.captured.iter().map(|o| o.shape()));
    // It reads variables again: it has its place in the order of the step.
    let node = graph
        .op("While")
        .inputs(all.iter().copied())
        .attr("T", types(&all))
        .attr("cond", define(graph, test))
        .attr("body", define(graph, turn))
        .attr("output_shapes", shapes)
        .build();
    let mut gradients = InputGradients::from_elem(None, inputs.len());
    for (k, &i) in smooth.iter().enumerate() {
        let total = node.output((1 + lists.len() + k) as u32);
        gradients[i] = Some(match (changes[i], g.dy(i)) {
            // What comes out of the loop as it went in hands its gradient on.
            (false, Some(dy)) => total + dy,
            _ => total,
        });
    }
    gradients
}
