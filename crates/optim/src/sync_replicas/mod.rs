//! Synchronous training: workers give gradients, and one update applies the mean of as many as are asked for.
//!
//! A task of the cluster coordinates: see `thalweg_dist::sync`. It hands out turns. A turn has a token, which no other
//! turn has, and as many tickets as gradients are wanted. Each variable has a sum of gradients, which takes one
//! gradient for a ticket of the current turn and drops all others. So a gradient may be given again when it is not
//! known whether it arrived.
//!
//! An update has two halves, so that it happens on all servers or on none. [`Synchronized::prepare`] computes all that
//! the update uses, and keeps it on the servers where it is used; it changes no variable. [`Synchronized::commit`]
//! writes the variables. It needs nothing from another server, so each server can do its part at once and to the end.

mod commit;

use thalweg_graph::{DeviceSpec, Graph, Operation, Output, Reason};
use thalweg_ops::{SourceOps, StateOps, Variable};
use thalweg_tensor::{DType, Shape};

use crate::optimizers::Optimizer;

/// Describes synchronous training, as TensorFlow's `SyncReplicasOptimizer`.
#[derive(Clone, Copy, Debug)]
pub struct SyncReplicas<O> {
    optimizer: O,
    workers: u32,
    aggregate: u32,
}

/// What was built for synchronous training. Every process that takes part builds it from the same graph,
/// and finds what the others have built by its names.
#[derive(Clone, Debug)]
pub struct Synchronized<'g> {
    /// What tells this training from others on the same servers: the name of the global step.
    pub name: String,
    /// The workers.
    pub workers: u32,
    /// How many gradients an update takes, at least.
    pub aggregate: u32,
    /// The token of the turn, a scalar `i64`: to be fed to [`Synchronized::begin`], [`Synchronized::give`],
    /// [`Synchronized::prepare`] and [`Synchronized::commit`].
    pub token: Output<'g>,
    /// The token of the turn after it, a scalar `i64`: to be fed to [`Synchronized::commit`].
    pub next_token: Output<'g>,
    /// The ticket of a gradient, a scalar `i64`: to be fed to [`Synchronized::give`].
    pub ticket: Output<'g>,
    /// Whether all variables of the graph have values, a scalar bool.
    pub ready: Output<'g>,
    /// Begin the first turn, on each server.
    pub begin: Vec<Operation<'g>>,
    /// What a worker does at the begin of its turn, before it computes gradients: it takes the values of a copy of its
    /// own from the servers, say. None where nothing was given; a program sets it.
    pub refresh: Option<Operation<'g>>,
    /// Computes gradients and gives them; those of a turn that is over are dropped.
    pub give: Operation<'g>,
    /// Computes what the update of a turn uses, and keeps it where it is used.
    pub prepare: Operation<'g>,
    /// Update the variables, add one to the global step, and begin the next turn. No server waits for another.
    pub commit: Vec<Operation<'g>>,
    /// The global step.
    pub global_step: Variable<'g>,
    /// The device of the global step: its task coordinates.
    pub coordinator: DeviceSpec,
}

impl<O> SyncReplicas<O> {
    /// For so many workers, by an optimizer that updates with the mean of their gradients.
    pub fn new(optimizer: O, workers: u32) -> SyncReplicas<O> {
        SyncReplicas {
            optimizer,
            workers,
            aggregate: workers.max(1),
        }
    }

    /// How many gradients an update takes, at least 1: with fewer than there are workers, the slowest are
    /// not waited for; with more, workers give several.
    pub fn aggregate(self, gradients: u32) -> SyncReplicas<O> {
        SyncReplicas {
            aggregate: gradients.max(1),
            ..self
        }
    }

    /// Builds what trains `loss`. The sums of gradients stand beside their variables.
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

    /// As [`SyncReplicas::minimize`], with these gradients.
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

    /// Builds it in the scope of the caller.
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
        let sums: Vec<Sum<'g>> = gradients
            .iter()
            .map(|&(gradient, variable)| {
                variable.beside(|| Sum::new(variable, gradient, [token, ticket]))
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
        let split = g.name_scope("commit", || commit::split(update, token, &name));
        let halves = split.unwrap_or_else(|reason| {
            g.report("SyncReplicas", "SyncReplicas", Reason::Argument(reason));
            commit::Halves::default()
        });
        let begin = |token: Output<'g>| {
            let begin = |s: &Sum<'g>| s.variable.beside(|| s.begin(token));
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
            prepare: g.group("prepare", halves.prepare),
            commit: halves.commit.into_iter().chain(next).collect(),
            global_step,
            coordinator,
        }
    }
}

/// The sum of the gradients of one variable.
struct Sum<'g> {
    variable: Variable<'g>,
    handle: Output<'g>,
    give: Operation<'g>,
    mean: Output<'g>,
}

impl<'g> Sum<'g> {
    #[track_caller]
    fn new(
        variable: Variable<'g>,
        gradient: Output<'g>,
        [token, ticket]: [Output<'g>; 2],
    ) -> Sum<'g> {
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
        Sum {
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
