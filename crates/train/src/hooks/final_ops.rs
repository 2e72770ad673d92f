//! FinalOpsHook: a step after the last one.

use std::sync::{Arc, Mutex};

use thalweg_graph::OutputId;
use thalweg_session::Fetch;
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

use super::context::Context;
use super::hook::SessionRunHook;
use crate::error::TrainError;

/// Runs a step after the last one: `tf.train.FinalOpsHook`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_session::Fetch;
/// use thalweg_train::hooks::FinalOpsHook;
///
/// let g = Graph::new();
/// let accuracy = g.constant(0.5f32);
/// let (hook, values) = FinalOpsHook::new([Fetch::Value(accuracy.id())], []);
/// // Before the end there are none.
/// assert!(values.get().is_none());
/// # let _ = hook;
/// ```
#[derive(Debug)]
pub struct FinalOpsHook {
    fetches: Vec<Fetch>,
    feeds: Vec<(OutputId, Tensor)>,
    values: FinalValues,
}

/// Values that a [`FinalOpsHook`] fetched.
#[derive(Clone, Debug, Default)]
pub struct FinalValues(Arc<Mutex<Option<Vec<Option<Tensor>>>>>);

impl FinalValues {
    /// The values, in the order of the fetches; `None` before the end.
    pub fn get(&self) -> Option<Vec<Option<Tensor>>> {
        self.0.lock().unpoisoned().clone()
    }
}

impl FinalOpsHook {
    /// Runs a last step with these fetches and feeds.
    pub fn new(
        fetches: impl IntoIterator<Item = Fetch>,
        feeds: impl IntoIterator<Item = (OutputId, Tensor)>,
    ) -> (FinalOpsHook, FinalValues) {
        let values = FinalValues::default();
        let hook = FinalOpsHook {
            fetches: fetches.into_iter().collect(),
            feeds: feeds.into_iter().collect(),
            values: values.clone(),
        };
        (hook, values)
    }
}

impl SessionRunHook for FinalOpsHook {
    fn end(&mut self, session: &Context<'_>) -> Result<(), TrainError> {
        let session = session.session();
        let (values, _) = session.run_step(&self.fetches, &self.feeds, &Default::default())?;
        let mut kept = self.values.0.lock().unpoisoned();
        *kept = Some(values);
        Ok(())
    }

    fn watches_steps(&self) -> bool {
        false
    }
}
