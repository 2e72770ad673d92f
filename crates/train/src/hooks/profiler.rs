//! ProfilerHook: writes traces and profiles of steps.

use std::path::PathBuf;

use thalweg_session::Trace;
use thalweg_summary::SummaryWriter;

use super::context::Context;
use super::hook::SessionRunHook;
use super::run::{AfterRun, BeforeRun};
use super::timer::{Every, Timer};
use crate::error::TrainError;
use crate::run_metadata::run_metadata;

/// Writes a step's trace, as `timeline-STEP.json` for trace viewers and for `thalweg profile`, every `n` steps or in an
/// interval of time: `tf.train.ProfilerHook`.
#[derive(Debug)]
pub struct ProfilerHook {
    timer: Timer,
    folder: PathBuf,
    writer: Option<SummaryWriter>,
    next: i64,
    due: bool,
}

impl ProfilerHook {
    /// Writes traces to this folder.
    pub fn new(every: Every, folder: impl Into<PathBuf>) -> ProfilerHook {
        ProfilerHook {
            timer: Timer::new(every),
            folder: folder.into(),
            writer: None,
            next: 0,
            due: false,
        }
    }

    /// Writes the traces for TensorBoard too: its Graphs tab then shows the time and memory of each node, under the tag
    /// `step STEP`. The graph itself has to be among the events ([`SummaryWriter::graph`]).
    pub fn with_writer(self, writer: SummaryWriter) -> ProfilerHook {
        ProfilerHook {
            writer: Some(writer),
            ..self
        }
    }

    fn write(&mut self, run: &AfterRun<'_>, trace: &Trace, step: i64) {
        let path = self.folder.join(format!("timeline-{step}.json"));
        if let Err(error) = trace.save(&path) {
            let line = format!("no trace is written: {}: {error}", path.display());
            run.context().log(&line);
        }
        if self.writer.is_some() {
            let metadata = run_metadata(run.context().session().graph(), trace);
            let tag = format!("step {step}");
            (run.context())
                .write_summary(&mut self.writer, |w| w.run_metadata(&tag, &metadata, step));
        }
    }
}

impl SessionRunHook for ProfilerHook {
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        self.next = session.global_step()?.unwrap_or(0).saturating_add(1);
        // The first step includes planning, and is not typical.
        self.timer.done(self.next);
        std::fs::create_dir_all(&self.folder).map_err(|e| TrainError::io(&self.folder, e))
    }

    fn before_run(&mut self, run: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        self.due = self.timer.is_due(self.next);
        if self.due {
            run.trace();
        }
        Ok(())
    }

    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        let step = match run.step_before() {
            Some(before) => before.saturating_add(1),
            None => self.next,
        };
        if self.due {
            self.write(run, run.trace(), step);
            self.timer.done(step);
        }
        self.next = step.saturating_add(1);
        Ok(())
    }
}
