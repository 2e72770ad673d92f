//! The steps of one process.

#[cfg(feature = "cluster")]
use thalweg_dist::{ClusterError, Server, Session as ClusterSession, sync};
use thalweg_session::{Feed, FetchesAs, Session, SessionError};
use thalweg_train::{MonitoredSession, TrainError};

use crate::training::Training;

type MakeAlone<'p, 'g> = Box<dyn FnMut() -> Result<Session<'g>, SessionError> + 'p>;
#[cfg(feature = "cluster")]
pub(crate) type MakeOnTask<'p, 'g> =
    Box<dyn FnMut() -> Result<ClusterSession<'g>, ClusterError> + 'p>;

/// What steps are run with.
#[allow(clippy::large_enum_variant, reason = "there is one for each process")]
pub(crate) enum Steps<'p, 'g> {
    Alone(MonitoredSession<Session<'g>, MakeAlone<'p, 'g>>),
    #[cfg(feature = "cluster")]
    Task {
        server: &'p Server,
        worker: u32,
        session: MonitoredSession<ClusterSession<'g>, MakeOnTask<'p, 'g>>,
    },
}

/// A training that has begun: see [`Process::start`](crate::Process::start).
pub struct Run<'p, 'g> {
    training: &'p Training<'g>,
    /// None when it was closed.
    steps: Option<Steps<'p, 'g>>,
}

impl<'p, 'g> Run<'p, 'g> {
    pub(crate) fn new(training: &'p Training<'g>, steps: Steps<'p, 'g>) -> Run<'p, 'g> {
        Run {
            training,
            steps: Some(steps),
        }
    }

    /// Runs a training step, and gives what is fetched with it and the global step before its update; none where the
    /// training is over. A task that is lost is waited for.
    ///
    /// # Errors
    /// As [`MonitoredSession::run`].
    pub fn step<R>(
        &mut self,
        fetches: impl FetchesAs<R> + Sync,
        feeds: impl AsRef<[Feed<'g>]>,
    ) -> Result<Option<(R, i64)>, TrainError> {
        let (training, feeds) = (self.training, feeds.as_ref());
        let all = (training.step, fetches, training.global_step);
        let done = |done: Option<((), R, i64)>| done.map(|(_, values, step)| (values, step));
        match self.steps.as_mut().ok_or(TrainError::Closed)? {
            Steps::Alone(session) => session.run(all, feeds).map(done),
            #[cfg(feature = "cluster")]
            Steps::Task {
                worker, session, ..
            } => match &training.synchronized {
                None => session.run(all, feeds).map(done),
                Some(synchronized) => {
                    let give = |s: &ClusterSession<'g>| {
                        sync::give(s, synchronized, *worker, &all.1, feeds)
                    };
                    session.run_step_fn(give)
                }
            },
        }
    }

    /// Fetches values, and trains nothing.
    ///
    /// # Errors
    /// As [`MonitoredSession::run`].
    pub fn fetch<R>(
        &mut self,
        fetches: impl FetchesAs<R> + Sync,
        feeds: impl AsRef<[Feed<'g>]>,
    ) -> Result<R, TrainError> {
        let feeds = feeds.as_ref();
        match self.steps.as_mut().ok_or(TrainError::Closed)? {
            Steps::Alone(session) => Ok(session.session().run(fetches, feeds)?),
            #[cfg(feature = "cluster")]
            Steps::Task { session, .. } => Ok(session.session().run(fetches, feeds)?),
        }
    }

    /// Ends it: the last checkpoint is saved, and servers hear that this worker is done.
    ///
    /// # Errors
    /// What is wrong with the last checkpoint or a hook.
    pub fn close(mut self) -> Result<(), TrainError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), TrainError> {
        match self.steps.take() {
            None => Ok(()),
            Some(Steps::Alone(session)) => session.close(),
            #[cfg(feature = "cluster")]
            Some(Steps::Task {
                server, session, ..
            }) => {
                let closed = session.close();
                server.finish("ps");
                closed
            }
        }
    }
}

impl Drop for Run<'_, '_> {
    /// Servers do not wait for a worker that has failed. What is wrong then is known already.
    fn drop(&mut self) {
        #[cfg(feature = "cluster")]
        if let Some(Steps::Task { server, .. }) = self.steps.take() {
            server.finish("ps");
        }
    }
}
