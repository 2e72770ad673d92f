//! Builders of branches and loops from Rust closures.

use thalweg_graph::error::Reason;
use thalweg_graph::op::Effect;
use thalweg_graph::{Attr, Func, Function, Graph, Output};
use thalweg_tensor::{DType, Shape};

/// Builders of branches and loops.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{FlowOps, MathOps, NewGraph, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, []);
/// let positive = x.greater(0.0f32);
/// // The root of a positive number, and zero for others.
/// let root = g.cond(positive, |_| vec![x.sqrt()], |b| vec![b.constant(0.0f32)]);
/// assert_eq!(root[0].shape(), Shape::scalar());
/// assert!(g.errors().is_empty());
/// ```
pub trait FlowOps {
    /// Runs `then` if `pred` is true, and `otherwise` if not: only one of them runs. Each closure builds into a graph
    /// of its own, which it is given, and may use outputs of this graph. Both return the same number of outputs of the
    /// same dtypes.
    fn cond<'g>(
        &'g self,
        pred: Output<'g>,
        then: impl FnOnce(&'g Graph) -> Vec<Output<'g>>,
        otherwise: impl FnOnce(&'g Graph) -> Vec<Output<'g>>,
    ) -> Vec<Output<'g>>;

    /// Applies `body` to the values `initial` for as long as `cond` returns true, and returns the final values. Each
    /// closure builds into a graph of its own, which it is given along with the values at the start of an iteration,
    /// and may use outputs of this graph. A value keeps its dtype. If `body` gives a value another shape, only the
    /// part that all iterations have in common is known, and `body` and `cond` are called a second time.
    fn while_loop<'g>(
        &'g self,
        initial: &[Output<'g>],
        cond: impl Fn(&'g Graph, &[Output<'g>]) -> Output<'g>,
        body: impl Fn(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>>,
    ) -> Vec<Output<'g>>;
}

/// Returns `true` if a function has nodes with effects.
pub(super) fn has_effects(function: &Function) -> bool {
    let idle = |e: Effect| matches!(e, Effect::Pure | Effect::Control | Effect::Feed);
    function.body.nodes().any(|(_, n)| !idle(n.op.effect))
}

pub(super) fn dtypes_attr(outputs: &[Output<'_>]) -> Attr {
    Attr::Types(outputs.iter().map(|o| o.dtype()).collect())
}

/// Adds a function to the graph, and returns the attribute that calls it.
pub(super) fn define_function(graph: &Graph, function: Function) -> Attr {
    let name = function.name.clone();
    graph.define(function);
    Attr::Func(Func::named(&name))
}

/// Records an error of a loop, at the source line of the caller's caller: a closure would have a line of
/// its own.
#[track_caller]
fn fail_loop(graph: &Graph, count: usize, text: String) -> Vec<Output<'_>> {
    vec![graph.fail("while", "While", Reason::Argument(text)); count]
}

impl FlowOps for Graph {
    #[track_caller]
    fn cond<'g>(
        &'g self,
        pred: Output<'g>,
        then: impl FnOnce(&'g Graph) -> Vec<Output<'g>>,
        otherwise: impl FnOnce(&'g Graph) -> Vec<Output<'g>>,
    ) -> Vec<Output<'g>> {
        let (yes, no) = (self.body("cond_true"), self.body("cond_false"));
        let a = self.build_in(yes, || then(yes));
        let b = self.build_in(no, || otherwise(no));
        if a.iter().chain(&b).any(|o| o.is_invalid()) {
            // The body has recorded the error.
            self.close_bodies(&[(yes, &[], &[]), (no, &[], &[])]);
            return vec![self.invalid(); a.len()];
        }
        let dtypes = |all: &[Output<'g>]| all.iter().map(|o| o.dtype()).collect::<Vec<_>>();
        if dtypes(&a) != dtypes(&b) {
            let text = format!(
                "one branch gives {:?}, the other one {:?}: both must give the same dtypes",
                dtypes(&a),
                dtypes(&b)
            );
            return vec![self.fail("cond", "If", Reason::Argument(text)); a.len()];
        }
        let shapes = a.iter().zip(&b).map(|(a, b)| a.shape().common(&b.shape()));
        let shapes: Vec<Shape> = shapes.collect();
        let closed = self.close_bodies(&[(yes, &[], &a), (no, &[], &b)]);
        let op = match closed.functions.iter().any(has_effects) {
            true => "If",
            false => "StatelessIf",
        };
        let mut functions = closed.functions.into_iter();
        let mut node = self.op(op).name("cond").input(pred);
        for attr in ["then_branch", "else_branch"] {
            if let Some(function) = functions.next() {
                node = node.attr(attr, define_function(self, function));
            }
        }
        let node = node
            .inputs(closed.captured.iter().copied())
            .attr("Tin", dtypes_attr(&closed.captured))
            .attr("Tout", dtypes_attr(&a))
            .attr("output_shapes", shapes)
            .build();
        (0..a.len() as u32).map(|i| node.output(i)).collect()
    }

    #[track_caller]
    fn while_loop<'g>(
        &'g self,
        initial: &[Output<'g>],
        cond: impl Fn(&'g Graph, &[Output<'g>]) -> Output<'g>,
        body: impl Fn(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>>,
    ) -> Vec<Output<'g>> {
        if initial.iter().any(|o| o.is_invalid()) {
            return vec![self.invalid(); initial.len()];
        }
        let mut shapes: Vec<Shape> = initial.iter().map(|o| o.shape()).collect();
        loop {
            let (test, turn) = (self.body("while_cond"), self.body("while_body"));
            let values = |graph: &'g Graph| -> Vec<Output<'g>> {
                let facts = initial
                    .iter()
                    .zip(&shapes)
                    .map(|(o, shape)| thalweg_graph::Fact {
                        shape: shape.clone(),
                        ..o.fact().without_value()
                    });
                facts.map(|f| graph.argument("value", &f)).collect()
            };
            let (asked, given) = (values(test), values(turn));
            let goes_on = self.build_in(test, || cond(test, &asked));
            let next = self.build_in(turn, || body(turn, &given));
            if goes_on.is_invalid() || next.iter().any(|o| o.is_invalid()) {
                self.close_bodies(&[(test, &asked, &[]), (turn, &given, &[])]);
                return vec![self.invalid(); initial.len()];
            }
            if goes_on.dtype() != DType::Bool {
                return fail_loop(
                    self,
                    initial.len(),
                    format!("its condition is {}, but must be bool", goes_on.dtype()),
                );
            }
            let same = |(a, b): (&Output<'g>, &Output<'g>)| a.dtype() == b.dtype();
            if next.len() != initial.len() || !initial.iter().zip(&next).all(same) {
                let dtypes = |all: &[Output<'g>]| {
                    all.iter()
                        .map(|o| o.dtype().name())
                        .collect::<Vec<_>>()
                        .join(", ")
                };
                return fail_loop(
                    self,
                    initial.len(),
                    format!(
                        "its body makes {} of {}: it must give what it takes",
                        dtypes(&next),
                        dtypes(initial)
                    ),
                );
            }
            let held = shapes.iter().zip(&next).map(|(s, o)| s.common(&o.shape()));
            let held: Vec<Shape> = held.collect();
            if held != shapes {
                shapes = held;
                continue;
            }
            // Captured values do not change between iterations.
            let closed = self.close_bodies(&[(test, &asked, &[goes_on]), (turn, &given, &next)]);
            let mut functions = closed.functions.into_iter();
            let (Some(test), Some(mut turn)) = (functions.next(), functions.next()) else {
                return vec![self.invalid(); initial.len()];
            };
            for &node in turn.inputs.iter().skip(initial.len()) {
                turn.outputs
                    .push(thalweg_graph::OutputId { node, index: 0 });
            }
            let captured = turn.arguments.iter().skip(initial.len());
            turn.results.extend(captured.cloned());
            let inputs: Vec<Output<'g>> = initial.iter().chain(&closed.captured).copied().collect();
            shapes.extend(closed.captured.iter().map(|o| o.shape()));
            let op = match has_effects(&test) || has_effects(&turn) {
                true => "While",
                false => "StatelessWhile",
            };
            let node = self
                .op(op)
                .name("while")
                .inputs(inputs.iter().copied())
                .attr("T", dtypes_attr(&inputs))
                .attr("cond", define_function(self, test))
                .attr("body", define_function(self, turn))
                .attr("output_shapes", shapes)
                .build();
            return (0..initial.len() as u32).map(|i| node.output(i)).collect();
        }
    }
}
