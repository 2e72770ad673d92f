//! TrainingRun: the steps of one process.

use std::time::{Duration, Instant};

#[cfg(feature = "cluster")]
use thalweg_dist::{ClusterError, Server, Session as ClusterSession, sync};
use thalweg_hvd::Hvd;
use thalweg_session::{Feed, FetchesAs, RunOptions, Session, SessionError, Trace};
#[cfg(feature = "cluster")]
use thalweg_tensor::{Tensor, dispatch};
use thalweg_train::{MonitoredSession, StepFailure, TrainError};

use crate::error::ParallelError;
use crate::training::Training;

/// Poll interval of the barrier of workers.
const BARRIER_POLL_INTERVAL: Duration = Duration::from_millis(5);

type MakeAlone<'p, 'g> = Box<dyn FnMut() -> Result<Session<'g>, SessionError> + 'p>;
#[cfg(feature = "cluster")]
pub(crate) type MakeOnTask<'p, 'g> =
    Box<dyn FnMut() -> Result<ClusterSession<'g>, ClusterError> + 'p>;

/// The monitored session that runs the steps.
#[allow(clippy::large_enum_variant, reason = "there is one for each process")]
pub(crate) enum MonitoredSteps<'p, 'g> {
    Alone(MonitoredSession<Session<'g>, MakeAlone<'p, 'g>>),
    #[cfg(feature = "cluster")]
    Task {
        server: &'p Server,
        worker: u32,
        session: MonitoredSession<ClusterSession<'g>, MakeOnTask<'p, 'g>>,
    },
}

/// A started training: see [`Process::start`](crate::Process::start).
pub struct TrainingRun<'p, 'g> {
    training: &'p Training<'g>,
    /// `None` after it was closed.
    steps: Option<MonitoredSteps<'p, 'g>>,
    /// Number of barriers so far.
    waits: i64,
    /// Its job of ranks.
    ranks: Option<Hvd>,
}

impl<'p, 'g> TrainingRun<'p, 'g> {
    pub(crate) fn new(
        training: &'p Training<'g>,
        steps: MonitoredSteps<'p, 'g>,
        ranks: Option<Hvd>,
    ) -> TrainingRun<'p, 'g> {
        TrainingRun {
            training,
            steps: Some(steps),
            waits: 0,
            ranks,
        }
    }

    /// Runs a training step. Returns the fetched values and the global step before its update; `None` if the training
    /// is over. Waits for a task that is lost.
    ///
    /// # Errors
    /// As for [`MonitoredSession::run`].
    pub fn step<R>(
        &mut self,
        fetches: impl FetchesAs<R> + Sync,
        feeds: impl AsRef<[Feed<'g>]>,
    ) -> Result<Option<(R, i64)>, TrainError> {
        let (training, feeds) = (self.training, feeds.as_ref());
        match self.steps.as_mut().ok_or(TrainError::Closed)? {
            MonitoredSteps::Alone(session) => {
                let all = (training.step, fetches, training.global_step);
                let done = session.run::<((), R, i64)>(all, feeds)?;
                Ok(done.map(|((), values, step)| (values, step)))
            }
            #[cfg(feature = "cluster")]
            MonitoredSteps::Task {
                server,
                worker,
                session,
            } => {
                let values = (fetches, training.loss);
                let done = match &training.synchronized {
                    None => {
                        let all = (training.step, values, training.global_step);
                        let done = session.run::<((), (R, Tensor), i64)>(all, feeds)?;
                        done.map(|((), values, step)| (values, step))
                    }
                    Some(synchronized) => session.run_step_fn(|s| {
                        sync::give::<(R, Tensor)>(s, synchronized, *worker, &values, feeds)
                    })?,
                };
                Ok(done.map(|((values, loss), step)| {
                    server.training().record(scalar(&loss), step);
                    (values, step)
                }))
            }
        }
    }

    /// The session; another one after a task was lost.
    ///
    /// # Errors
    /// [`TrainError::Closed`].
    pub fn session(&self) -> Result<&dyn thalweg_train::Steps, TrainError> {
        match self.steps.as_ref().ok_or(TrainError::Closed)? {
            MonitoredSteps::Alone(session) => Ok(session.session()),
            #[cfg(feature = "cluster")]
            MonitoredSteps::Task { session, .. } => Ok(session.session()),
        }
    }

    /// Fetches values without training.
    ///
    /// # Errors
    /// As for [`MonitoredSession::run`].
    pub fn fetch<R>(
        &mut self,
        fetches: impl FetchesAs<R> + Sync,
        feeds: impl AsRef<[Feed<'g>]>,
    ) -> Result<R, TrainError> {
        let feeds = feeds.as_ref();
        match self.steps.as_mut().ok_or(TrainError::Closed)? {
            MonitoredSteps::Alone(session) => Ok(session.session().run(fetches, feeds)?),
            #[cfg(feature = "cluster")]
            MonitoredSteps::Task { session, .. } => Ok(session.session().run(fetches, feeds)?),
        }
    }

    /// Runs a training step, and records its trace.
    ///
    /// # Errors
    /// As for [`Session::step`].
    pub fn traced(&mut self, feeds: impl AsRef<[Feed<'g>]>) -> Result<Trace, TrainError> {
        let (training, feeds) = (self.training, feeds.as_ref());
        let options = RunOptions::new().traced();
        match self.steps.as_mut().ok_or(TrainError::Closed)? {
            MonitoredSteps::Alone(session) => {
                let traced = session.session().step_with(training.step, feeds, &options);
                Ok(traced?.1)
            }
            #[cfg(feature = "cluster")]
            MonitoredSteps::Task {
                worker, session, ..
            } => {
                let session = session.session();
                let Some(all) = &training.synchronized else {
                    return Ok(session.step_with(training.step, feeds, &options)?.1);
                };
                let (loss, worker) = (training.loss, *worker);
                let given = sync::give_with::<f32>(session, all, worker, loss, feeds, &options)?;
                Ok(given.map_or_else(Trace::default, |(_, _, trace)| trace))
            }
        }
    }

    /// Barrier: waits until all workers, or ranks, have called this as often as this one. Returns immediately in a
    /// process that is alone.
    ///
    /// # Errors
    /// As for [`MonitoredSession::run`]; [`ParallelError::Absent`] if others are not there after `most`.
    pub fn wait_for_workers(&mut self, workers: u32, most: Duration) -> Result<(), TrainError> {
        if let Some(hvd) = &self.ranks {
            let met = hvd.barrier();
            return met.map_err(|e| TrainError::step(StepFailure::Other, e));
        }
        let Some(arrivals) = self.training.arrivals else {
            return Ok(());
        };
        self.waits += 1;
        let wanted = i64::from(workers) * self.waits;
        self.fetch::<()>(arrivals.arrive, [])?;
        let began = Instant::now();
        loop {
            let arrived: i64 = self.fetch(arrivals.arrived, [])?;
            if arrived >= wanted {
                return Ok(());
            }
            if began.elapsed() >= most {
                let absent = ParallelError::Absent {
                    missing: wanted - arrived,
                    workers,
                    waited: began.elapsed(),
                };
                return Err(TrainError::step(StepFailure::Other, absent));
            }
            std::thread::sleep(BARRIER_POLL_INTERVAL);
        }
    }

    /// Ends the training: saves the last checkpoint, and notifies servers that this worker is done.
    ///
    /// # Errors
    /// Errors of the last checkpoint or a hook.
    pub fn close(mut self) -> Result<(), TrainError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), TrainError> {
        match self.steps.take() {
            None => Ok(()),
            Some(MonitoredSteps::Alone(session)) => session.close(),
            #[cfg(feature = "cluster")]
            Some(MonitoredSteps::Task {
                server, session, ..
            }) => {
                let closed = session.close();
                server.finish("ps");
                closed
            }
        }
    }
}

/// The number in a loss; NaN if it is none.
#[cfg(feature = "cluster")]
#[allow(clippy::useless_conversion, reason = "one of the types is f64")]
fn scalar(loss: &Tensor) -> f64 {
    dispatch!(
        loss.dtype(),
        [F16 BF16 F32 F64],
        T => loss.to_scalar::<T>().map_or(f64::NAN, f64::from),
        else f64::NAN
    )
}

impl Drop for TrainingRun<'_, '_> {
    /// Servers must not wait for a failed worker. Its error is known already.
    fn drop(&mut self) {
        #[cfg(feature = "cluster")]
        if let Some(MonitoredSteps::Task { server, .. }) = self.steps.take() {
            server.finish("ps");
        }
    }
}
