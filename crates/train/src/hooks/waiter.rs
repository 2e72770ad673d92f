//! GlobalStepWaiterHook: waits for the steps of other workers.

use std::time::{Duration, Instant};

use super::context::Context;
use super::hook::SessionRunHook;
use crate::error::TrainError;

/// Interval of reads of the global step.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time without progress after which it is logged.
const LOG_STALL_AFTER: Duration = Duration::from_secs(30);
/// Number of steps after which the progress is logged.
const LOG_STEPS: i64 = 1000;

/// Waits, before the first step, until the global step reaches a number: `tf.train.GlobalStepWaiterHook`.
///
/// It staggers the start of workers.
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
            if told.is_none_or(|(at, when)| {
                step - at >= LOG_STEPS || when.elapsed() >= LOG_STALL_AFTER
            }) {
                let until = self.until;
                session.log(&format!("waiting for global step {until}, it is {step}"));
                told = Some((step, Instant::now()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn watches_steps(&self) -> bool {
        false
    }
}
