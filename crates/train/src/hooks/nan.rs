//! NanTensorHook: ends a training that diverges.

use thalweg_graph::op::Effect;
use thalweg_graph::{Graph, OutputId};
use thalweg_session::{Fetch, RunOptions, SessionError};
use thalweg_tensor::{Tensor, dispatch};

use super::hook::SessionRunHook;
use super::run::{AfterRun, BeforeRun};
use crate::error::TrainError;

/// Checks a loss after each step: one that is not finite is an error, or ends the loop: `tf.train.NanTensorHook`.
///
/// The error names the first node whose value is not finite: the loss is computed once more, with the same feeds, and
/// every value is checked. Where the step's update has made a variable infinite or NaN by then, it names the variable.
/// [`NanTensorHook::checked`] names the node in that case too.
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
    check: bool,
}

impl NanTensorHook {
    /// Fails if this output is not finite.
    pub fn new(loss: OutputId) -> NanTensorHook {
        NanTensorHook {
            loss,
            fail: true,
            check: false,
        }
    }

    /// Stops the loop instead of failing.
    pub fn stop(self) -> NanTensorHook {
        NanTensorHook {
            fail: false,
            ..self
        }
    }

    /// Checks every value of every step: a step fails at the first node whose value is not finite, before the update.
    /// Such steps run without fusion, and take longer.
    pub fn checked(self) -> NanTensorHook {
        NanTensorHook {
            check: true,
            ..self
        }
    }
}

/// The first element that is not finite.
#[allow(clippy::useless_conversion, reason = "one of the types is f64")]
fn not_finite(tensor: &Tensor) -> Option<f64> {
    dispatch!(
        tensor.dtype(),
        [F16 BF16 F32 F64],
        T => {
            let all = tensor.as_slice::<T>().unwrap_or_default();
            all.iter().map(|&x| f64::from(x)).find(|x| !x.is_finite())
        },
        else None
    )
}

/// The variable whose value a checked step has found not to be finite.
fn variable_of(error: &TrainError, graph: &Graph) -> Option<String> {
    let TrainError::Step { source, .. } = error else {
        return None;
    };
    let Some(SessionError::NotFinite { node, .. }) = source.downcast_ref() else {
        return None;
    };
    let data = graph.snapshot();
    let read = data.node(data.find(node)?);
    let handle = read
        .inputs
        .first()
        .filter(|_| read.op.effect == Effect::Read)?;
    Some(data.node(handle.node).name.clone())
}

impl SessionRunHook for NanTensorHook {
    fn before_run(&mut self, run: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        run.fetch(Fetch::Value(self.loss));
        if self.check {
            run.check();
        }
        Ok(())
    }

    fn needs_step_from(&self) -> i64 {
        i64::MAX
    }

    fn after_run(&mut self, run: &AfterRun<'_>) -> Result<(), TrainError> {
        let value = run.values().first().and_then(Option::as_ref);
        let Some(value) = value.and_then(not_finite) else {
            return Ok(());
        };
        let context = run.context();
        if !self.fail {
            context.log(&format!("Model diverged with loss = {value}."));
            context.request_stop();
            return Ok(());
        }
        let again = context.session().run_step(
            &[Fetch::Value(self.loss)],
            run.feeds(),
            &RunOptions::new().checked(),
        );
        let graph = context.session().graph();
        let why = match again {
            Ok(_) => "it is finite after the update".to_owned(),
            Err(error) => match variable_of(&error, graph) {
                None => error.to_string(),
                Some(variable) => format!(
                    "after the update, variable '{variable}' is not finite either. NanTensorHook::checked names the node at \
                     which it begins"
                ),
            },
        };
        Err(TrainError::Diverged {
            loss: graph.snapshot().output_name(self.loss),
            value,
            step: run.step_before(),
            why,
        })
    }
}
