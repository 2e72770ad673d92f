//! Sessions that last: they restore, save, run hooks, and come back after a failure.

mod builder;
mod recovery;
mod scaffold;

use std::cell::Cell;

use thalweg_graph::OutputId;
use thalweg_session::{Feed, Fetch, FetchList, FetchesAs, RunOptions, Values};
use thalweg_tensor::Tensor;

use crate::error::{StepFailure, TrainError};
use crate::hooks::{AfterRun, BeforeRun, Context, SessionRunHook, step_of};
use crate::steps::Steps;

pub use builder::{MonitoredTrainingSession, Role};
use recovery::Recovery;
pub use scaffold::Scaffold;

/// A hook, and which fetches of a step are its own.
struct Hooked {
    hook: Box<dyn SessionRunHook>,
    watches: bool,
    fetches: std::ops::Range<usize>,
}

/// A session with hooks, which restores what it had after a failure: `tf.train.MonitoredSession`.
///
/// [`MonitoredTrainingSession`] makes one.
pub struct MonitoredSession<S, M> {
    session: S,
    recovery: Recovery<M>,
    hooks: Vec<Hooked>,
    stop: Cell<bool>,
    /// Whether a step has failed: the hooks are then not told of the end.
    failed: bool,
    closed: bool,
    fetches: Vec<Fetch>,
    feeds: Vec<(OutputId, Tensor)>,
}

/// A session as its hooks see it.
fn seen<'a, S: Steps, M>(
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
    /// Makes the session and lets hooks begin.
    fn start(
        mut recovery: Recovery<M>,
        mut hooks: Vec<Hooked>,
        graph: &thalweg_graph::Graph,
    ) -> Result<Self, TrainError> {
        for hooked in &mut hooks {
            hooked.hook.begin(graph)?;
        }
        let session = recovery.session()?;
        let mut monitored = MonitoredSession {
            session,
            recovery,
            hooks,
            stop: Cell::new(false),
            failed: false,
            closed: false,
            fetches: Vec::new(),
            feeds: Vec::new(),
        };
        monitored.created()?;
        Ok(monitored)
    }

    /// Tells the hooks of a new session. One that is lost meanwhile is made again.
    fn created(&mut self) -> Result<(), TrainError> {
        loop {
            let told = self.tell_created();
            match told {
                Err(error) if error.failure() == StepFailure::Lost => self.remake(&error)?,
                told => return told,
            }
        }
    }

    fn tell_created(&mut self) -> Result<(), TrainError> {
        let context = seen(&self.session, &self.recovery, &self.stop);
        let mut hooks = self.hooks.iter_mut();
        hooks.try_for_each(|h| h.hook.after_create_session(&context))
    }

    fn remake(&mut self, error: &TrainError) -> Result<(), TrainError> {
        let log = self.recovery.log();
        log.line(&format!("the session is made again: {error}"));
        self.session = self.recovery.session()?;
        Ok(())
    }

    /// The session. It is another one after a recovery.
    pub fn session(&self) -> &S {
        &self.session
    }

    /// Whether the loop is to end: a hook has asked for it, or the input has come to its end.
    pub fn should_stop(&self) -> bool {
        self.stop.get() || self.failed || self.closed
    }

    /// Lets the loop end.
    pub fn request_stop(&self) {
        self.stop.set(true);
    }

    /// The global step now; none where the graph has none.
    ///
    /// # Errors
    /// Those of a step.
    pub fn global_step(&self) -> Result<Option<i64>, TrainError> {
        seen(&self.session, &self.recovery, &self.stop).global_step()
    }

    /// Runs a step with the hooks: gives the values as what they are asked for (see [`FetchesAs`]), and nothing where the
    /// training is over: a hook has asked for that, or the input has come to its end.
    ///
    /// If a task is lost, a new session is made, which restores the newest checkpoint, and the step runs there.
    ///
    /// # Errors
    /// What is wrong with the step, what a hook says, and [`TrainError::Waited`] where no session is to be had.
    pub fn run<'f, R>(
        &mut self,
        fetches: impl FetchesAs<R>,
        feeds: impl AsRef<[Feed<'f>]>,
    ) -> Result<Option<R>, TrainError> {
        if self.closed || self.failed {
            return Err(TrainError::Closed);
        }
        if self.stop.get() {
            return Ok(None);
        }
        match self.attempts(&fetches, feeds.as_ref()) {
            Ok(values) => Ok(values),
            Err(error) if error.failure() == StepFailure::OutOfRange => {
                self.stop.set(true);
                Ok(None)
            }
            Err(error) => {
                self.failed = true;
                Err(error)
            }
        }
    }

    fn attempts<R>(
        &mut self,
        fetches: &impl FetchesAs<R>,
        feeds: &[Feed<'_>],
    ) -> Result<Option<R>, TrainError> {
        loop {
            match self.attempt(fetches, feeds) {
                Err(error) if error.failure() == StepFailure::Lost => {
                    self.remake(&error)?;
                    self.created()?;
                    if self.stop.get() {
                        return Ok(None);
                    }
                }
                done => return done.map(Some),
            }
        }
    }

    /// One step, with the hooks around it.
    fn attempt<R>(
        &mut self,
        fetches: &impl FetchesAs<R>,
        feeds: &[Feed<'_>],
    ) -> Result<R, TrainError> {
        let graph = self.session.graph();
        let list = FetchList::of(fetches, graph)?;
        let own = list.items().len();
        self.fetches.clear();
        self.fetches.extend_from_slice(list.items());
        self.feeds.clear();
        self.feeds
            .extend(Feed::all_of(feeds, graph)?.map(|(o, t)| (o, t.clone())));
        let mut options = RunOptions::new();
        for hooked in self.hooks.iter_mut().filter(|h| h.watches) {
            let first = self.fetches.len();
            hooked.hook.before_run(&mut BeforeRun {
                fetches: &mut self.fetches,
                feeds: &mut self.feeds,
                options: &mut options,
                graph,
            })?;
            hooked.fetches = first..self.fetches.len();
        }
        let watched = self.hooks.iter().any(|h| h.watches);
        let global_step = self.recovery.global_step().filter(|_| watched);
        self.fetches.extend(global_step.map(Fetch::Value));

        let (mut values, trace) = self
            .session
            .run_step(&self.fetches, &self.feeds, &options)?;
        let step_before = match global_step {
            Some(_) => Some(step_of(values.pop().flatten().as_ref())?),
            None => None,
        };
        let context = seen(&self.session, &self.recovery, &self.stop);
        for hooked in self.hooks.iter_mut().filter(|h| h.watches) {
            hooked.hook.after_run(&AfterRun {
                context,
                values: values.get(hooked.fetches.clone()).unwrap_or_default(),
                feeds: &self.feeds,
                step_before,
                trace: &trace,
            })?;
        }
        // Nobody holds what was fed until the next step.
        self.feeds.clear();
        values.truncate(own);
        let list = FetchList::of(fetches, self.session.graph())?;
        Ok(fetches.take(&mut Values::new(&list, values.into()))?)
    }

    /// Ends the training: the hooks do what they do last, such as saving, unless a step has failed.
    ///
    /// # Errors
    /// What a hook could not do; of several errors the first.
    pub fn close(mut self) -> Result<(), TrainError> {
        self.closed = true;
        let mut result = Ok(());
        if !self.failed {
            let context = seen(&self.session, &self.recovery, &self.stop);
            for hooked in &mut self.hooks {
                let ended = hooked.hook.end(&context);
                result = result.and(ended);
            }
        }
        result.and(self.recovery.finish())
    }
}
