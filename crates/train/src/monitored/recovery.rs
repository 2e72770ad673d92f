//! Creation of sessions, at first and after a loss.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thalweg_checkpoint::CheckpointError;
use thalweg_checkpoint::state::{FoundCheckpoint, PassedOver, find_latest, find_usable};
use thalweg_graph::OutputId;

use super::role::Role;
use super::scaffold::{ResolvedScaffold, Scaffold};
use crate::error::{StepFailure, TrainError};
use crate::hooks::{Context, step_of};
use crate::log::Log;
use crate::steps::Steps;

/// Interval of log lines while waiting for a session.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Creates sessions whose variables have values.
pub(super) struct Recovery<M> {
    pub(super) make: M,
    pub(super) role: Role,
    pub(super) scaffold: Scaffold,
    pub(super) resolved: ResolvedScaffold,
    pub(super) folder: Option<PathBuf>,
    /// Time between attempts.
    pub(super) retry_interval: Duration,
    /// Time limit of the attempts.
    pub(super) time_limit: Duration,
    pub(super) log: Log,
    /// `true` after the first session.
    pub(super) had_session: bool,
    /// `true` if initialization failed halfway: some variables may have values, and others not.
    pub(super) partly_initialized: Cell<bool>,
}

impl<M> Recovery<M> {
    pub(super) fn global_step(&self) -> Option<OutputId> {
        self.resolved.global_step
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// Waits for checkpoints that are being written.
    pub(super) fn finish(&self) -> Result<(), TrainError> {
        self.resolved.saver.wait()
    }

    /// Creates a session whose variables have values. Retries if tasks are lost meanwhile.
    pub(super) fn session<S, E>(&mut self) -> Result<S, TrainError>
    where
        S: Steps,
        M: FnMut() -> Result<S, E>,
        E: Into<TrainError>,
    {
        let begin = Instant::now();
        let mut logged: Option<Instant> = None;
        loop {
            let logs = logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL);
            let last = begin.elapsed() >= self.time_limit;
            let why = match self.attempt(logs || last) {
                Ok(session) => {
                    self.had_session = true;
                    return Ok(session);
                }
                Err(error) if self.may_pass(&error) => error,
                Err(error) => return Err(error),
            };
            if logs {
                self.log.line(&format!("waiting for a session: {why}"));
                logged = Some(Instant::now());
            }
            if last {
                return Err(TrainError::SessionTimeout {
                    waited: begin.elapsed(),
                    why: why.to_string(),
                });
            }
            std::thread::sleep(self.retry_interval);
        }
    }

    /// `true` if a later attempt may succeed: a task returns, the chief initializes.
    fn may_pass(&self, error: &TrainError) -> bool {
        let waits = self.role == Role::Worker && matches!(error, TrainError::NotReady { .. });
        waits || error.failure() == StepFailure::Lost
    }

    /// Attempts to create a session. Listing the variables without values takes extra steps, and is done only if it is
    /// logged.
    fn attempt<S, E>(&mut self, logs: bool) -> Result<S, TrainError>
    where
        S: Steps,
        M: FnMut() -> Result<S, E>,
        E: Into<TrainError>,
    {
        let session = (self.make)().map_err(Into::into)?;
        match self.role {
            Role::Chief => self.prepare(&session)?,
            Role::Worker => {
                if !self.resolved.is_ready(&session)? {
                    return Err(TrainError::NotReady {
                        variables: match logs {
                            true => self.resolved.missing(&session),
                            false => Vec::new(),
                        },
                        advice: "the chief gives them: start it, or look at what keeps it",
                    });
                }
                self.resolved.local_init(&session)?;
            }
        }
        Ok(session)
    }

    /// Restores the variables from the newest checkpoint, or initializes them. A chief that returns to variables newer
    /// than its checkpoint keeps them.
    fn prepare(&mut self, session: &dyn Steps) -> Result<(), TrainError> {
        let saver = self.resolved.saver.clone();
        // The checkpoint that is being written may be the newest.
        if let Err(error) = saver.wait() {
            self.log
                .line(&format!("a checkpoint could not be saved: {error}"));
        }
        let found = match &self.folder {
            Some(folder) => self.find_checkpoint(folder)?,
            None => FoundCheckpoint::default(),
        };
        let ready = self.resolved.is_ready(session)? && !self.partly_initialized.get();
        match found.newest {
            // Nothing was lost, or another process has restored it already.
            _ if ready && self.had_session => {}
            Some(newest) => self.restore(session, newest, found.passed_over, ready)?,
            // A chief without a folder returns.
            None if ready && self.folder.is_none() => {
                let line =
                    "the variables have values, which are kept: run the initializers to begin anew";
                self.log.line(line);
            }
            None => {
                self.partly_initialized.set(true);
                self.scaffold.initialize(&self.resolved, session)?;
            }
        }
        self.resolved.local_init(session)?;
        if !self.resolved.is_ready(session)? {
            return Err(TrainError::NotReady {
                variables: self.resolved.missing(session),
                advice: "neither the checkpoint nor the initializers gave them one",
            });
        }
        self.partly_initialized.set(false);
        Ok(())
    }

    /// Finds the newest checkpoint that opens, and logs the newer ones.
    fn find_checkpoint(&self, folder: &Path) -> Result<FoundCheckpoint, TrainError> {
        let mut found = find_latest(folder)?;
        if found.newest.is_none() {
            found = find_usable(folder, &[]);
        }
        self.log_passed_over(&found.passed_over);
        Ok(found)
    }

    fn log_passed_over(&self, passed_over: &[PassedOver]) {
        for one in passed_over {
            self.log.line(&format!("warning: {one}"));
        }
    }

    /// Restores a checkpoint, unless the variables are newer. A damaged one is replaced by an older one.
    fn restore(
        &self,
        session: &dyn Steps,
        mut newest: PathBuf,
        passed_over: Vec<PassedOver>,
        ready: bool,
    ) -> Result<(), TrainError> {
        let saver = &self.resolved.saver;
        let mut tried: Vec<PathBuf> = passed_over.into_iter().map(|p| p.prefix).collect();
        loop {
            let shown = newest.display();
            let saved = match self.resolved.global_step {
                Some(output) => saver.saved_value(&newest, output),
                None => Ok(None),
            };
            let restored = saved.and_then(|saved| {
                let saved = saved.map(|s| step_of(Some(&s))).transpose()?;
                let now = match ready {
                    true => self.context_step(session)?,
                    false => None,
                };
                if let (Some(now), Some(saved)) = (now, saved)
                    && now >= saved
                {
                    self.log.line(&format!(
                        "the variables are at step {now}, and {shown} at {saved}: they are kept"
                    ));
                    return Ok(());
                }
                self.partly_initialized.set(true);
                saver.restore(session, &newest)?;
                self.log.line(&format!("restored {shown}"));
                Ok(())
            });
            match restored {
                Err(TrainError::Checkpoint(reason @ CheckpointError::Corrupt { .. })) => {
                    tried.push(newest.clone());
                    let folder = self.folder.as_deref();
                    let found = folder.map(|f| find_usable(f, &tried));
                    let found = found.unwrap_or_default();
                    let Some(other) = found.newest else {
                        return Err(reason.into());
                    };
                    self.log_passed_over(&[PassedOver::new(newest, reason)]);
                    self.log_passed_over(&found.passed_over);
                    tried.extend(found.passed_over.into_iter().map(|p| p.prefix));
                    newest = other;
                }
                restored => return restored,
            }
        }
    }

    fn context_step(&self, session: &dyn Steps) -> Result<Option<i64>, TrainError> {
        Context {
            session,
            global_step: self.resolved.global_step,
            stop: &std::cell::Cell::new(false),
            log: &self.log,
        }
        .global_step()
    }
}
