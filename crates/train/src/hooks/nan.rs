//! NanTensorHook: ends a training that diverges.

use thalweg_graph::OutputId;
use thalweg_session::{Fetch, RunOptions};
use thalweg_tensor::{Tensor, dispatch};

use super::hook::SessionRunHook;
use super::run::{AfterRun, BeforeRun};
use crate::error::TrainError;

/// Checks a loss after each step: one that is not finite is an error, or ends the loop: `tf.train.NanTensorHook`.
///
/// The error names the first node whose value is not finite: the step is computed once more up to the loss, with the
/// same feeds, and every value is checked.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_train::hooks::NanTensorHook;
///
/// let g = Graph::new();
/// let loss = g.constant(0.25f32);
/// let fails = NanTensorHook::new(loss.id());
/// let stops = NanTensorHook::new(loss.id()).stop();
/// # let _ = (fails, stops);
/// ```
#[derive(Clone, Debug)]
pub struct NanTensorHook {
    loss: OutputId,
    fail: bool,
}

impl NanTensorHook {
    /// Fails if this output is not finite.
    pub fn new(loss: OutputId) -> NanTensorHook {
        NanTensorHook { loss, fail: true }
    }

    /// Stops the loop instead of failing.
    pub fn stop(self) -> NanTensorHook {
        NanTensorHook {
            fail: false,
            ..self
        }
    }
}

/// `true` if all elements are finite.
#[allow(clippy::useless_conversion, reason = "one of the types is f64")]
fn is_finite(tensor: &Tensor) -> bool {
    dispatch!(
        tensor.dtype(),
        [F16 BF16 F32 F64],
        T => tensor.as_slice::<T>().is_ok_and(|all| all.iter().all(|&x| f64::from(x).is_finite())),
        else true
    )
}

impl SessionRunHook for NanTensorHook {
    fn before_run(&mut self, run: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        run.fetch(Fetch::Value(self.loss));
        Ok(())
    }

    fn needs_step_from(&self) -> i64 {
        i64::MAX
    }

    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        let value = run.values().first().and_then(Option::as_ref);
        if value.is_none_or(is_finite) {
            return Ok(());
        }
        let context = run.context();
        if !self.fail {
            context.log("Model diverged with loss = NaN.");
            context.request_stop();
            return Ok(());
        }
        let again = context.session().run_step(
            &[Fetch::Value(self.loss)],
            run.feeds(),
            &RunOptions::new().checked(),
        );
        let why = match again {
            Err(error) => error.to_string(),
            Ok(_) => "it is finite after the update".to_owned(),
        };
        Err(TrainError::Diverged {
            loss: context.session().graph().snapshot().output_name(self.loss),
            step: run.step_before(),
            why,
        })
    }
}
