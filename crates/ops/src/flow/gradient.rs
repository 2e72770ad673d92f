//! Gradients through calls and branches: functions of their own, which recompute the intermediate values of the
//! forward function that they need. Values that would differ if computed again (random numbers) become outputs of the
//! forward call, and inputs of the gradient.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_graph::error::Reason;
use thalweg_graph::op::InputGradients;
use thalweg_graph::{
    Attr, ClosedBodies, Fact, Func, Function, GradCx, Graph, Operation, Output, OutputId,
    gradients_with,
};
use thalweg_tensor::{DType, Shape};

use super::build::{define_function, dtypes_attr};

/// Copy of a function's body, in the graph that a gradient is built in.
pub(super) struct BodyCopy<'g> {
    /// Replacements of its arguments.
    pub(super) arguments: Vec<Output<'g>>,
    /// Copies of the requested results.
    pub(super) results: Vec<Output<'g>>,
}

/// Copies into `graph` the nodes that these results of a function depend on; `kept` replaces values that must
/// not be computed again.
pub(super) fn copy_body<'g>(
    graph: &'g Graph,
    function: &Function,
    arguments: Vec<Output<'g>>,
    kept: &[(OutputId, Output<'g>)],
    results: impl Iterator<Item = usize>,
) -> BodyCopy<'g> {
    let wanted: Vec<OutputId> = results
        .filter_map(|i| function.outputs.get(i).copied())
        .collect();
    let mut given: HashMap<OutputId, Output<'g>> = kept.iter().copied().collect();
    for (&node, &argument) in function.inputs.iter().zip(&arguments) {
        given.insert(OutputId { node, index: 0 }, argument);
    }
    let results = function.inline(graph, &given, &wanted);
    BodyCopy { arguments, results }
}

/// Returns `true` if a value can have a gradient. A variant may be a list of floats, whose gradient is a list.
pub(super) fn is_differentiable(fact: &Fact) -> bool {
    match fact.dtype {
        DType::Resource => fact.variable.is_some(),
        DType::Variant => true,
        dtype => dtype.is_float(),
    }
}

/// Known facts of the gradient of a value; for a variable's handle, those of the variable.
pub(super) fn gradient_fact(fact: &Fact) -> Fact {
    match &fact.variable {
        Some((dtype, shape)) => Fact::new(*dtype, shape.clone()),
        None => Fact::new(fact.dtype, fact.shape.clone()),
    }
}

/// Zeros in the shape of a value, or of the variable behind a handle.
pub(super) fn zeros<'g>(graph: &'g Graph, like: Output<'g>) -> Output<'g> {
    let fact = like.fact();
    if fact.dtype != DType::Resource {
        return graph.op("ZerosLike").input(like).output();
    }
    let dtype = fact.variable.map_or(DType::F32, |(dtype, _)| dtype);
    let read = graph
        .op("ReadVariableOp")
        .input(like)
        .attr("dtype", dtype)
        .output();
    graph.op("ZerosLike").input(read).output()
}

/// Functions that a call may run.
fn functions(g: &GradCx<'_, '_>, attrs: &[&str]) -> Option<Vec<Arc<Function>>> {
    let named = |attr: &&str| {
        let name = &g.attrs().func(attr)?.name;
        let found = g.graph().function(name);
        if found.is_none() {
            let text = format!("the graph has no function '{name}'");
            g.graph().report(name, "gradients", Reason::Argument(text));
        }
        found
    };
    attrs.iter().map(named).collect()
}

/// Reports that a function contains an op that no gradient goes through.
pub(super) fn report_no_gradient(graph: &Graph, function: &Function, node: &str) {
    let text = format!(
        "no gradient goes through function '{}': its node '{node}' does more than compute, and would \
         do it twice",
        function.name
    );
    graph.report(&function.name, "gradients", Reason::Argument(text));
}

/// Gradient of a plain call.
pub(super) fn call<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    choice_gradient(g, 0, &["f"])
}

/// Gradient of a choice between two functions.
pub(super) fn branch<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    choice_gradient(g, 1, &["then_branch", "else_branch"])
}

/// Gradient of a choice between several functions. The first `first` inputs make the choice; arguments follow.
fn choice_gradient<'g>(
    g: &GradCx<'_, 'g>,
    first: usize,
    attrs: &[&'static str],
) -> InputGradients<'g> {
    let graph = g.graph();
    let none = || InputGradients::from_elem(None, g.inputs());
    let Some(functions) = functions(g, attrs) else {
        return none();
    };
    let dys: Vec<(usize, Output<'g>)> = (0..g.outputs())
        .filter_map(|i| Some((i, g.dy(i)?)))
        .collect();
    let Some(kept) = unrepeatable(graph, &functions, &dys) else {
        return none();
    };
    let given_out = add_kept_outputs(g, &functions, attrs, &kept);
    let inputs: Vec<Output<'g>> = (first..g.inputs()).map(|i| g.input(i)).collect();
    let given: Vec<Output<'g>> = inputs
        .iter()
        .copied()
        .chain(dys.iter().map(|d| d.1))
        .chain(given_out)
        .collect();
    let wanted: Vec<usize> = (0..inputs.len())
        .filter(|&i| is_differentiable(&inputs[i].fact()))
        .collect();
    let choice = Choice {
        dys,
        arguments: inputs.len(),
        wanted,
        given,
    };
    let mut bodies = Vec::new();
    let mut place = choice.arguments + choice.dys.len();
    for (function, kept) in functions.iter().zip(&kept) {
        bodies.push(choice.build_gradient(graph, function, kept, place));
        place += kept.len();
    }
    // An argument without a gradient in any function has none.
    let has = |k: &usize| bodies.iter().any(|b| b.gradient(*k).is_some());
    let live: Vec<usize> = (0..choice.wanted.len()).filter(has).collect();
    let node = choice.node(g, first, attrs, close_all(graph, &bodies, &live), &live);
    let mut gradients = none();
    for (place, &k) in live.iter().enumerate() {
        gradients[first + choice.wanted[k]] = Some(node.output(place as u32));
    }
    gradients
}

/// For each function: the values behind the outputs with gradients that would differ if computed again.
/// `None` if no gradient goes through one of the functions, which is reported.
fn unrepeatable<'g>(
    graph: &Graph,
    functions: &[Arc<Function>],
    dys: &[(usize, Output<'g>)],
) -> Option<Vec<Vec<OutputId>>> {
    let of = |function: &Arc<Function>| {
        let wanted: Vec<OutputId> = dys
            .iter()
            .filter_map(|(i, _)| function.outputs.get(*i).copied())
            .collect();
        let found = function.unrepeatable(&wanted);
        found
            .map_err(|node| report_no_gradient(graph, function, &node))
            .ok()
    };
    functions.iter().map(of).collect()
}

/// Common parts of the gradients of all functions of a choice.
struct Choice<'g> {
    /// Outputs that have gradients, with these.
    dys: Vec<(usize, Output<'g>)>,
    /// Number of a function's arguments.
    arguments: usize,
    /// Arguments that may have a gradient.
    wanted: Vec<usize>,
    /// Inputs of each gradient function: the arguments, the gradients of outputs, and the kept values of all
    /// functions.
    given: Vec<Output<'g>>,
}

impl<'g> Choice<'g> {
    /// Gradient of one function, whose kept values start at index `place` of the inputs.
    fn build_gradient(
        &self,
        graph: &'g Graph,
        function: &Function,
        kept: &[OutputId],
        place: usize,
    ) -> GradientBody<'g> {
        let body = graph.body(&format!("{}_grad", function.name));
        let given: Vec<Output<'g>> = self
            .given
            .iter()
            .map(|o| body.argument("value", &o.fact().without_value()))
            .collect();
        let stand_in: Vec<(OutputId, Output<'g>)> = kept
            .iter()
            .copied()
            .zip(given[place..].iter().copied())
            .collect();
        let (arguments, seeds) = given.split_at(self.arguments);
        let results = self.dys.iter().map(|d| d.0);
        let forward = copy_body(body, function, arguments.to_vec(), &stand_in, results);
        let seeds: Vec<Option<Output<'g>>> =
            seeds[..self.dys.len()].iter().copied().map(Some).collect();
        let xs: Vec<Output<'g>> = self.wanted.iter().map(|&i| forward.arguments[i]).collect();
        let found = gradients_with(&forward.results, &xs, &seeds, &[]);
        GradientBody {
            body,
            given,
            xs,
            found,
        }
    }

    /// Node that runs the gradient of the function that ran, for these of the wanted arguments.
    fn node(
        &self,
        g: &GradCx<'_, 'g>,
        first: usize,
        attrs: &[&'static str],
        closed: ClosedBodies<'g>,
        live: &[usize],
    ) -> Operation<'g> {
        let graph = g.graph();
        let all = self.given.iter().chain(&closed.captured);
        let all: Vec<Output<'g>> = all.copied().collect();
        let out = live
            .iter()
            .map(|&k| gradient_fact(&self.given[self.wanted[k]].fact()));
        let out: Vec<Fact> = out.collect();
        // It reads variables again, so it must be ordered within the step.
        let mut node = graph.op(match first {
            0 => "StatefulPartitionedCall",
            _ => "If",
        });
        for i in 0..first {
            node = node.input(g.input(i));
        }
        for (attr, function) in attrs.iter().zip(closed.functions) {
            node = node.attr(attr, define_function(graph, function));
        }
        node = node
            .inputs(all.iter().copied())
            .attr("Tin", dtypes_attr(&all))
            .attr("Tout", Attr::Types(out.iter().map(|f| f.dtype).collect()));
        if first > 0 {
            let shapes: Vec<Shape> = out.iter().map(|f| f.shape.clone()).collect();
            node = node.attr("output_shapes", shapes);
        }
        node.build()
    }
}

/// Gradient of one function, in a graph of its own.
struct GradientBody<'g> {
    body: &'g Graph,
    /// Arguments of the gradient function.
    given: Vec<Output<'g>>,
    /// Wanted arguments, and their gradients.
    xs: Vec<Output<'g>>,
    found: Vec<Option<Output<'g>>>,
}

impl<'g> GradientBody<'g> {
    /// Gradient of a wanted argument.
    fn gradient(&self, k: usize) -> Option<Output<'g>> {
        self.found.get(k).copied().flatten()
    }

    /// Gradients of these of the wanted arguments; zeros for a missing one.
    fn results(&self, live: &[usize]) -> Vec<Output<'g>> {
        let one = |&k: &usize| {
            let zeros = || zeros(self.body, self.xs[k]);
            self.gradient(k).unwrap_or_else(zeros)
        };
        live.iter().map(one).collect()
    }
}

/// Closes the gradient functions of all functions over the same arguments.
fn close_all<'g>(
    graph: &'g Graph,
    bodies: &[GradientBody<'g>],
    live: &[usize],
) -> ClosedBodies<'g> {
    let results: Vec<Vec<Output<'g>>> = bodies.iter().map(|b| b.results(live)).collect();
    let finished: Vec<(&'g Graph, &[Output<'g>], &[Output<'g>])> = bodies
        .iter()
        .zip(&results)
        .map(|(b, results)| (b.body, &b.given[..], &results[..]))
        .collect();
    graph.close_bodies(&finished)
}

/// Adds the kept values of its functions to the outputs of the call; a function that does not run gives
/// values that nothing reads. Returns the new outputs, function after function.
fn add_kept_outputs<'g>(
    g: &GradCx<'_, 'g>,
    functions: &[Arc<Function>],
    attrs: &[&'static str],
    kept: &[Vec<OutputId>],
) -> SmallVec<[Output<'g>; 4]> {
    let graph = g.graph();
    if kept.iter().all(Vec::is_empty) {
        return SmallVec::new();
    }
    let all: Vec<Fact> = functions
        .iter()
        .zip(kept)
        .flat_map(|(f, kept)| kept.iter().filter_map(|o| f.body.fact(*o).cloned()))
        .collect();
    let had = g.outputs();
    let mut changed: Vec<(&'static str, Attr)> = Vec::new();
    for (which, (function, attr)) in functions.iter().zip(attrs).enumerate() {
        let mut wider = Function::clone(function);
        wider.drop_argument_attrs();
        wider.name = format!("{}_kept_{had}", function.name);
        let mut own = kept[which].iter();
        let before: usize = kept[..which].iter().map(Vec::len).sum();
        for (i, fact) in all.iter().enumerate() {
            let is_own = i >= before && i < before + kept[which].len();
            let output = match (is_own, own.as_slice().first()) {
                (true, Some(&output)) => {
                    own.next();
                    output
                }
                _ => wider.push_unused(graph, fact),
            };
            wider.push_result(output, fact);
        }
        changed.push((attr, Attr::Func(Func::named(&wider.name))));
        graph.define(wider);
    }
    let mut out: Vec<DType> = g.attrs().types("Tout").to_vec();
    out.extend(all.iter().map(|f| f.dtype));
    changed.push(("Tout", Attr::Types(out)));
    let mut shapes = g.attrs().shapes("output_shapes").to_vec();
    if shapes.len() == had {
        shapes.extend(all.iter().map(|_| Shape::unknown()));
        changed.push(("output_shapes", Attr::Shapes(shapes)));
    }
    let operation = g.output(0).operation();
    graph.extend_call(operation, &[], changed);
    (0..all.len())
        .map(|i| operation.output((had + i) as u32))
        .collect()
}
