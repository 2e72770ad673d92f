//! CheckpointSaverHook: saves checkpoints while a training runs.

use std::path::{Path, PathBuf};

use thalweg_summary::{SessionEvent, SummaryWriter};

use super::context::Context;
use super::hook::SessionRunHook;
use super::run::AfterRun;
use super::timer::{Every, Timer};
use crate::checkpoints::{Saver, numbered};
use crate::error::TrainError;

/// Callbacks around the saves of a [`CheckpointSaverHook`]: `tf.train.CheckpointSaverListener`.
pub trait CheckpointSaverListener {
    /// Called before a save.
    ///
    /// # Errors
    /// An error ends the training.
    fn before_save(&mut self, session: &Context<'_>, step: i64) -> Result<(), TrainError> {
        let (_, _) = (session, step);
        Ok(())
    }

    /// Called after a save has begun: the values are copied, and are being written. It may request the end of the loop.
    ///
    /// # Errors
    /// An error ends the training.
    fn after_save(&mut self, session: &Context<'_>, step: i64) -> Result<(), TrainError> {
        let (_, _) = (session, step);
        Ok(())
    }

    /// Called after the last save, which is on the disk.
    ///
    /// # Errors
    /// An error is returned to the caller of the training.
    fn end(&mut self, session: &Context<'_>, step: i64) -> Result<(), TrainError> {
        let (_, _) = (session, step);
        Ok(())
    }
}

/// Saves a checkpoint when the training begins, then every `n` steps or in an interval of time, and at the end:
/// `tf.train.CheckpointSaverHook`.
///
/// A save stops the loop only while the values are copied; they are written in the background. If a checkpoint cannot
/// be written, on a full disk for example, it logs the error and the training goes on; at the end it is an error.
pub struct CheckpointSaverHook {
    saver: Saver,
    prefix: PathBuf,
    timer: Timer,
    listeners: Vec<Box<dyn CheckpointSaverListener>>,
    writer: Option<SummaryWriter>,
}

impl CheckpointSaverHook {
    /// Saves with `saver` to a folder, as `model.ckpt-STEP`.
    pub fn new(folder: impl AsRef<Path>, every: Every, saver: Saver) -> CheckpointSaverHook {
        CheckpointSaverHook {
            saver,
            prefix: folder.as_ref().join("model.ckpt"),
            timer: Timer::new(every),
            listeners: Vec::new(),
            writer: None,
        }
    }

    /// Sets the name, in place of `model.ckpt`.
    pub fn basename(self, name: impl AsRef<Path>) -> CheckpointSaverHook {
        CheckpointSaverHook {
            prefix: self.prefix.with_file_name(name.as_ref()),
            ..self
        }
    }

    /// Adds a listener.
    pub fn listener(mut self, listener: impl CheckpointSaverListener + 'static) -> Self {
        self.listeners.push(Box::new(listener));
        self
    }

    /// Records saves, and the graph, in the event file of this writer.
    pub fn writer(self, writer: SummaryWriter) -> CheckpointSaverHook {
        CheckpointSaverHook {
            writer: Some(writer),
            ..self
        }
    }

    fn save(&mut self, context: &Context<'_>, step: i64) -> Result<(), TrainError> {
        for listener in &mut self.listeners {
            listener.before_save(context, step)?;
        }
        // An error of the previous save is logged now: the run goes on without it.
        if let Err(error) = self.saver.wait() {
            context.log(&format!("a checkpoint could not be saved: {error}"));
        }
        let begun = self.saver.begin_save(context.session(), &self.prefix, step);
        match begun {
            Ok(path) => {
                self.timer.done(step);
                let path = path.to_string_lossy();
                let event = SessionEvent::Checkpoint(&path);
                context.write_summary(&mut self.writer, |w| w.session_log(event, step));
            }
            Err(TrainError::Checkpoint(error)) => {
                self.timer.done(step);
                context.log(&format!("a checkpoint could not be saved: {error}"));
            }
            Err(error) => return Err(error),
        }
        for listener in &mut self.listeners {
            listener.after_save(context, step)?;
        }
        Ok(())
    }
}

impl SessionRunHook for CheckpointSaverHook {
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let step = session.needed_global_step()?;
        if self.timer.last_step() == Some(step) {
            return Ok(());
        }
        let graph = session.session().graph();
        session.write_summary(&mut self.writer, |w| w.graph(graph));
        // A checkpoint that was just restored need not be written again.
        let folder = self.prefix.parent().unwrap_or(Path::new("."));
        if self.saver.latest(folder)? == Some(numbered(&self.prefix, step)) {
            self.timer.done(step);
            return Ok(());
        }
        self.save(session, step)
    }

    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        let Some(before) = run.step_before() else {
            return Ok(());
        };
        if !self.timer.is_due(before.saturating_add(1)) {
            return Ok(());
        }
        let context = run.context();
        let step = context.needed_global_step()?;
        match self.timer.is_due(step) {
            true => self.save(&context, step),
            false => Ok(()),
        }
    }

    fn needs_step_from(&self) -> i64 {
        self.timer.due_from().saturating_sub(1)
    }

    fn end(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let step = session.needed_global_step()?;
        let saved = self.saver.wait();
        if saved.is_err() || self.timer.last_step() != Some(step) {
            self.saver.save(session.session(), &self.prefix, step)?;
            self.timer.done(step);
        }
        for listener in &mut self.listeners {
            listener.end(session, step)?;
        }
        Ok(())
    }
}
