//! FeedFnHook: feeds each step.

use thalweg_graph::OutputId;
use thalweg_tensor::Tensor;

use super::hook::SessionRunHook;
use super::run::BeforeRun;
use crate::error::TrainError;

/// Feeds each step the values that a function returns: `tf.train.FeedFnHook`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_tensor::{DType, Tensor};
/// use thalweg_train::hooks::FeedFnHook;
///
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, []);
/// let x = x.id();
/// let hook = FeedFnHook::new(move || Ok(vec![(x, Tensor::scalar(1.0f32))]));
/// # let _ = hook;
/// ```
pub struct FeedFnHook<F> {
    make: F,
}

impl<F> FeedFnHook<F>
where
    F: FnMut() -> Result<Vec<(OutputId, Tensor)>, TrainError>,
{
    /// Feeds the result of `make` to each step.
    pub fn new(make: F) -> FeedFnHook<F> {
        FeedFnHook { make }
    }
}

impl<F> SessionRunHook for FeedFnHook<F>
where
    F: FnMut() -> Result<Vec<(OutputId, Tensor)>, TrainError>,
{
    fn before_run(&mut self, run: &mut BeforeRun<'_>) -> Result<(), TrainError> {
        let feeds = (self.make)()?;
        feeds.into_iter().try_for_each(|(o, v)| run.feed(o, v))
    }

    fn needs_step_from(&self) -> i64 {
        i64::MAX
    }
}
