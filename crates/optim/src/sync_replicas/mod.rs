//! Synchronous training: workers compute gradients, and one update applies the mean of a given number of them.
//!
//! A task of the cluster coordinates: see `thalweg_dist::sync`. It hands out turns. A turn has a unique token, and as
//! many tickets as gradients are wanted. Each variable has a sum of gradients, which takes one gradient for a ticket of
//! the current turn and drops all others. So a worker that does not know if its gradient arrived may give it again.
//!
//! An update has two phases, so that it happens on all servers or on none. [`Synchronized::prepare`] computes all
//! values that the update uses, and keeps them on the servers that use them; it changes no variable.
//! [`Synchronized::commit`] writes the variables. It needs nothing from another server, so each server can complete its
//! part at once.

mod two_phase_update;

use thalweg_graph::{DeviceSpec, Graph, Operation, Output, Reason};
use thalweg_ops::{SourceOps, StateOps, Variable};
use thalweg_tensor::{DType, Shape};

use crate::optimizers::Optimizer;

/// Synchronous training, as TensorFlow's `SyncReplicasOptimizer`.
#[derive(Clone, Copy, Debug)]
pub struct SyncReplicas<O> {
    optimizer: O,
    workers: u32,
    aggregate: u32,
}

/// The nodes of synchronous training. Every process that takes part builds them from the same graph, and finds the
/// nodes of the others by their names.
#[derive(Clone, Debug)]
pub struct Synchronized<'g> {
    /// Identity of this training among others on the same servers: the name of the global step.
    pub name: String,
    /// Number of workers.
    pub workers: u32,
    /// Minimum number of gradients of an update.
    pub aggregate: u32,
    /// The token of the turn, a scalar `i64`: to be fed to [`Synchronized::begin`], [`Synchronized::give`],
    /// [`Synchronized::prepare`] and [`Synchronized::commit`].
    pub token: Output<'g>,
    /// The token of the turn after it, a scalar `i64`: to be fed to [`Synchronized::commit`].
    pub next_token: Output<'g>,
    /// The ticket of a gradient, a scalar `i64`: to be fed to [`Synchronized::give`].
    pub ticket: Output<'g>,
    /// `true` if all variables of the graph have values; a scalar bool.
    pub ready: Output<'g>,
    /// Begin the first turn, on each server.
    pub begin: Vec<Operation<'g>>,
    /// Runs on a worker at the start of its turn, before it computes gradients: for example, it copies values from the
    /// servers to its own variables. `None` by default; a program sets it.
    pub refresh: Option<Operation<'g>>,
    /// Computes gradients and gives them; those of a turn that is over are dropped.
    pub give: Operation<'g>,
    /// Computes the values that the update of a turn uses, and keeps them on the servers that use them.
    pub prepare: Operation<'g>,
    /// Update the variables, increment the global step, and begin the next turn. No server waits for another.
    pub commit: Vec<Operation<'g>>,
    /// The global step.
    pub global_step: Variable<'g>,
    /// The device of the global step: its task coordinates.
    pub coordinator: DeviceSpec,
}

impl<O> SyncReplicas<O> {
    /// Synchronous training of `workers` workers by an optimizer that updates with the mean of their gradients.
    pub fn new(optimizer: O, workers: u32) -> SyncReplicas<O> {
        SyncReplicas {
            optimizer,
            workers,
            aggregate: workers.max(1),
        }
    }

    /// Number of gradients of an update, at least 1. With fewer than there are workers, updates do not wait for the
    /// slowest; with more, workers give several.
    pub fn aggregate(self, gradients: u32) -> SyncReplicas<O> {
        SyncReplicas {
            aggregate: gradients.max(1),
            ..self
        }
    }

    /// Builds the training of `loss`. The sums of gradients are on the devices of their variables.
    #[track_caller]
    pub fn minimize<'g>(&self, loss: Output<'g>, global_step: Variable<'g>) -> Synchronized<'g>
    where
        O: Optimizer<'g>,
    {
        let g = loss.graph();
        let variables = g.trainable_variables();
        let found = self.optimizer.compute_gradients(loss, &variables);
        self.apply_gradients(g, &found, global_step)
    }

    /// Like [`SyncReplicas::minimize`], with these gradients.
    #[track_caller]
    pub fn apply_gradients<'g>(
        &self,
        g: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        global_step: Variable<'g>,
    ) -> Synchronized<'g>
    where
        O: Optimizer<'g>,
    {
        g.at_caller(|| g.name_scope("SyncReplicas", || self.build(g, gradients, global_step)))
    }

    /// Builds the training in the current scope.
    fn build<'g>(
        &self,
        g: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        global_step: Variable<'g>,
    ) -> Synchronized<'g>
    where
        O: Optimizer<'g>,
    {
        let number = |name: &str| g.placeholder(name, DType::I64, Shape::scalar());
        let (token, next_token) = (number("token"), number("next_token"));
        let ticket = number("ticket");
        let sums: Vec<TurnSum<'g>> = gradients
            .iter()
            .map(|&(gradient, variable)| {
                variable.colocate(|| TurnSum::new(variable, gradient, [token, ticket]))
            })
            .collect();
        let means: Vec<(Output<'g>, Variable<'g>)> =
            sums.iter().map(|s| (s.mean, s.variable)).collect();
        let update = self.optimizer.apply_gradients(g, &means, Some(global_step));
        let handle = global_step.handle();
        let name = match handle.is_invalid() {
            true => String::new(),
            false => handle.operation().name(),
        };
        let split = g.name_scope("commit", || two_phase_update::split(update, token, &name));
        let phases = split.unwrap_or_else(|reason| {
            g.report("SyncReplicas", "SyncReplicas", Reason::Argument(reason));
            two_phase_update::TwoPhaseUpdate::default()
        });
        let begin = |token: Output<'g>| {
            let begin = |s: &TurnSum<'g>| s.variable.colocate(|| s.begin(token));
            sums.iter().map(begin).collect::<Vec<_>>()
        };
        let next = begin(next_token);
        let coordinator = (g.snapshot().get(handle.id().node))
            .map_or_else(DeviceSpec::default, |node| node.device.clone());
        Synchronized {
            name,
            workers: self.workers,
            aggregate: self.aggregate,
            token,
            next_token,
            ticket,
            ready: g.all_initialized(),
            refresh: None,
            begin: begin(token),
            give: g.group("give", sums.iter().map(|s| s.give)),
            prepare: g.group("prepare", phases.prepare),
            commit: phases.commit.into_iter().chain(next).collect(),
            global_step,
            coordinator,
        }
    }
}

/// Sum of the gradients of one variable.
struct TurnSum<'g> {
    variable: Variable<'g>,
    handle: Output<'g>,
    give: Operation<'g>,
    mean: Output<'g>,
}

impl<'g> TurnSum<'g> {
    #[track_caller]
    fn new(
        variable: Variable<'g>,
        gradient: Output<'g>,
        [token, ticket]: [Output<'g>; 2],
    ) -> TurnSum<'g> {
        let g = gradient.graph();
        let (dtype, shape) = (gradient.dtype(), variable.value().shape());
        let name = variable.handle().operation().name();
        let handle = g
            .op("_TurnSum")
            .attr("dtype", dtype)
            .attr("shape", shape.clone())
            .attr("shared_name", format!("sync/{name}"))
            .output();
        let give = g.op("_TurnGive").inputs([handle, token, ticket, gradient]);
        let mean = g.op("_TurnMean").inputs([handle, token]);
        TurnSum {
            variable,
            handle,
            give: give.build(),
            mean: mean.attr("dtype", dtype).attr("shape", shape).output(),
        }
    }

    /// Begins the turn of this token.
    #[track_caller]
    fn begin(&self, token: Output<'g>) -> Operation<'g> {
        let g = token.graph();
        g.op("_TurnBegin").inputs([self.handle, token]).build()
    }
}
