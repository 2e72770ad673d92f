//! The trait [`Optimizer`].

use thalweg_graph::{Graph, Operation, Output, Reason, gradients};
use thalweg_ops::{StateOps, Variable};

use super::updates::Updates;

/// Something that updates variables by the gradient of a loss.
///
/// An optimizer is a description without state: what it keeps between steps lies in variables of
/// the graph, its slots, and each call that builds updates makes slots of its own.
///
/// [`Optimizer::minimize`] is all that most programs call.
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
    /// The name of its scope, and of its slots: `Adam`.
    fn name(&self) -> &'static str;

    /// Builds the update of every variable, and of what the updates share. Called inside the
    /// optimizer's name scope.
    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>>;

    /// The gradient of the sum of `loss` with respect to each variable, for those that it depends
    /// on. Each gradient has its variable's dtype and shape.
    ///
    /// That it depends on none of them is a mistake that the graph keeps.
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

    /// One operation that updates the variables, each by its gradient, and then adds one to
    /// `global_step`. What else reads a variable in the same step sees it as it was before.
    ///
    /// With nothing to update it does nothing: [`Optimizer::compute_gradients`] has then kept a
    /// mistake.
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
                    graph.control_dependencies([update], || step.beside(|| step.assign_add(1i64)))
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

    /// As [`Optimizer::minimize`], for these variables and no others: of two networks that learn from
    /// each other, each has an optimizer for its own.
    #[track_caller]
    fn minimize_over(&self, loss: Output<'g>, variables: &[Variable<'g>]) -> Operation<'g> {
        let found = self.compute_gradients(loss, variables);
        self.apply_gradients(loss.graph(), &found, None)
    }

    /// As [`Optimizer::minimize`]; adds one to `global_step` after each update.
    #[track_caller]
    fn minimize_counting(&self, loss: Output<'g>, global_step: Variable<'g>) -> Operation<'g> {
        let graph = loss.graph();
        let found = self.compute_gradients(loss, &graph.trainable_variables());
        self.apply_gradients(graph, &found, Some(global_step))
    }
}

/// An optimizer that is chosen when the program runs.
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
