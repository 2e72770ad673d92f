//! The door: what comes over the wire, handed to the master.

use std::sync::Arc;

use thalweg_graphdef::messages::TensorProto;
use thalweg_graphdef::tensor::{Budget, from_proto, to_proto};
use thalweg_session::Cancel;
use thalweg_tensor::Tensor;
use tonic::{Code, Request as Call, Response as Answer};

use super::{Master, Request};
use crate::messages::master_service_server::MasterService;
use crate::messages::*;
use crate::status::Status;

/// Ends a step whose client has gone: it is dropped with the call.
struct Gone(Cancel);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs what may take long on a thread of its own.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| {
        let text = format!("a defect of the server: {e}. Please report it");
        Err(Status::new(Code::Internal, text))
    })
}

fn value(index: usize, proto: &TensorProto, budget: &mut Budget) -> Result<Tensor, Status> {
    from_proto(proto, budget)
        .map_err(|e| Status::invalid(format!("Invalid TensorProto for feed value {index}: {e}")))
}

fn message(tensor: &Tensor) -> Result<TensorProto, Status> {
    to_proto(tensor).map_err(|e| Status::invalid(format!("a fetched value cannot be sent: {e}")))
}

impl Master {
    /// Runs a step on a thread of its own; it ends when the call does.
    async fn step_of(
        self: &Arc<Self>,
        session: &str,
        make: impl FnOnce(&super::MasterSession, usize) -> Result<Request, Status> + Send + 'static,
    ) -> Result<(Vec<NamedTensorProto>, RunMetadata), Status> {
        let room = self.step()?;
        let session = self.session(session)?;
        let cancel = Cancel::new();
        let _gone = Gone(cancel.clone());
        let limit = self.limits().expanded_bytes;
        apart(move || {
            let request = make(&session, limit)?;
            let response = session.run(&request, &cancel);
            drop(room);
            let response = response?;
            Ok((named(request.fetches, &response.values)?, response.metadata))
        })
        .await
    }

    async fn run_step(self: &Arc<Self>, call: RunStepRequest) -> Result<RunStepResponse, Status> {
        self.first(call.request_id, "RunStep (Master)")?;
        if !call.partial_run_handle.is_empty() {
            return self.go_on(call).await;
        }
        let handle = call.session_handle.clone();
        let make = move |_: &super::MasterSession, limit| {
            Ok(Request {
                targets: call.target,
                options: call.options,
                ..request_of(call.feed, call.fetch, limit)?
            })
        };
        let (tensor, metadata) = self.step_of(&handle, make).await?;
        Ok(RunStepResponse {
            tensor,
            metadata: Some(metadata),
            ..RunStepResponse::default()
        })
    }

    /// A piece of a step that was set up before.
    async fn go_on(self: &Arc<Self>, call: RunStepRequest) -> Result<RunStepResponse, Status> {
        let session = self.session(&call.session_handle)?;
        let limit = self.limits().expanded_bytes;
        let mut gone = Abandoned(Some((session.clone(), call.partial_run_handle.clone())));
        let done = apart(move || {
            let request = request_of(call.feed, call.fetch.clone(), limit)?;
            let values = session.go_on(&call.partial_run_handle, request)?;
            named(call.fetch, &values)
        })
        .await;
        // It has been answered.
        gone.0 = None;
        Ok(RunStepResponse {
            tensor: done?,
            metadata: Some(RunMetadata::default()),
            ..RunStepResponse::default()
        })
    }
}

/// Ends a step in pieces whose client has gone in the middle of a call.
struct Abandoned(Option<(Arc<super::MasterSession>, String)>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some((session, handle)) = self.0.take() {
            session.abandon(&handle);
        }
    }
}

fn request_of(
    feed: Vec<NamedTensorProto>,
    fetches: Vec<String>,
    limit: usize,
) -> Result<Request, Status> {
    // One for all: a client may send any number.
    let mut budget = Budget::new(limit);
    let mut feeds = Vec::with_capacity(feed.len());
    for (i, feed) in feed.into_iter().enumerate() {
        let proto = feed.tensor.unwrap_or_default();
        feeds.push((feed.name, value(i, &proto, &mut budget)?));
    }
    Ok(Request {
        feeds,
        fetches,
        ..Request::default()
    })
}

fn named(names: Vec<String>, values: &[Tensor]) -> Result<Vec<NamedTensorProto>, Status> {
    let named = names.into_iter().zip(values).map(|(name, value)| {
        Ok(NamedTensorProto {
            name,
            tensor: Some(message(value)?),
        })
    });
    named.collect()
}

type Answered<T> = Result<Answer<T>, tonic::Status>;

#[tonic::async_trait]
impl MasterService for Arc<Master> {
    async fn create_session(
        &self,
        call: Call<CreateSessionRequest>,
    ) -> Answered<CreateSessionResponse> {
        let (master, call) = (self.clone(), call.into_inner());
        let handle = apart(move || {
            let (handle, session) = master.create(&call.config.unwrap_or_default())?;
            if let Err(e) = session.extend(&call.graph_def.unwrap_or_default(), None) {
                let _ = master.close(&handle);
                return Err(e);
            }
            Ok(handle)
        })
        .await?;
        Ok(Answer::new(CreateSessionResponse {
            session_handle: handle,
            graph_version: 0,
        }))
    }

    async fn extend_session(
        &self,
        call: Call<ExtendSessionRequest>,
    ) -> Answered<ExtendSessionResponse> {
        let call = call.into_inner();
        let session = self.session(&call.session_handle)?;
        let extend = move || {
            let def = call.graph_def.unwrap_or_default();
            session.extend(&def, Some(call.current_graph_version))
        };
        Ok(Answer::new(ExtendSessionResponse {
            new_graph_version: apart(extend).await?,
        }))
    }

    async fn partial_run_setup(
        &self,
        call: Call<PartialRunSetupRequest>,
    ) -> Answered<PartialRunSetupResponse> {
        let call = call.into_inner();
        self.first(call.request_id, "PartialRunSetup (Master)")?;
        let session = self.session(&call.session_handle)?;
        let room = self.step()?;
        let begin = move || session.begin_partial(&call.feed, &call.fetch, &call.target, room);
        Ok(Answer::new(PartialRunSetupResponse {
            partial_run_handle: apart(begin).await?,
        }))
    }

    async fn run_step(&self, call: Call<RunStepRequest>) -> Answered<RunStepResponse> {
        let call = call.into_inner();
        let in_body = call.store_errors_in_response_body;
        match Master::run_step(self, call).await {
            Ok(response) => Ok(Answer::new(response)),
            Err(status) if in_body => Ok(Answer::new(RunStepResponse {
                metadata: Some(RunMetadata::default()),
                status_code: status.code as i32,
                status_error_message: status.message,
                ..RunStepResponse::default()
            })),
            Err(status) => Err(status.into()),
        }
    }

    async fn close_session(
        &self,
        call: Call<CloseSessionRequest>,
    ) -> Answered<CloseSessionResponse> {
        let (master, call) = (self.clone(), call.into_inner());
        apart(move || master.close(&call.session_handle)).await?;
        Ok(Answer::new(CloseSessionResponse {}))
    }

    async fn list_devices(&self, call: Call<ListDevicesRequest>) -> Answered<ListDevicesResponse> {
        let handle = call.into_inner().session_handle;
        if !handle.is_empty() && self.session(&handle).is_err() {
            let text =
                format!("Session {handle} is not found. Possibly, this master has restarted.");
            return Err(Status::invalid(text).into());
        }
        let master = self.clone();
        let (local_device, remote_device) = apart(move || Ok(master.devices())).await?;
        Ok(Answer::new(ListDevicesResponse {
            local_device,
            remote_device,
        }))
    }

    async fn reset(&self, call: Call<ResetRequest>) -> Answered<ResetResponse> {
        let (master, call) = (self.clone(), call.into_inner());
        apart(move || Master::reset(&master, &call.container)).await?;
        Ok(Answer::new(ResetResponse {}))
    }

    async fn make_callable(
        &self,
        call: Call<MakeCallableRequest>,
    ) -> Answered<MakeCallableResponse> {
        let call = call.into_inner();
        self.first(call.request_id, "MakeCallable (Master)")?;
        let session = self.session(&call.session_handle)?;
        let handle = session.make_callable(call.options.unwrap_or_default())?;
        Ok(Answer::new(MakeCallableResponse { handle }))
    }

    async fn run_callable(&self, call: Call<RunCallableRequest>) -> Answered<RunCallableResponse> {
        let call = call.into_inner();
        self.first(call.request_id, "RunCallable (Master)")?;
        let make = move |session: &super::MasterSession, limit| {
            let mut budget = Budget::new(limit);
            let values = call.feed.iter().enumerate();
            let values = values.map(|(i, proto)| value(i, proto, &mut budget));
            session.callable(call.handle, values.collect::<Result<_, _>>()?)
        };
        let (values, metadata) = self.step_of(&call.session_handle, make).await?;
        let fetch = values.into_iter().map(|v| v.tensor.unwrap_or_default());
        Ok(Answer::new(RunCallableResponse {
            fetch: fetch.collect(),
            metadata: Some(metadata),
        }))
    }

    async fn release_callable(
        &self,
        call: Call<ReleaseCallableRequest>,
    ) -> Answered<ReleaseCallableResponse> {
        let call = call.into_inner();
        let session = self.session(&call.session_handle)?;
        session.release_callable(call.handle);
        Ok(Answer::new(ReleaseCallableResponse {}))
    }
}
