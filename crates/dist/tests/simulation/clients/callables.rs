//! Callables of a simulated TensorFlow client.

use thalweg_graphdef::tensor::to_proto;
use thalweg_tensor::Tensor;

use super::{SimulatedClient, is, one, owned, values};
use crate::simulation::calls::{Answer, Client};
use crate::tf_client::messages::*;

impl SimulatedClient {
    /// Gives a gradient by a callable, which is made if there is none.
    pub(in crate::simulation) async fn give_by_callable(&mut self, id: usize) -> Answer<()> {
        let session_handle = self.handle().await?;
        let limited = self.limited();
        let known = self.session.as_ref().and_then(|s| s.callable);
        let handle = match known {
            Some(handle) => handle,
            None => {
                let options = CallableOptions {
                    feed: owned(&["x:0", "y:0"]),
                    fetch: owned(&["product:0"]),
                    target: owned(&["add"]),
                    ..CallableOptions::default()
                };
                let request = MakeCallableRequest {
                    session_handle: session_handle.clone(),
                    options: Some(options),
                    request_id: 1 + self.numbers.below(1 << 62) as i64,
                };
                let made = self.calls.call(
                    "MakeCallable",
                    limited,
                    request,
                    async |c: &mut Client, q| c.make_callable(q).await,
                );
                made.await?.handle
            }
        };
        if let Some(session) = &mut self.session {
            session.callable = Some(handle);
        }
        let feeds = [one(id), Tensor::scalar(id as f32)];
        let feeds = feeds.iter().map(|t| to_proto(t).map_err(|e| e.to_string()));
        let request = RunCallableRequest {
            session_handle,
            handle,
            feed: feeds.collect::<Result<_, String>>()?,
            request_id: 1 + self.numbers.below(1 << 62) as i64,
        };
        let ran = self.calls.call(
            "RunCallable",
            limited,
            request,
            async |c: &mut Client, q| c.run_callable(q).await,
        );
        let named = |tensor| NamedTensorProto {
            tensor: Some(tensor),
            ..NamedTensorProto::default()
        };
        let given: Vec<NamedTensorProto> = ran.await?.fetch.into_iter().map(named).collect();
        is("a callable", &values(&given)?, id as f32)
    }
}
