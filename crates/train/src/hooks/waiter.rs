//! Waits for the steps of others.

use std::time::{Duration, Instant};

use super::{Context, SessionRunHook};
use crate::error::TrainError;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(500);
/// After how long it tells that they have not moved.
const SILENT: Duration = Duration::from_secs(30);
/// After how many steps it tells how far they are.
const TELL: i64 = 1000;

/// Waits until the global step has come to a number before the first step: `tf.train.GlobalStepWaiterHook`.
///
/// It lets workers start one after the other.
#[derive(Clone, Debug)]
pub struct GlobalStepWaiterHook {
    until: i64,
}

impl GlobalStepWaiterHook {
    /// Waits for this global step.
    pub fn new(until: i64) -> GlobalStepWaiterHook {
        GlobalStepWaiterHook { until }
    }
}

impl SessionRunHook for GlobalStepWaiterHook {
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let mut told: Option<(i64, Instant)> = None;
        loop {
            let step = session.needed_global_step()?;
            if step >= self.until {
                return Ok(());
            }
            if told.is_none_or(|(at, when)| step - at >= TELL || when.elapsed() >= SILENT) {
                let until = self.until;
                session.log(&format!("waiting for global step {until}, it is {step}"));
                told = Some((step, Instant::now()));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn watches_steps(&self) -> bool {
        false
    }
}
