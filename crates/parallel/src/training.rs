//! What was built.

use std::path::Path;

use thalweg_graph::{Operation, Output};
use thalweg_ops::Variable;
use thalweg_optim::Synchronized;
use thalweg_session::{Fetch, RunOptions};
use thalweg_train::{Saver, Scaffold, Steps, TrainError};

/// A model that trains on all devices of this process.
#[derive(Clone, Debug)]
pub struct Training<'g> {
    /// The steps of all workers together.
    pub global_step: Variable<'g>,
    /// The mean of the towers' losses.
    pub loss: Output<'g>,
    /// With what the decay of weights adds to it.
    pub total_loss: Output<'g>,
    /// A step of this process. Where workers train in step it gives gradients to a turn, and is run by
    /// `thalweg_dist::sync::give`.
    pub step: Operation<'g>,
    /// Where the workers of a cluster train in step.
    pub synchronized: Option<Synchronized<'g>>,
    /// The gradients that an update of this process has, each with the variable that it updates.
    pub gradients: Vec<(Output<'g>, Variable<'g>)>,
    /// The learning of each tower: its variables, in the order of the first tower's.
    pub towers: Vec<Vec<Variable<'g>>>,
    /// What each variable that is saved is called in a checkpoint.
    pub saved: Vec<(String, Variable<'g>)>,
    /// Give first values to what all processes share, or else all that is saved.
    pub(crate) first: Vec<Operation<'g>>,
    /// Give values to what each process has for itself, when those have values.
    pub(crate) own: Vec<Operation<'g>>,
    /// Whether what is shared and saved has values.
    pub(crate) ready: Output<'g>,
    /// Where workers wait for each other.
    pub(crate) arrivals: Option<Arrivals<'g>>,
}

/// A number that workers of a cluster count up when they have come somewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals<'g> {
    pub(crate) arrive: Operation<'g>,
    pub(crate) arrived: Variable<'g>,
}

impl<'g> Training<'g> {
    /// What a [monitored session](thalweg_train::MonitoredTrainingSession) of it needs: first values, the values of
    /// copies, and what is saved. `saver` is [`Training::saver`], with options; `chief` is whether the process gives
    /// variables their values.
    pub fn scaffold(&self, saver: Saver, chief: bool) -> Scaffold {
        // No checkpoint has this number, and no worker begins before it has a value.
        let counts = self.arrivals.filter(|_| chief);
        let counts = counts.map(|a| a.arrived.initializer());
        Scaffold::new()
            .init(self.first.iter().copied())
            .local_init(self.own.iter().copied().chain(counts))
            .ready(self.ready)
            .saver(saver)
    }

    /// Saves the variables of the first tower, or of the servers, under the names that they have in one process.
    pub fn saver(&self) -> Saver {
        let graph = self.loss.graph();
        Saver::of(graph, self.saved.iter().map(|(name, v)| (name.clone(), *v)))
    }

    /// Gives all variables their first values: for a session without a scaffold.
    ///
    /// # Errors
    /// As a step.
    pub fn initialize(&self, session: &dyn Steps) -> Result<(), TrainError> {
        run(session, &self.first)?;
        let counts = self.arrivals.map(|a| a.arrived.initializer());
        run(session, counts.as_slice())?;
        run(session, &self.own)
    }

    /// Gives all variables the values of a checkpoint of the same model, also one of another
    /// [`VariableUpdate`](crate::VariableUpdate) with the same names.
    ///
    /// # Errors
    /// What is wrong with the checkpoint.
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
