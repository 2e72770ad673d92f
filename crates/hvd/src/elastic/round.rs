//! Elastic: one round of an elastic job.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_collective::elastic::Worker;
use thalweg_collective::{CollectiveError, Join, ReduceOp};
use thalweg_ops::Variable;
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;
use thalweg_train::{Steps, TrainError, values};

use super::state::Committed;
use crate::broadcast::broadcast;
use crate::error::HvdError;
use crate::ranks::Hvd;

/// Largest number of consecutive rounds that are lost before their ranks have met.
const MAX_LOST_ROUNDS: usize = 20;

/// State that outlives a round.
pub(super) struct ElasticState {
    pub(super) worker: Option<Worker>,
    pub(super) state: Mutex<RoundState>,
}

#[derive(Default)]
pub(super) struct RoundState {
    pub(super) committed: Committed,
    /// `true` if the round ends so that others can join.
    pub(super) interrupted: bool,
}

impl ElasticState {
    pub(super) fn state(&self) -> MutexGuard<'_, RoundState> {
        self.state.lock().unpoisoned()
    }
}

/// One round of an elastic job, on one of its ranks.
pub struct Elastic {
    hvd: Hvd,
    round: u64,
    shared: Arc<ElasticState>,
}

impl Elastic {
    /// Meets the ranks of the next round; retries if a rank is lost meanwhile.
    pub(super) fn meet(shared: &Arc<ElasticState>) -> Result<Elastic, HvdError> {
        let Some(worker) = &shared.worker else {
            return Elastic::with(shared, 1, &Join::from_env()?);
        };
        let mut tries = 0;
        loop {
            let commits = shared.state().committed.last().number;
            let place = worker.ready(commits)?;
            tries += 1;
            match Elastic::with(shared, place.round, &place.join) {
                Err(HvdError::Collective(
                    CollectiveError::Lost { .. }
                    | CollectiveError::Late { .. }
                    | CollectiveError::Ended(_)
                    | CollectiveError::Rendezvous(_),
                )) if tries < MAX_LOST_ROUNDS => {}
                other => return other,
            }
        }
    }

    fn with(shared: &Arc<ElasticState>, round: u64, join: &Join) -> Result<Elastic, HvdError> {
        let hvd = Hvd::meet(join)?;
        let last = shared.state().committed.last().clone();
        // Rank 0 has the newest commit.
        let told = last.told(&hvd, 0)?;
        shared.state().committed.learn(told);
        Ok(Elastic {
            hvd,
            round,
            shared: shared.clone(),
        })
    }

    /// This process as a rank of the round.
    pub fn hvd(&self) -> &Hvd {
        &self.hvd
    }

    /// Number of the round, from 1 on.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Number of commits of the job.
    pub fn commits(&self) -> u64 {
        self.shared.state().committed.number()
    }

    /// A number of the program that is committed too, such as its position in the input; `None` if it was never set. A
    /// name has no line breaks.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.shared.state().committed.get(name)
    }

    /// Sets a number, which the next commit keeps.
    pub fn set_number(&mut self, name: &str, value: i64) {
        self.shared.state().committed.set(name, value);
    }

    /// The same round for a hook.
    pub(super) fn part(&self) -> Elastic {
        Elastic {
            hvd: self.hvd.clone(),
            round: self.round,
            shared: self.shared.clone(),
        }
    }

    /// Restores all variables of a session from the last commit, and broadcasts those of rank 0. Call it once in a
    /// round, after the variables were initialized.
    ///
    /// # Errors
    /// A variable has another dtype or shape than before; the error that ended the round.
    pub fn begin(&self, session: &dyn Steps) -> Result<(), TrainError> {
        let graph = session.graph();
        let all = graph.variables();
        if self.hvd.rank() == 0 {
            let committed = self.shared.state().committed.last().variables.clone();
            let known = all.iter().filter_map(|v| {
                let value = committed.get(&v.name)?;
                Some((v.handle, value.clone()))
            });
            values::assign(session, known)?;
        }
        let all: Vec<Variable<'_>> = all.iter().map(|v| Variable::of(graph, v)).collect();
        let given = graph.extend(|| broadcast(graph, &all, 0)).id();
        let fetch = [thalweg_session::Fetch::Run(given)];
        session.run_step(&fetch, &[], &thalweg_session::RunOptions::new())?;
        // Every rank has the commit now.
        let values = variables(session)?;
        self.shared.state().committed.begin(values);
        Ok(())
    }

    /// Commits the values of all variables. All ranks must call it after the same step.
    ///
    /// # Errors
    /// [`HvdError::OthersWait`] as the source if the round ends so that ranks can join or leave: return it. The error
    /// that ended the round.
    pub fn commit(&self, session: &dyn Steps) -> Result<(), TrainError> {
        let values = variables(session)?;
        self.shared.state().committed.keep(values);
        self.check()
    }

    /// Checks for waiting ranks without a commit: if there are any, the work since the last commit is lost.
    ///
    /// # Errors
    /// As for [`Elastic::commit`].
    pub fn check(&self) -> Result<(), TrainError> {
        let Some(worker) = &self.shared.worker else {
            return Ok(());
        };
        // Ranks learn of it at different times, and must end the round after the same step.
        let waits = Tensor::scalar(i32::from(worker.others_wait()));
        let waits = self
            .hvd
            .allreduce(waits, ReduceOp::Max)
            .map_err(HvdError::into_train_error)?;
        if waits.to_scalar::<i32>()? == 0 {
            return Ok(());
        }
        self.shared.state().interrupted = true;
        Err(HvdError::OthersWait.into_train_error())
    }
}

/// Reads the values of all variables of a session, by name.
fn variables(session: &dyn Steps) -> Result<BTreeMap<String, Tensor>, TrainError> {
    values::check_declared(session.graph())?;
    let all = session.graph().variables();
    let handles: Vec<_> = all.iter().map(|v| v.handle).collect();
    let values = values::read(session, &handles)?;
    let names = all.iter().map(|v| v.name.clone());
    Ok(names.zip(values).collect())
}
