//! StopOnSignalHook: stops on Ctrl-C and SIGTERM.

use std::io;

use super::context::Context;
use super::hook::SessionRunHook;
use super::run::AfterRun;
use crate::error::TrainError;
use crate::stop_signal::StopSignal;

/// Stops the loop after the step in which Ctrl-C or SIGTERM came. A monitored session with a folder of checkpoints saves
/// the last step when it is closed, so the training goes on from there at the next start.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, StateOps};
/// use thalweg_optim::{GradientDescent, Optimizer, create_global_step};
/// use thalweg_session::Session;
/// use thalweg_train::hooks::StopOnSignalHook;
/// use thalweg_train::{MonitoredTrainingSession, StopSignal};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let g = Graph::new();
/// let w = g.variable("w", 0.0f32);
/// let loss = (w.value() - 3.0).square();
/// let train = GradientDescent::new(0.25).minimize_counting(loss, create_global_step(&g));
///
/// let stop = StopSignal::catch()?;
/// let mut session = MonitoredTrainingSession::new(&g)
///     .hook(StopOnSignalHook::new(stop.clone()))
///     .quiet()
///     .start(|| Session::new(&g))?;
/// let mut steps = 0;
/// while session.run::<()>(train, [])?.is_some() {
///     steps += 1;
///     if steps == 3 {
///         // As Ctrl-C does.
///         stop.set();
///     }
/// }
/// session.close()?;
/// assert_eq!(steps, 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StopOnSignalHook {
    signal: StopSignal,
    is_noted: bool,
}

impl StopOnSignalHook {
    /// Stops on this signal.
    pub fn new(signal: StopSignal) -> StopOnSignalHook {
        StopOnSignalHook {
            signal,
            is_noted: false,
        }
    }

    /// Catches the signals, and stops on them.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn catch() -> io::Result<StopOnSignalHook> {
        StopSignal::catch().map(StopOnSignalHook::new)
    }

    fn check(&mut self, session: &Context<'_>) {
        if self.signal.is_set() && !self.is_noted {
            self.is_noted = true;
            session.log(
                "a signal came: the training ends after this step; a second signal ends it at once",
            );
            session.request_stop();
        }
    }
}

impl SessionRunHook for StopOnSignalHook {
    fn after_create_session(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        // Also after a recovery: the new session has no request yet.
        self.is_noted = false;
        self.check(session);
        Ok(())
    }

    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        self.check(&run.context());
        Ok(())
    }
}
