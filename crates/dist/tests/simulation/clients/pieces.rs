//! Partial runs of a simulated TensorFlow client.

use thalweg_tensor::Tensor;

use super::{SimulatedClient, fed, is, one, owned, values};
use crate::simulation::calls::{Answer, Client};
use crate::tf_client::messages::*;

impl SimulatedClient {
    /// Starts a partial run that gives a gradient. Returns the handles of the session and of the run.
    pub(in crate::simulation) async fn begin(&mut self) -> Answer<(String, String)> {
        let session_handle = self.handle().await?;
        let request = PartialRunSetupRequest {
            session_handle: session_handle.clone(),
            feed: owned(&["x:0", "y:0"]),
            fetch: owned(&["sum:0", "product:0"]),
            target: owned(&["add"]),
            request_id: 1 + self.numbers.below(1 << 62) as i64,
        };
        let limited = self.limited();
        let begun = self.calls.call(
            "PartialRunSetup",
            limited,
            request,
            async |c: &mut Client, q| c.partial_run_setup(q).await,
        );
        Ok((session_handle, begun.await?.partial_run_handle))
    }

    /// One call of a partial run: a feed and a fetch.
    pub(in crate::simulation) async fn piece(
        &mut self,
        (session, step): &(String, String),
        (feed, value): (&str, &Tensor),
        fetch: &str,
    ) -> Answer<Vec<Vec<f32>>> {
        let request = RunStepRequest {
            session_handle: session.clone(),
            partial_run_handle: step.clone(),
            feed: vec![fed(feed, value)?],
            fetch: owned(&[fetch]),
            request_id: 1 + self.numbers.below(1 << 62) as i64,
            ..RunStepRequest::default()
        };
        Ok(values(&self.step(request).await?.tensor)?)
    }

    /// Gives a gradient in a partial run.
    pub(in crate::simulation) async fn give_in_pieces(&mut self, id: usize) -> Answer<()> {
        if self.alone {
            return self.give(id).await;
        }
        let step = self.begin().await?;
        let sum = self.piece(&step, ("x:0", &one(id)), "sum:0").await?;
        is("a first piece", &sum, 1.0)?;
        let y = Tensor::scalar(id as f32);
        let product = self.piece(&step, ("y:0", &y), "product:0").await?;
        is("a second piece", &product, id as f32)
    }
}
