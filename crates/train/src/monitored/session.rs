//! MonitoredSession: runs steps with hooks.

use std::cell::Cell;
use std::time::Instant;

use thalweg_graph::OutputId;
use thalweg_session::{Feed, Fetch, FetchList, FetchesAs, RunOptions, Trace, Values};
use thalweg_tensor::Tensor;

use super::global_step_estimate::GlobalStepEstimate;
use super::recovery::Recovery;
use crate::error::{StepFailure, TrainError};
use crate::hooks::{AfterRun, BeforeRun, Context, SessionRunHook, step_of};
use crate::steps::Steps;

/// A hook, and the range of its fetches in a step.
pub(super) struct HookEntry {
    pub(super) hook: Box<dyn SessionRunHook>,
    pub(super) watches: bool,
    pub(super) fetches: std::ops::Range<usize>,
}

/// A session with hooks, which restores its variables after a failure: `tf.train.MonitoredSession`.
///
/// [`MonitoredTrainingSession`](crate::monitored::MonitoredTrainingSession) builds one.
pub struct MonitoredSession<S, M> {
    session: S,
    recovery: Recovery<M>,
    hooks: Vec<HookEntry>,
    stop: Cell<bool>,
    /// `true` if a step has failed: the hooks' `end` is then not called.
    failed: bool,
    fetches: Vec<Fetch>,
    feeds: Vec<(OutputId, Tensor)>,
    step_estimate: GlobalStepEstimate,
}

/// Creates the view of a session that hooks get.
fn context_of<'a, S: Steps, M>(
    session: &'a S,
    recovery: &'a Recovery<M>,
    stop: &'a Cell<bool>,
) -> Context<'a> {
    Context {
        session,
        global_step: recovery.global_step(),
        stop,
        log: recovery.log(),
    }
}

impl<S, M, E> MonitoredSession<S, M>
where
    S: Steps,
    M: FnMut() -> Result<S, E>,
    E: Into<TrainError>,
{
    /// Creates the session and starts the hooks.
    pub(super) fn start(
        mut recovery: Recovery<M>,
        mut hooks: Vec<HookEntry>,
        graph: &thalweg_graph::Graph,
    ) -> Result<Self, TrainError> {
        for entry in &mut hooks {
            entry.hook.begin(graph)?;
        }
        let session = recovery.session()?;
        let mut monitored = MonitoredSession {
            session,
            recovery,
            hooks,
            stop: Cell::new(false),
            failed: false,
            fetches: Vec::new(),
            feeds: Vec::new(),
            step_estimate: GlobalStepEstimate::default(),
        };
        monitored.after_create_session()?;
        Ok(monitored)
    }

    /// Calls the hooks for a new session, which is recreated if it is lost meanwhile.
    fn after_create_session(&mut self) -> Result<(), TrainError> {
        loop {
            let told = self.call_after_create_session();
            match told {
                Err(error) if error.failure() == StepFailure::Lost => {
                    self.recreate_session(&error)?
                }
                told => return told,
            }
        }
    }

    fn call_after_create_session(&mut self) -> Result<(), TrainError> {
        let context = context_of(&self.session, &self.recovery, &self.stop);
        let mut hooks = self.hooks.iter_mut();
        hooks.try_for_each(|h| h.hook.after_create_session(&context))
    }

    fn recreate_session(&mut self, error: &TrainError) -> Result<(), TrainError> {
        let log = self.recovery.log();
        log.line(&format!("the session is made again: {error}"));
        self.session = self.recovery.session()?;
        self.step_estimate = GlobalStepEstimate::default();
        Ok(())
    }

    /// The session; another one after a recovery.
    pub fn session(&self) -> &S {
        &self.session
    }

    /// `true` if the loop should end: a hook has requested it, or the input is exhausted.
    pub fn should_stop(&self) -> bool {
        self.stop.get() || self.failed
    }

    /// Requests the end of the loop.
    pub fn request_stop(&self) {
        self.stop.set(true);
    }

    /// Reads the global step; `None` if the graph has none.
    ///
    /// # Errors
    /// Errors of a step.
    pub fn global_step(&self) -> Result<Option<i64>, TrainError> {
        context_of(&self.session, &self.recovery, &self.stop).global_step()
    }

    /// Runs a step with the hooks. Returns the values in the requested type (see [`FetchesAs`]), and `None` if the
    /// training is over: a hook has requested it, or the input is exhausted.
    ///
    /// If a task is lost, it creates a new session, restores the newest checkpoint, and runs the step there.
    ///
    /// # Errors
    /// Errors of the step and of hooks, and [`TrainError::SessionTimeout`] if no session can be created in time.
    pub fn run<'f, R>(
        &mut self,
        fetches: impl FetchesAs<R>,
        feeds: impl AsRef<[Feed<'f>]>,
    ) -> Result<Option<R>, TrainError> {
        let feeds = feeds.as_ref();
        self.attempts(|monitored| monitored.attempt(&fetches, feeds).map(Some))
    }

    /// Like [`MonitoredSession::run`], for a step that `step` runs with the session: several steps, or one of
    /// `thalweg_dist::sync`. It returns `None` if the training is over. The fetches of hooks run in a step of their own
    /// after it.
    ///
    /// # Errors
    /// As for [`MonitoredSession::run`].
    pub fn run_step_fn<R, F>(
        &mut self,
        mut step: impl FnMut(&S) -> Result<Option<R>, F>,
    ) -> Result<Option<R>, TrainError>
    where
        F: Into<TrainError>,
    {
        self.attempts(|monitored| {
            let options = monitored.before_step()?;
            match step(&monitored.session).map_err(Into::into)? {
                Some(result) => {
                    let global_step = monitored.watched_step();
                    monitored.fetches.extend(global_step.map(Fetch::Value));
                    if !monitored.fetches.is_empty() {
                        let (values, trace) = monitored.ran(&options)?;
                        monitored.after_step(values, &trace, global_step, 1)?;
                    }
                    Ok(Some(result))
                }
                None => {
                    monitored.stop.set(true);
                    Ok(None)
                }
            }
        })
    }

    /// Attempts a step, and retries it after each recovery.
    fn attempts<R>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<Option<R>, TrainError>,
    ) -> Result<Option<R>, TrainError> {
        if self.failed {
            return Err(TrainError::Closed);
        }
        let mut lost_since: Option<Instant> = None;
        while !self.stop.get() {
            self.fetches.clear();
            self.feeds.clear();
            let lost = match attempt(self) {
                Err(error) if error.failure() == StepFailure::Lost => {
                    // A new session that fails immediately is no progress.
                    match lost_since {
                        None => lost_since = Some(Instant::now()),
                        Some(since) if since.elapsed() >= self.recovery.time_limit => {
                            self.failed = true;
                            return Err(TrainError::SessionTimeout {
                                waited: since.elapsed(),
                                why: error.to_string(),
                            });
                        }
                        Some(_) => std::thread::sleep(self.recovery.retry_interval),
                    }
                    error
                }
                Err(error) if error.failure() == StepFailure::OutOfRange => {
                    self.stop.set(true);
                    return Ok(None);
                }
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
                done => return done,
            };
            let recovered = self
                .recreate_session(&lost)
                .and_then(|()| self.after_create_session());
            self.failed = recovered.is_err();
            recovered?;
        }
        Ok(None)
    }

    /// Runs one step, with the hooks around it.
    fn attempt<R>(
        &mut self,
        fetches: &impl FetchesAs<R>,
        feeds: &[Feed<'_>],
    ) -> Result<R, TrainError> {
        let graph = self.session.graph();
        let list = FetchList::of(fetches, graph)?;
        let own = list.items().len();
        self.fetches.extend_from_slice(list.items());
        let feeds = Feed::all_of(feeds, graph)?;
        self.feeds.extend(feeds.map(|(o, t)| (o, t.clone())));
        let options = self.before_step()?;
        let global_step = self.watched_step();
        self.fetches.extend(global_step.map(Fetch::Value));
        let (values, trace) = self.ran(&options)?;
        let mut values = self.after_step(values, &trace, global_step, 0)?;
        values.truncate(own);
        let list = FetchList::of(fetches, self.session.graph())?;
        Ok(fetches.take(&mut Values::new(&list, values.into()))?)
    }

    fn ran(&self, options: &RunOptions) -> Result<(Vec<Option<Tensor>>, Trace), TrainError> {
        (self.session).run_step(&self.fetches, &self.feeds, options)
    }

    /// The global step, if a hook needs it of the next step. If other processes count it too, it is read each time.
    fn watched_step(&self) -> Option<OutputId> {
        let watching = self.hooks.iter().filter(|h| h.watches);
        let from = watching.map(|h| h.hook.needs_step_from()).min()?;
        let needed =
            from < i64::MAX && (self.session.is_shared() || self.step_estimate.may_reach(from));
        self.recovery.global_step().filter(|_| needed)
    }

    /// Adds the fetches and feeds of hooks.
    fn before_step(&mut self) -> Result<RunOptions, TrainError> {
        let mut options = RunOptions::new();
        for entry in self.hooks.iter_mut().filter(|h| h.watches) {
            let first = self.fetches.len();
            entry.hook.before_run(&mut BeforeRun {
                fetches: &mut self.fetches,
                feeds: &mut self.feeds,
                options: &mut options,
                graph: self.session.graph(),
            })?;
            entry.fetches = first..self.fetches.len();
        }
        Ok(options)
    }

    /// Calls hooks after a step. The last value is the global step, if it was fetched: `made` steps after the one that
    /// the step began from.
    fn after_step(
        &mut self,
        mut values: Vec<Option<Tensor>>,
        trace: &Trace,
        global_step: Option<OutputId>,
        made: i64,
    ) -> Result<Vec<Option<Tensor>>, TrainError> {
        let step_before = match global_step {
            Some(_) => Some(step_of(values.pop().flatten().as_ref())?.saturating_sub(made)),
            None => None,
        };
        self.step_estimate.ran(step_before);
        let context = context_of(&self.session, &self.recovery, &self.stop);
        for entry in self.hooks.iter_mut().filter(|h| h.watches) {
            entry.hook.after_run(&AfterRun {
                context,
                values: values.get(entry.fetches.clone()).unwrap_or_default(),
                feeds: &self.feeds,
                step_before,
                trace,
            })?;
        }
        // The caller may write into fed tensors again.
        self.feeds.clear();
        Ok(values)
    }

    /// Ends the training: calls the hooks' `end`, which save for example, unless a step has failed.
    ///
    /// # Errors
    /// The first error of a hook.
    pub fn close(mut self) -> Result<(), TrainError> {
        let mut result = Ok(());
        if !self.failed {
            let context = context_of(&self.session, &self.recovery, &self.stop);
            for entry in &mut self.hooks {
                let ended = entry.hook.end(&context);
                result = result.and(ended);
            }
        }
        result.and(self.recovery.finish())
    }
}
