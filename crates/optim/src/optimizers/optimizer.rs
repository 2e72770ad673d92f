//! The trait [`Optimizer`].

use thalweg_graph::{Graph, Operation, Output, Reason, gradients};
use thalweg_ops::{StateOps, Variable};

use super::updates::Updates;

/// Updates variables by the gradient of a loss.
///
/// An optimizer is a description without state: its state between steps is in variables of the graph, its slots, and
/// each call that builds updates creates slots of its own.
///
/// Most programs call only [`Optimizer::minimize`].
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, ReduceOps, StateOps};
/// use thalweg_session::Session;
/// use thalweg_optim::{Optimizer, RmsProp, create_global_step};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let w = g.variable("w", [3.0f32, 4.0]);
/// let loss = w.value().square().sum();
/// let step = create_global_step(&g);
/// let train = RmsProp::new(0.1).minimize_counting(loss, step);
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// let (before, ()): (f32, ()) = session.run((loss, train), [])?;
/// let after: f32 = session.run(loss, [])?;
/// assert!(before == 25.0 && after < before);
/// assert_eq!(session.run::<i64>(step, [])?, 1);
/// # Ok(())
/// # }
/// ```
pub trait Optimizer<'g> {
    /// Name of its scope, and of its slots: `Adam`.
    fn name(&self) -> &'static str;

    /// Builds the updates of all variables, and the nodes that they share. Called inside the optimizer's name scope.
    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>>;

    /// The gradient of the sum of `loss` with respect to each variable, for those that it depends
    /// on. Each gradient has its variable's dtype and shape.
    ///
    /// If it depends on none of them, the graph keeps a mistake.
    #[track_caller]
    fn compute_gradients(
        &self,
        loss: Output<'g>,
        variables: &[Variable<'g>],
    ) -> Vec<(Output<'g>, Variable<'g>)> {
        let handles: Vec<_> = variables.iter().map(|v| v.handle()).collect();
        let found: Vec<_> = gradients(&[loss], &handles)
            .into_iter()
            .zip(variables)
            .filter_map(|(gradient, &variable)| Some((gradient?, variable)))
            .collect();
        if found.is_empty() && !loss.is_invalid() {
            let text = match variables.len() {
                0 => "there are no variables to train: make them with Graph::variable".to_owned(),
                _ => format!(
                    "{} depends on none of the variables to train: compute it from them, \
                     through ops that have a gradient",
                    loss.name()
                ),
            };
            let graph = loss.graph();
            graph.report(self.name(), self.name(), Reason::Argument(text));
        }
        found
    }

    /// One operation that updates the variables, each by its gradient, and then increments `global_step`. Other reads
    /// of a variable in the same step see it from before the update.
    ///
    /// Without gradients it does nothing: [`Optimizer::compute_gradients`] has then reported a mistake.
    #[track_caller]
    fn apply_gradients(
        &self,
        graph: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        global_step: Option<Variable<'g>>,
    ) -> Operation<'g> {
        let build = || {
            let nodes = self.update(&mut Updates::new(graph), gradients);
            let update = graph.group("update", nodes);
            match global_step {
                Some(step) => {
                    graph.control_dependencies([update], || step.colocate(|| step.assign_add(1i64)))
                }
                None => update,
            }
        };
        graph.at_caller(|| graph.name_scope(self.name(), build))
    }

    /// One operation that makes `loss` smaller: a step along its gradient for every trainable
    /// variable that it depends on.
    #[track_caller]
    fn minimize(&self, loss: Output<'g>) -> Operation<'g> {
        self.minimize_over(loss, &loss.graph().trainable_variables())
    }

    /// Like [`Optimizer::minimize`], for these variables only: of two adversarial networks, each has an optimizer for
    /// its own.
    #[track_caller]
    fn minimize_over(&self, loss: Output<'g>, variables: &[Variable<'g>]) -> Operation<'g> {
        let found = self.compute_gradients(loss, variables);
        self.apply_gradients(loss.graph(), &found, None)
    }

    /// Like [`Optimizer::minimize`]; increments `global_step` after each update.
    #[track_caller]
    fn minimize_counting(&self, loss: Output<'g>, global_step: Variable<'g>) -> Operation<'g> {
        let graph = loss.graph();
        let found = self.compute_gradients(loss, &graph.trainable_variables());
        self.apply_gradients(graph, &found, Some(global_step))
    }
}

/// An optimizer that is chosen at run time.
impl<'g, O: Optimizer<'g> + ?Sized> Optimizer<'g> for Box<O> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        (**self).update(updates, gradients)
    }

    #[track_caller]
    fn compute_gradients(
        &self,
        loss: Output<'g>,
        variables: &[Variable<'g>],
    ) -> Vec<(Output<'g>, Variable<'g>)> {
        (**self).compute_gradients(loss, variables)
    }

    #[track_caller]
    fn apply_gradients(
        &self,
        graph: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        global_step: Option<Variable<'g>>,
    ) -> Operation<'g> {
        (**self).apply_gradients(graph, gradients, global_step)
    }
}
