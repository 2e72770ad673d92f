//! Training: the result of DataParallel::build.

use std::path::Path;

use thalweg_graph::{Operation, Output};
use thalweg_ops::Variable;
use thalweg_optim::Synchronized;
use thalweg_session::{Fetch, RunOptions};
use thalweg_train::{Saver, Scaffold, Steps, TrainError};

/// A model that trains on all devices of this process.
#[derive(Clone, Debug)]
pub struct Training<'g> {
    /// The global step, over all workers.
    pub global_step: Variable<'g>,
    /// Mean of the towers' losses.
    pub loss: Output<'g>,
    /// Loss with the weight decay.
    pub total_loss: Output<'g>,
    /// A training step of this process. In synchronous training it gives gradients to a turn, and
    /// `thalweg_dist::sync::give` runs it.
    pub step: Operation<'g>,
    /// Nodes of synchronous training of the workers of a cluster.
    pub synchronized: Option<Synchronized<'g>>,
    /// Gradients of an update of this process, each with its variable.
    pub gradients: Vec<(Output<'g>, Variable<'g>)>,
    /// Trained variables of each tower, in the order of the first tower's.
    pub towers: Vec<Vec<Variable<'g>>>,
    /// Saved variables, by their names in a checkpoint.
    pub saved: Vec<(String, Variable<'g>)>,
    /// Initializers of the variables that all processes share, or else of all saved ones.
    pub(crate) first: Vec<Operation<'g>>,
    /// Initialize the variables of each process, after the shared ones.
    pub(crate) own: Vec<Operation<'g>>,
    /// `true` if shared and saved variables have values.
    pub(crate) ready: Output<'g>,
    /// Barrier of workers.
    pub(crate) arrivals: Option<WorkerBarrier<'g>>,
}

/// A counter that workers of a cluster increment when they reach a barrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerBarrier<'g> {
    pub(crate) arrive: Operation<'g>,
    pub(crate) arrived: Variable<'g>,
}

impl<'g> Training<'g> {
    /// Scaffold of a [monitored session](thalweg_train::MonitoredTrainingSession): initialization, copies, and saved
    /// variables. `saver` is [`Training::saver`], with options; `chief` is `true` for the process that initializes
    /// variables.
    pub fn scaffold(&self, saver: Saver, chief: bool) -> Scaffold {
        // No checkpoint has this counter, and no worker begins before it has a value.
        let counts = self.arrivals.filter(|_| chief);
        let counts = counts.map(|a| a.arrived.initializer());
        Scaffold::new()
            .init(self.first.iter().copied())
            .local_init(self.own.iter().copied().chain(counts))
            .ready(self.ready)
            .saver(saver)
    }

    /// Creates a saver of the variables of the first tower, or of the servers, under the names that they have in one
    /// process.
    pub fn saver(&self) -> Saver {
        let graph = self.loss.graph();
        Saver::of(graph, self.saved.iter().map(|(name, v)| (name.clone(), *v)))
    }

    /// Initializes all variables: for a session without a scaffold.
    ///
    /// # Errors
    /// Errors of a step.
    pub fn initialize(&self, session: &dyn Steps) -> Result<(), TrainError> {
        run(session, &self.first)?;
        let counts = self.arrivals.map(|a| a.arrived.initializer());
        run(session, counts.as_slice())?;
        run(session, &self.own)
    }

    /// Restores all variables from a checkpoint of the same model, also one of another
    /// [`VariableUpdate`](crate::VariableUpdate) with the same names.
    ///
    /// # Errors
    /// Errors of the checkpoint.
    pub fn restore(&self, session: &dyn Steps, prefix: impl AsRef<Path>) -> Result<(), TrainError> {
        run(session, &self.first)?;
        self.saver().restore(session, prefix)?;
        run(session, &self.own)
    }
}

fn run(session: &dyn Steps, nodes: &[Operation<'_>]) -> Result<(), TrainError> {
    if nodes.is_empty() {
        return Ok(());
    }
    let run: Vec<_> = nodes.iter().map(|n| Fetch::Run(n.id())).collect();
    let done = session.run_step(&run, &[], &RunOptions::default());
    done.map(|_| ())
}
