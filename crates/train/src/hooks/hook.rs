//! The trait SessionRunHook.

use thalweg_graph::Graph;

use super::context::Context;
use super::run::{AfterRun, BeforeRun};
use crate::error::TrainError;

/// Callbacks before, around and after the steps of a [`crate::MonitoredSession`]. Each method does nothing by default.
pub trait SessionRunHook {
    /// Called before the first session: nodes may be added to the graph.
    ///
    /// # Errors
    /// An error ends the training before it begins.
    fn begin(&mut self, graph: &Graph) -> Result<(), TrainError> {
        let _ = graph;
        Ok(())
    }

    /// Called when a session was created and its variables have values.
    ///
    /// # Errors
    /// An error ends the training.
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let _ = session;
        Ok(())
    }

    /// Called before a step: it may add fetches and feeds.
    ///
    /// # Errors
    /// An error ends the training.
    fn before_run(&mut self, run: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        let _ = run;
        Ok(())
    }

    /// Called after a step that did not fail.
    ///
    /// # Errors
    /// An error ends the training.
    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        let _ = run;
        Ok(())
    }

    /// Called after the last step, unless one has failed.
    ///
    /// # Errors
    /// The first error of all hooks is returned to the caller.
    fn end(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let _ = session;
        Ok(())
    }

    /// `true` if it takes part in steps: `before_run` and `after_run` of others are not called.
    fn watches_steps(&self) -> bool {
        true
    }

    /// First global step from which on it needs to know the global step of each step ([`AfterRun::step_before`]): by
    /// default all. Reading it takes time, which a hook that is not due can save.
    fn needs_step_from(&self) -> i64 {
        i64::MIN
    }
}
