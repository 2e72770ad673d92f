//! Accumulate: an update by the gradients of several steps.

use thalweg_graph::{Graph, Operation, Output, Reason};
use thalweg_ops::{MathOps, StateOps, Variable};

use super::optimizer::Optimizer;
use super::updates::Updates;
use crate::slots::filled;

/// Wraps an optimizer: updates at every n-th step, by the mean of the gradients of n steps. This equals a batch n times
/// as large, in the memory of a small one. In the steps between, variables, slots and the global step stay unchanged.
///
/// The slot `var/Accumulate` sums gradients, and `Accumulate/steps` counts the steps since the last update. Clipping
/// before [`Optimizer::apply_gradients`] clips the gradients of each step. Nodes that wait for the returned operation
/// run in every step.
///
/// The update is a branch, on a CPU. Variables on several CPUs need `SessionOptions::soft_placement`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps, StateOps};
/// use thalweg_session::{Feeding, Session};
/// use thalweg_tensor::DType;
/// use thalweg_optim::{Accumulate, GradientDescent, Optimizer};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, []);
/// let w = g.variable("w", 10.0f32);
/// let train = Accumulate::new(GradientDescent::new(1.0), 2).minimize(w * x);
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// session.run(train, [x.feed(1.0f32)])?;
/// assert_eq!(session.run::<f32>(w, [])?, 10.0);
/// session.run(train, [x.feed(3.0f32)])?;
/// assert_eq!(session.run::<f32>(w, [])?, 8.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Accumulate<O> {
    optimizer: O,
    steps: u32,
}

impl<O> Accumulate<O> {
    /// Updates by `optimizer` at every `steps`-th step. Zero steps are a mistake that the graph keeps.
    pub fn new(optimizer: O, steps: u32) -> Accumulate<O> {
        Accumulate { optimizer, steps }
    }

    /// Sums `gradients`, and at every n-th step runs the operation that `build` makes of their means.
    #[track_caller]
    fn every_nth<'g>(
        &self,
        graph: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        build: impl FnOnce(&[(Output<'g>, Variable<'g>)]) -> Operation<'g>,
    ) -> Operation<'g> {
        let Some(&(_, first)) = gradients.first() else {
            return build(&[]);
        };
        if self.steps == 0 {
            let text = "an update takes the gradients of 0 steps: give at least 1".to_owned();
            let reason = Reason::Argument(text);
            return graph.fail("Accumulate", "Accumulate", reason).operation();
        }
        let updates = Updates::new(graph);
        let sums = gradients.iter();
        let sums: Vec<GradientSum<'g>> = sums
            .map(|&(g, v)| GradientSum::new(&updates, g, v))
            .collect();
        // All on the device of one variable: a branch must be known to run on one device when it is placed.
        first.colocate(|| {
            let (last, count) = self.count(graph);
            // Nodes that wait for the second output run in the last step only.
            let sides = graph.op("Switch").input(last).input(last).build();
            let updated = graph.control_dependencies([sides.output(1).named("last")], || {
                let take = |sum: &GradientSum<'g>| sum.take(&updates, self.steps);
                let (means, resets): (Vec<_>, Vec<_>) = sums.iter().map(take).unzip();
                let all = resets.into_iter().chain([build(&means)]);
                graph.control_dependencies(all, || sides.output(1).named("updated"))
            });
            // Merges both sides: nodes that wait for the result run in every step.
            let both = graph.op("Merge").input(sides.output(0)).input(updated);
            graph.group("update", [both.build(), count])
        })
    }

    /// Returns if this step is the last one before an update, and the operation that counts steps.
    #[track_caller]
    fn count<'g>(&self, graph: &'g Graph) -> (Output<'g>, Operation<'g>) {
        let steps = graph.untrained_variable("steps", 0i64);
        let last = steps.value().equal(i64::from(self.steps) - 1);
        let next = last.select(0i64, steps + 1);
        (last, steps.assign(next))
    }
}

/// Sum of the gradients of a variable.
struct GradientSum<'g> {
    variable: Variable<'g>,
    sum: Variable<'g>,
    /// Adds the gradient of this step.
    added: Operation<'g>,
}

impl<'g> GradientSum<'g> {
    #[track_caller]
    fn new(updates: &Updates<'g>, gradient: Output<'g>, variable: Variable<'g>) -> GradientSum<'g> {
        let sum = updates.slot(variable, "Accumulate", 0.0);
        let added = updates.colocate(variable, || sum.assign_add(gradient));
        GradientSum {
            variable,
            sum,
            added,
        }
    }

    /// Returns the mean over `steps` steps, with the variable, and the operation that resets the sum to zero.
    #[track_caller]
    fn take(
        &self,
        updates: &Updates<'g>,
        steps: u32,
    ) -> ((Output<'g>, Variable<'g>), Operation<'g>) {
        let graph = updates.graph();
        updates.colocate(self.variable, || {
            let total = graph.control_dependencies([self.added], || self.sum.read());
            let mean = total / f64::from(steps);
            let reset = graph.control_dependencies([mean], || {
                self.sum.assign(filled(graph, &total.fact(), 0.0))
            });
            ((mean, self.variable), reset)
        })
    }
}

impl<'g, O: Optimizer<'g>> Optimizer<'g> for Accumulate<O> {
    fn name(&self) -> &'static str {
        "Accumulate"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        let graph = updates.graph();
        vec![self.every_nth(graph, gradients, |means| {
            // Rates that are built in the branch cannot be used outside of it.
            let nodes = self.optimizer.update(&mut Updates::new(graph), means);
            graph.group("update", nodes)
        })]
    }

    #[track_caller]
    fn compute_gradients(
        &self,
        loss: Output<'g>,
        variables: &[Variable<'g>],
    ) -> Vec<(Output<'g>, Variable<'g>)> {
        self.optimizer.compute_gradients(loss, variables)
    }

    #[track_caller]
    fn apply_gradients(
        &self,
        graph: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        global_step: Option<Variable<'g>>,
    ) -> Operation<'g> {
        let apply = |means: &[_]| self.optimizer.apply_gradients(graph, means, global_step);
        let build = || self.every_nth(graph, gradients, apply);
        graph.at_caller(|| graph.name_scope(self.name(), build))
    }
}

#[cfg(test)]
mod tests;
