//! MonitoredTrainingSession: builder of monitored sessions.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_checkpoint::disk;
use thalweg_graph::Graph;
use thalweg_summary::{SummaryError, SummaryWriter};

use super::recovery::Recovery;
use super::role::Role;
use super::scaffold::Scaffold;
use super::session::{HookEntry, MonitoredSession};
use crate::error::TrainError;
use crate::hooks::{CheckpointSaverHook, Every, SessionRunHook, StepCounterHook, SummarySaverHook};
use crate::log::Log;
use crate::steps::Steps;

/// Default time limit of creating a session.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(7200);
/// Default time between attempts to create a session.
const DEFAULT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Builder of a [`MonitoredSession`](crate::MonitoredSession): `tf.train.MonitoredTrainingSession`. Defaults are
/// TensorFlow's.
///
/// With a folder for checkpoints, the chief restores the newest one there, saves one every 600 seconds and at the end,
/// and writes summaries (every 100 steps) and the speed there.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, StateOps};
/// use thalweg_optim::{GradientDescent, Optimizer, create_global_step};
/// use thalweg_session::Session;
/// use thalweg_train::hooks::{Every, StopAtStepHook};
/// use thalweg_train::{MonitoredTrainingSession, TrainError};
///
/// fn train(folder: &std::path::Path, until: i64) -> Result<f32, TrainError> {
///     let g = Graph::new();
///     let w = g.variable("w", 4.0f32);
///     let loss = w.value().square();
///     let train = GradientDescent::new(0.25).minimize_counting(loss, create_global_step(&g));
///
///     let mut session = MonitoredTrainingSession::new(&g)
///         .checkpoint_dir(folder)
///         .save_checkpoint(Every::Steps(10))
///         .hook(StopAtStepHook::last_step(until))
///         .quiet()
///         .start(|| Session::new(&g))?;
///     let mut last = f32::NAN;
///     while let Some((_, loss)) = session.run::<((), f32)>((train, loss), [])? {
///         last = loss;
///     }
///     session.close()?;
///     Ok(last)
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = std::env::temp_dir().join(format!("thalweg-monitored-{}", std::process::id()));
/// assert_eq!(train(&folder, 2)?, 4.0);
/// // Another process goes on from there.
/// assert_eq!(train(&folder, 3)?, 1.0);
/// std::fs::remove_dir_all(folder)?;
/// # Ok(())
/// # }
/// ```
pub struct MonitoredTrainingSession<'a> {
    graph: &'a Graph,
    role: Role,
    folder: Option<PathBuf>,
    scaffold: Scaffold,
    hooks: Vec<Box<dyn SessionRunHook>>,
    chief_hooks: Vec<Box<dyn SessionRunHook>>,
    save_checkpoint: Option<Every>,
    save_summaries: Option<Every>,
    log_step_count: Option<u64>,
    retry_interval: Duration,
    time_limit: Duration,
    log: Log,
}

impl<'a> MonitoredTrainingSession<'a> {
    /// Trains a graph, as the chief.
    pub fn new(graph: &'a Graph) -> MonitoredTrainingSession<'a> {
        MonitoredTrainingSession {
            graph,
            role: Role::Chief,
            folder: None,
            scaffold: Scaffold::new(),
            hooks: Vec::new(),
            chief_hooks: Vec::new(),
            save_checkpoint: Some(Every::secs(600)),
            save_summaries: Some(Every::Steps(100)),
            log_step_count: Some(100),
            retry_interval: DEFAULT_RETRY_INTERVAL,
            time_limit: DEFAULT_TIME_LIMIT,
            log: Log::default(),
        }
    }

    /// Sets the role: the chief, or a worker that waits for it.
    pub fn role(self, role: Role) -> Self {
        MonitoredTrainingSession { role, ..self }
    }

    /// Sets the folder of checkpoints and event files.
    pub fn checkpoint_dir(self, folder: impl Into<PathBuf>) -> Self {
        MonitoredTrainingSession {
            folder: Some(folder.into()),
            ..self
        }
    }

    /// Removes the folder: nothing is saved or restored.
    pub fn without_folder(self) -> Self {
        MonitoredTrainingSession {
            folder: None,
            ..self
        }
    }

    /// Sets the initialization of a session.
    pub fn scaffold(self, scaffold: Scaffold) -> Self {
        MonitoredTrainingSession { scaffold, ..self }
    }

    /// Adds a hook. Those of the chief, and those that come with the folder, are called before it.
    pub fn hook(mut self, hook: impl SessionRunHook + 'static) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Adds a hook of the chief.
    pub fn chief_only_hook(mut self, hook: impl SessionRunHook + 'static) -> Self {
        self.chief_hooks.push(Box::new(hook));
        self
    }

    /// Interval of checkpoints; `None` saves none.
    pub fn save_checkpoint(self, every: impl Into<Option<Every>>) -> Self {
        MonitoredTrainingSession {
            save_checkpoint: every.into(),
            ..self
        }
    }

    /// Interval of summaries; `None` writes none.
    pub fn save_summaries(self, every: impl Into<Option<Every>>) -> Self {
        MonitoredTrainingSession {
            save_summaries: every.into(),
            ..self
        }
    }

    /// Number of steps after which the speed is logged; `None` does not log it.
    pub fn log_step_count(self, steps: impl Into<Option<u64>>) -> Self {
        MonitoredTrainingSession {
            log_step_count: steps.into(),
            ..self
        }
    }

    /// Time limit of creating a session, at first and after a loss (7200 s), and time between attempts (0.1 s).
    pub fn wait(self, time_limit: Duration, retry_interval: Duration) -> Self {
        MonitoredTrainingSession {
            time_limit,
            retry_interval,
            ..self
        }
    }

    /// Sends log lines to this function, in place of standard error.
    pub fn log(self, line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        MonitoredTrainingSession {
            log: Log::new(line),
            ..self
        }
    }

    /// Discards log lines.
    pub fn quiet(self) -> Self {
        self.log(|_| {})
    }

    /// Creates the session, initializes the variables, and starts the hooks. `make` creates sessions, also after a
    /// loss.
    ///
    /// # Errors
    /// Errors of the graph, the checkpoint or a hook; [`TrainError::SessionTimeout`] if no session can be created in time.
    pub fn start<S, M, E>(mut self, make: M) -> Result<MonitoredSession<S, M>, TrainError>
    where
        S: Steps,
        M: FnMut() -> Result<S, E>,
        E: Into<TrainError>,
    {
        let resolved = self.scaffold.finalize(self.graph);
        let mut hooks = Vec::new();
        if self.role == Role::Chief {
            hooks.append(&mut self.chief_hooks);
            self.own_hooks(&resolved.saver, resolved.global_step.is_some(), &mut hooks)?;
        }
        hooks.append(&mut self.hooks);
        let hooks = hooks.into_iter().map(|hook| HookEntry {
            watches: hook.watches_steps(),
            hook,
            fetches: 0..0,
        });
        let recovery = Recovery {
            make,
            role: self.role,
            scaffold: self.scaffold,
            resolved,
            folder: self.folder,
            retry_interval: self.retry_interval,
            time_limit: self.time_limit,
            log: self.log,
            had_session: false,
            partly_initialized: Cell::new(false),
        };
        MonitoredSession::start(recovery, hooks.collect(), self.graph)
    }

    /// The hooks that come with a folder.
    fn own_hooks(
        &self,
        saver: &crate::checkpoints::Saver,
        counts: bool,
        hooks: &mut Vec<Box<dyn SessionRunHook>>,
    ) -> Result<(), TrainError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        std::fs::create_dir_all(folder).map_err(|e| TrainError::io(folder, e))?;
        // Removes files that an earlier process was writing when it died. Only the chief writes here.
        disk::remove_stale(&disk::system(), folder, Duration::ZERO)?;
        let writer = self.writer(folder)?;
        if let Some(steps) = self.log_step_count.filter(|_| counts) {
            let counter = StepCounterHook::new(Every::Steps(steps));
            hooks.push(Box::new(match &writer {
                Some(writer) => counter.writer(writer.clone()),
                None => counter,
            }));
        }
        if let (Some(every), Some(summary), Some(writer)) =
            (self.save_summaries, self.scaffold.summary, &writer)
        {
            let writer = writer.clone();
            hooks.push(Box::new(SummarySaverHook::with_writer(
                summary, every, writer,
            )));
        }
        if let Some(every) = self.save_checkpoint {
            let hook = CheckpointSaverHook::new(folder, every, saver.clone());
            hooks.push(Box::new(match writer {
                Some(writer) => hook.writer(writer),
                None => hook,
            }));
        }
        Ok(())
    }

    /// Creates the writer of the event file. If it cannot be created, on a full disk for example, this is logged, and
    /// training goes on without summaries.
    fn writer(&self, folder: &Path) -> Result<Option<SummaryWriter>, TrainError> {
        match SummaryWriter::create(folder) {
            Err(error @ SummaryError::Write { .. }) => {
                self.log.line(&format!("no summaries are written: {error}"));
                Ok(None)
            }
            made => Ok(Some(made?)),
        }
    }
}
