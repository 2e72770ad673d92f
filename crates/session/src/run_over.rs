//! Steps over an iterator of batches.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use thalweg_plan::SessionError;
use thalweg_tensor::Tensor;
use thalweg_tensor::text::counted;

use crate::callable::{CallResults, Callable};

/// Times of steps that took their batches from an iterator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputTimes {
    /// Number of steps.
    pub steps: u64,
    /// Time in which steps waited for their batches.
    pub waited: Duration,
    /// Time of the steps themselves, and of the function that takes their results.
    pub ran: Duration,
}

impl InputTimes {
    /// Share of the time in which steps waited, from 0 to 1.
    pub fn waited_share(&self) -> f64 {
        let all = (self.waited + self.ran).as_secs_f64();
        self.waited.as_secs_f64() / all.max(f64::MIN_POSITIVE)
    }
}

impl std::fmt::Display for InputTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let share = 100.0 * self.waited_share();
        let steps = counted(self.steps, "step");
        write!(f, "{steps} waited for input {share:.1}% of the time")
    }
}

impl Callable<'_> {
    /// Runs the step for each batch of an iterator, and hands its results to a function, which may end the loop.
    ///
    /// A batch is a tensor for each feed, in the order in which the callable was made. The step reads the tensors where
    /// they are: nothing is copied. With an iterator that prepares batches on threads of its own, such as a pipeline with
    /// `prefetch`, the next batch is made while a step computes. The iterator can be given by `by_ref()`: it then stands
    /// behind the last batch that was used.
    ///
    /// ```
    /// use std::error::Error;
    /// use std::ops::ControlFlow;
    ///
    /// use thalweg_graph::Graph;
    /// use thalweg_ops::{NewGraph, SourceOps};
    /// use thalweg_session::Session;
    /// use thalweg_tensor::{DType, Tensor};
    ///
    /// # fn main() -> Result<(), Box<dyn Error>> {
    /// let g = Graph::new();
    /// let x = g.placeholder("x", DType::F32, [2]);
    /// let session = Session::new(&g)?;
    /// let batches = (0..3).map(|n| Ok::<_, Box<dyn Error>>([Tensor::from([n as f32, 1.0])]));
    /// let mut all = Vec::new();
    /// let times = session.callable(x * 2.0, [x])?.run_over(batches, |results| {
    ///     all.push(results.slice::<f32>(0)?[0]);
    ///     Ok::<_, Box<dyn Error>>(ControlFlow::Continue(()))
    /// })?;
    /// assert_eq!((times.steps, all), (3, vec![0.0, 2.0, 4.0]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the iterator, of [`Callable::call`] and of the function. The steps before have run.
    pub fn run_over<B, I, E, F>(
        &mut self,
        batches: impl IntoIterator<Item = Result<B, I>>,
        mut each: F,
    ) -> Result<InputTimes, E>
    where
        B: AsRef<[Tensor]>,
        E: From<SessionError> + From<I>,
        F: FnMut(CallResults<'_>) -> Result<ControlFlow<()>, E>,
    {
        let mut times = InputTimes::default();
        let mut asked = Instant::now();
        for batch in batches {
            let batch = batch?;
            let arrived = Instant::now();
            times.waited += arrived - asked;
            let goes_on = each(self.call(batch.as_ref())?)?;
            asked = Instant::now();
            times.ran += asked - arrived;
            times.steps += 1;
            if goes_on.is_break() {
                break;
            }
        }
        Ok(times)
    }
}
