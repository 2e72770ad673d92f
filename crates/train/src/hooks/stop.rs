//! StopAtStepHook: stops at a step.

use super::context::Context;
use super::hook::SessionRunHook;
use super::run::AfterRun;
use crate::error::TrainError;

/// Stops the loop when the global step reaches a number, or after a number of steps: `tf.train.StopAtStepHook`.
///
/// ```
/// use thalweg_train::hooks::StopAtStepHook;
///
/// // To 20,000, whoever makes the steps; and 100 steps from where the training begins.
/// let (last, more) = (StopAtStepHook::last_step(20_000), StopAtStepHook::num_steps(100));
/// # let _ = (last, more);
/// ```
#[derive(Clone, Debug)]
pub struct StopAtStepHook {
    steps: Option<i64>,
    last: Option<i64>,
}

impl StopAtStepHook {
    /// Stops when the global step reaches `last`.
    pub fn last_step(last: i64) -> StopAtStepHook {
        StopAtStepHook {
            steps: None,
            last: Some(last),
        }
    }

    /// Stops when the global step has grown by `steps` since the first session.
    pub fn num_steps(steps: i64) -> StopAtStepHook {
        StopAtStepHook {
            steps: Some(steps),
            last: None,
        }
    }
}

impl SessionRunHook for StopAtStepHook {
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let step = session.needed_global_step()?;
        let last = *(self.last).get_or_insert(step.saturating_add(self.steps.unwrap_or(0)));
        if step >= last {
            session.request_stop();
        }
        Ok(())
    }

    fn needs_step_from(&self) -> i64 {
        self.last.map_or(i64::MIN, |last| last.saturating_sub(1))
    }

    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        let (Some(last), Some(before)) = (self.last, run.step_before()) else {
            return Ok(());
        };
        // The number excludes the step's own update: it is read again only near the end.
        if before.saturating_add(1) >= last && run.context().needed_global_step()? >= last {
            run.request_stop();
        }
        Ok(())
    }
}
