//! Elastic training: it continues when ranks are lost, and admits new ones.
//!
//! [`run`] calls a function once for each *round*: a job of a fixed number of ranks. The function builds its graph and
//! session, and trains. Every few steps it *commits*: each rank keeps a copy of all variables. When a rank is lost, the
//! others return to [`run`] with an error, and the next round begins with the last commit. When new ranks wait, a
//! commit ends the round, and nothing is lost.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_hvd::elastic;
//! use thalweg_ops::{MathOps, NewGraph, ReduceOps, StateOps};
//! use thalweg_session::{Session, SessionOptions};
//! use thalweg_train::hooks::StopAtStepHook;
//! use thalweg_optim::{GradientDescent, Optimizer, create_global_step};
//! use thalweg_train::{MonitoredTrainingSession, TrainError};
//!
//! // `thalweg launch hvd -np 4 --min-np 1` starts it on some ranks; without it, this is the only one.
//! let steps = elastic::run(|job| {
//!     let hvd = job.hvd().clone();
//!     let g = Graph::new();
//!     let step = create_global_step(&g);
//!     let loss = g.variable("w", [3.0f32, 4.0]).value().square().sum();
//!     let train = hvd.distributed(GradientDescent::new(0.1)).minimize_counting(loss, step);
//!     let options = hvd.session(SessionOptions::new());
//!     let mut session = MonitoredTrainingSession::new(&g)
//!         .quiet()
//!         // Begins with what was committed last, and commits after every tenth step.
//!         .hook(job.hook(10))
//!         .hook(StopAtStepHook::last_step(25))
//!         .start(|| Session::with_options(&g, options.clone()))?;
//!     let mut steps = 0;
//!     while !session.should_stop() {
//!         session.run(train, [])?;
//!         steps += 1;
//!     }
//!     session.close()?;
//!     Ok::<_, TrainError>(steps)
//! })?;
//! assert_eq!(steps, 25);
//! # Ok::<(), TrainError>(())
//! ```

mod hook;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_collective::elastic::Worker;
use thalweg_collective::{CollectiveError, Join, ReduceOp};
use thalweg_ops::Variable;
use thalweg_tensor::Tensor;
use thalweg_train::{StepFailure, Steps, TrainError, values};

use crate::error::HvdError;
use crate::ranks::{Hvd, broadcast};
pub use hook::ElasticHook;
use state::Committed;

/// Largest number of consecutive rounds that are lost before their ranks have met.
const TRIES: usize = 20;

/// Runs `train` once for each round, until it is done or fails.
///
/// In a job that is not elastic, as without a launcher, there is one round.
///
/// # Errors
/// Errors of `train`, unless a lost rank or a new one caused them; the job is over, or its ranks do not meet.
pub fn run<T, E: From<TrainError>>(
    train: impl FnMut(&mut Elastic) -> Result<T, E>,
) -> Result<T, E> {
    let worker = Worker::from_env().map_err(|e| failed(e.into()))?;
    run_as(worker, train)
}

/// Like [`run`], as this worker of a job.
///
/// # Errors
/// As for [`run`].
pub fn run_as<T, E: From<TrainError>>(
    worker: Option<Worker>,
    mut train: impl FnMut(&mut Elastic) -> Result<T, E>,
) -> Result<T, E> {
    let shared = Arc::new(Shared {
        worker,
        state: Mutex::default(),
    });
    loop {
        let mut job = Elastic::meet(&shared).map_err(failed)?;
        let result = train(&mut job);
        let interrupted = std::mem::take(&mut shared.state().interrupted);
        let again = interrupted || job.hvd.lost_others();
        drop(job);
        match result {
            Err(_) if again && shared.worker.is_some() => {}
            Ok(value) => {
                if let Some(worker) = &shared.worker {
                    worker.report_done();
                }
                return Ok(value);
            }
            error => return error,
        }
    }
}

fn failed(error: HvdError) -> TrainError {
    TrainError::step(StepFailure::Other, error)
}

/// State that outlives a round.
struct Shared {
    worker: Option<Worker>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    committed: Committed,
    /// `true` if the round ends so that others can join.
    interrupted: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One round of an elastic job, on one of its ranks.
pub struct Elastic {
    hvd: Hvd,
    round: u64,
    shared: Arc<Shared>,
}

impl Elastic {
    /// Meets the ranks of the next round; retries if a rank is lost meanwhile.
    fn meet(shared: &Arc<Shared>) -> Result<Elastic, HvdError> {
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
                )) if tries < TRIES => {}
                other => return other,
            }
        }
    }

    fn with(shared: &Arc<Shared>, round: u64, join: &Join) -> Result<Elastic, HvdError> {
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

    /// Creates a hook that restores the variables from the last commit when a session was created, and commits after
    /// every `n` steps.
    pub fn hook(&self, every: u64) -> ElasticHook {
        ElasticHook::new(self.part(), every)
    }

    /// The same round for a hook.
    fn part(&self) -> Elastic {
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
        let waits = self.hvd.allreduce(waits, ReduceOp::Max).map_err(failed)?;
        if waits.to_scalar::<i32>()? == 0 {
            return Ok(());
        }
        self.shared.state().interrupted = true;
        Err(failed(HvdError::OthersWait))
    }
}

/// Reads the values of all variables of a session, by name.
fn variables(session: &dyn Steps) -> Result<BTreeMap<String, Tensor>, TrainError> {
    let all = session.graph().variables();
    let handles: Vec<_> = all.iter().map(|v| v.handle).collect();
    let values = values::read(session, &handles)?;
    let names = all.iter().map(|v| v.name.clone());
    Ok(names.zip(values).collect())
}
