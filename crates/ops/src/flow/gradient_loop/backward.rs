//! The loop that runs the iterations of another one backward.

use thalweg_graph::op::InputGradients;
use thalweg_graph::{
    ClosedBodies, Fact, GradCx, Graph, NodeId, Operation, Output, OutputId, gradients_with,
};
use thalweg_tensor::{DType, Shape};

use super::differentiated::{Loop, int};
use crate::flow::build::{define_function, dtypes_attr};
use crate::flow::gradient::{BodyCopy, copy_body, gradient_fact, is_differentiable, zeros};

/// Builds the backward loop, and returns the gradients of the forward loop's inputs.
pub(super) fn backward<'g>(
    g: &GradCx<'_, 'g>,
    looped: &Loop<'g>,
    lists: &[Output<'g>],
) -> InputGradients<'g> {
    let graph = g.graph();
    let none = || InputGradients::from_elem(None, looped.inputs.len());
    let Some(&first) = lists.first() else {
        return none();
    };
    let back = BackwardLoop::new(looped, lists.len());
    let turns = graph.op("TensorListLength").input(first).output();
    let mut initial = vec![turns];
    initial.extend(lists);
    initial.extend(back.initial_gradients(g));
    initial.extend(back.invariant.iter().map(|&i| looped.inputs[i]));
    let facts = back.facts(g, &initial);
    let name = &looped.body.name;
    let (test, turn) = (
        graph.body(&format!("{name}_back_cond")),
        graph.body(&format!("{name}_back")),
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
    let results = back.turn(turn, &given);
    let closed = graph.close_bodies(&[(test, &asked, &[goes_on]), (turn, &given, &results)]);
    match while_node(graph, &initial, facts, closed) {
        Some(node) => back.gradients(g, node),
        None => none(),
    }
}

/// State of the backward loop. Its values, in order: number of iterations left, lists, gradients of values that change,
/// sums of gradients of values that do not change, and then the values that do not change.
struct BackwardLoop<'l, 'g> {
    looped: &'l Loop<'g>,
    /// Values of the loop with gradients that may differ from zero, and those that no iteration changes.
    differentiable: Vec<usize>,
    invariant: Vec<usize>,
    /// Index of the first gradient among its values: after the number of iterations and the lists.
    first_gradient: usize,
}

impl<'l, 'g> BackwardLoop<'l, 'g> {
    /// Backward loop of a loop that saves values on this many lists.
    fn new(looped: &'l Loop<'g>, lists: usize) -> Self {
        let Loop {
            inputs,
            changes,
            live,
            ..
        } = looped;
        BackwardLoop {
            looped,
            differentiable: (0..inputs.len())
                .filter(|&i| live[i] && is_differentiable(&inputs[i].fact()))
                .collect(),
            invariant: (0..inputs.len()).filter(|&i| !changes[i]).collect(),
            first_gradient: 1 + lists,
        }
    }

    /// Gradients before the first backward iteration.
    fn initial_gradients(&self, g: &GradCx<'_, 'g>) -> Vec<Output<'g>> {
        let graph = g.graph();
        let start = |&i: &usize| match (self.looped.changes[i], g.dy(i)) {
            (true, Some(dy)) => dy,
            (true, None) => zeros(graph, g.output(i as u32)),
            (false, _) => zeros(graph, self.looped.inputs[i]),
        };
        self.differentiable.iter().map(start).collect()
    }

    /// Facts of the loop's values, from their initial ones.
    fn facts(&self, g: &GradCx<'_, 'g>, initial: &[Output<'g>]) -> Vec<Fact> {
        let mut facts: Vec<Fact> = initial.iter().map(|o| o.fact().without_value()).collect();
        // A gradient has the shape of its value, even if the first gradient has a more specific one.
        for (&i, fact) in self
            .differentiable
            .iter()
            .zip(&mut facts[self.first_gradient..])
        {
            let declared = g.attrs().shapes("output_shapes").get(i).cloned();
            fact.shape = match self.looped.changes[i] {
                true => declared.unwrap_or_default(),
                false => gradient_fact(&self.looped.inputs[i].fact()).shape,
            };
        }
        facts
    }

    /// One backward iteration: from its input values to those of the next.
    fn turn(&self, turn: &'g Graph, given: &[Output<'g>]) -> Vec<Output<'g>> {
        let (carried, invariant) = given.split_at(self.first_gradient + self.differentiable.len());
        let (lists, dys) = (
            &carried[1..self.first_gradient],
            &carried[self.first_gradient..],
        );
        let mut results = vec![turn.op("Sub").input(given[0]).input(int(turn, 1)).output()];
        let (shorter, saved) = self.pop_saved(turn, lists);
        results.extend(shorter);
        let started = self.iteration_inputs(turn, &saved, invariant);
        let changes = &self.looped.changes;
        let changing = self.differentiable.iter().copied().filter(|&i| changes[i]);
        let forward = copy_body(turn, &self.looped.body, started, &saved, changing);
        results.extend(self.accumulated_gradients(turn, &forward, dys));
        results.extend(invariant);
        results
    }

    /// Pops the values of the forward iteration: returns the shorter lists, and the replacement of each saved
    /// output.
    fn pop_saved(&self, turn: &'g Graph, lists: &[Output<'g>]) -> (Vec<Output<'g>>, Saved<'g>) {
        let Loop { body, saved, .. } = self.looped;
        let pop = |(&of, &list): (&OutputId, &Output<'g>)| {
            let fact = body
                .body
                .fact(of)
                .cloned()
                .unwrap_or(Fact::new(DType::F32, Shape::unknown()));
            let popped = turn
                .op("TensorListPopBack")
                .input(list)
                .input(int(turn, -1))
                .attr("element_dtype", fact.dtype)
                .build();
            let mut value = popped.output(1);
            if fact.dtype != DType::Variant {
                let ensured = turn.op("EnsureShape").input(value);
                value = ensured.attr("shape", fact.shape).output();
            }
            (popped.output(0), (of, value))
        };
        saved.iter().zip(lists).map(pop).unzip()
    }

    /// Values that the forward iteration started from.
    fn iteration_inputs(
        &self,
        turn: &'g Graph,
        saved: &[(OutputId, Output<'g>)],
        invariant: &[Output<'g>],
    ) -> Vec<Output<'g>> {
        let Loop { body, changes, .. } = self.looped;
        let mut invariant = invariant.iter().copied();
        let start = |(&node, &changes): (&NodeId, &bool)| {
            let of = OutputId { node, index: 0 };
            let popped = || saved.iter().find(|(o, _)| *o == of).map(|s| s.1);
            let value = if changes { popped() } else { invariant.next() };
            value.unwrap_or_else(|| turn.invalid())
        };
        body.inputs.iter().zip(changes).map(start).collect()
    }

    /// Gradients after a backward iteration: for values that change, the gradients before the forward iteration; for
    /// the others, the sums so far.
    fn accumulated_gradients(
        &self,
        turn: &'g Graph,
        forward: &BodyCopy<'g>,
        dys: &[Output<'g>],
    ) -> Vec<Output<'g>> {
        let Loop { changes, .. } = self.looped;
        let changing = || (self.differentiable.iter().zip(dys)).filter(|(i, _)| changes[**i]);
        let seeds: Vec<Option<Output<'g>>> = changing().map(|(_, &dy)| Some(dy)).collect();
        let xs: Vec<Output<'g>> = self
            .differentiable
            .iter()
            .map(|&i| forward.arguments[i])
            .collect();
        let found = gradients_with(&forward.results, &xs, &seeds, &[]);
        let total = |(k, &i): (usize, &usize)| {
            let own = found.get(k).copied().flatten();
            match (changes[i], own) {
                (true, Some(d)) => d,
                (true, None) => zeros(turn, xs[k]),
                (false, Some(d)) => sum(dys[k], d),
                (false, None) => dys[k],
            }
        };
        self.differentiable.iter().enumerate().map(total).collect()
    }

    /// Gradients of the forward loop's inputs, from the outputs of the backward loop.
    fn gradients(&self, g: &GradCx<'_, 'g>, node: Operation<'g>) -> InputGradients<'g> {
        let mut gradients = InputGradients::from_elem(None, self.looped.inputs.len());
        for (k, &i) in self.differentiable.iter().enumerate() {
            let total = node.output((self.first_gradient + k) as u32);
            gradients[i] = Some(match (self.looped.changes[i], g.dy(i)) {
                // A value that the loop does not change passes its outer gradient on.
                (false, Some(dy)) => sum(total, dy),
                _ => total,
            });
        }
        gradients
    }
}

/// Sum of two gradients, which may be lists.
fn sum<'g>(one: Output<'g>, other: Output<'g>) -> Output<'g> {
    match one.dtype() {
        DType::Variant => one.graph().op("AddN").inputs([one, other]).output(),
        _ => one + other,
    }
}

/// For each saved output: its replacement in a backward iteration.
type Saved<'g> = Vec<(OutputId, Output<'g>)>;

/// Node of a loop with these initial values, from its closed condition and body. Captured values do not change
/// between iterations.
fn while_node<'g>(
    graph: &'g Graph,
    initial: &[Output<'g>],
    facts: Vec<Fact>,
    closed: ClosedBodies<'g>,
) -> Option<Operation<'g>> {
    let mut functions = closed.functions.into_iter();
    let (test, mut turn) = (functions.next()?, functions.next()?);
    for &node in turn.inputs.iter().skip(initial.len()) {
        turn.outputs.push(OutputId { node, index: 0 });
    }
    let captured = turn.arguments.iter().skip(initial.len());
    turn.results.extend(captured.cloned());
    let all: Vec<Output<'g>> = initial.iter().chain(&closed.captured).copied().collect();
    let mut shapes: Vec<Shape> = facts.into_iter().map(|f| f.shape).collect();
    shapes.extend(closed.captured.iter().map(|o| o.shape()));
    // It reads variables again, so it must be ordered within the step.
    let node = graph
        .op("While")
        .inputs(all.iter().copied())
        .attr("T", dtypes_attr(&all))
        .attr("cond", define_function(graph, test))
        .attr("body", define_function(graph, turn))
        .attr("output_shapes", shapes)
        .build();
    Some(node)
}
