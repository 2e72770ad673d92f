//! Calls of clients: messages to requests of sessions, and back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_graphdef::messages::{RunMetadata, TensorProto};
use thalweg_graphdef::tensor::{Budget, from_proto, to_proto};
use thalweg_session::Cancel;
use thalweg_tensor::{Reservation, Tensor};

use super::call::{CallContext, UndoOnDrop, reserve, run_compute};
use super::master::Master;
use super::messages::*;
use super::request::{Request, Response};
use super::session::MasterSession;
use super::status::Status;
use crate::limits::settings::limit_name;
use crate::metrics::counters;

fn value(index: usize, proto: &TensorProto, budget: &mut Budget) -> Result<Tensor, Status> {
    from_proto(proto, budget).map_err(|e| {
        let text = format!("Invalid TensorProto for feed value {index}: {e}");
        Status {
            limit: budget
                .has_refused()
                .then_some(const { limit_name("expanded_bytes") }),
            ..Status::invalid(text)
        }
    })
}

fn message(tensor: &Tensor) -> Result<TensorProto, Status> {
    to_proto(tensor).map_err(|e| Status::invalid(format!("a fetched value cannot be sent: {e}")))
}

/// Response of a call, and its context.
type CallResult<T> = Result<(T, CallContext), Status>;

impl Master {
    /// Runs a step on a thread of its own. The end of the call cancels it.
    async fn step_of(
        self: &Arc<Self>,
        handle: &str,
        mut kept: CallContext,
        make: impl FnOnce(&MasterSession, usize) -> Result<Request, Status> + Send + 'static,
    ) -> CallResult<(Vec<NamedTensorProto>, RunMetadata)> {
        let room = self.take_step_slot()?;
        let session = self.session(handle, &kept.caller)?;
        let cancel = Cancel::new();
        let _gone = UndoOnDrop::new({
            let cancel = cancel.clone();
            move || cancel.cancel()
        });
        let limit = self.limits().expanded_bytes;
        let (master, handle) = (self.clone(), handle.to_owned());
        run_compute(&self.platform, move || {
            let request = make(&session, limit)?;
            let began = Instant::now();
            let response = session.run(&request, &cancel);
            drop(room);
            if master.stepped(&handle, began.elapsed(), &response) {
                session.was_slow(&request);
            }
            let response = response?;
            let named = named(request.fetches, &response.values, &mut kept)?;
            Ok(((named, response.metadata), kept))
        })
        .await
    }

    /// Counts a step, and logs a slow one. `true` if it was slow.
    fn stepped(&self, session: &str, took: Duration, done: &Result<Response, Status>) -> bool {
        let counts = &self.worker.counts;
        match done {
            Ok(_) => counts.steps.add(took),
            Err(status) => counts.step_failed(status.code),
        }
        let slow = took >= self.limits().slow_step;
        if slow {
            counters::increment(&counts.slow_steps);
            let longest = done.as_ref().ok().and_then(|d| d.longest.as_ref());
            tracing::warn!(
                session,
                seconds = took.as_secs_f64(),
                failed = done.is_err(),
                longest_node = longest.map(|l| &*l.node),
                longest_device = longest.map(|l| &*l.device),
                longest_seconds = longest.map(|l| l.seconds),
                "slow step"
            );
        }
        slow
    }

    /// Counts and logs a failed call.
    pub(super) fn failed(&self, status: &Status) {
        let counts = &self.worker.counts;
        counts.call_failed(status.code);
        match status.limit {
            Some(limit) => counts.refusals.count_limit(limit, &status.message),
            None => tracing::debug!(code = ?status.code, why = status.message, "call failed"),
        }
    }

    pub(super) async fn run_step(
        self: &Arc<Self>,
        call: RunStepRequest,
        kept: CallContext,
    ) -> CallResult<RunStepResponse> {
        let in_body = call.store_errors_in_response_body;
        let (calls, caller) = (Reservation::of(Some(&self.calls)), kept.caller.clone());
        match self.step_or_piece(call, kept).await {
            Err(status) if in_body => {
                self.failed(&status);
                let response = RunStepResponse {
                    metadata: Some(RunMetadata::default()),
                    status_code: status.code as i32,
                    status_error_message: status.message,
                    ..RunStepResponse::default()
                };
                let kept = CallContext {
                    caller,
                    held: calls,
                    undo: None,
                };
                Ok((response, kept))
            }
            done => done,
        }
    }

    async fn step_or_piece(
        self: &Arc<Self>,
        call: RunStepRequest,
        kept: CallContext,
    ) -> CallResult<RunStepResponse> {
        self.check_not_repeated(call.request_id, "RunStep (Master)")?;
        if !call.partial_run_handle.is_empty() {
            return self.continue_partial_run(call, kept).await;
        }
        let handle = call.session_handle.clone();
        let make = move |_: &MasterSession, limit| {
            Ok(Request {
                targets: call.target,
                options: call.options,
                ..request_of(call.feed, call.fetch, limit)?
            })
        };
        let ((tensor, metadata), kept) = self.step_of(&handle, kept, make).await?;
        let response = RunStepResponse {
            tensor,
            metadata: Some(metadata),
            ..RunStepResponse::default()
        };
        Ok((response, kept))
    }

    /// Continues a partial run. The run ends if its client disconnects during a call.
    async fn continue_partial_run(
        self: &Arc<Self>,
        call: RunStepRequest,
        mut kept: CallContext,
    ) -> CallResult<RunStepResponse> {
        let session = self.session(&call.session_handle, &kept.caller)?;
        let limit = self.limits().expanded_bytes;
        let room = self.take_slot()?;
        let abandon = abandoned(session.clone(), call.partial_run_handle.clone());
        let done = run_compute(&self.platform, move || {
            let _room = room;
            let request = request_of(call.feed, call.fetch.clone(), limit)?;
            let values = session.continue_partial_run(&call.partial_run_handle, request)?;
            let named = named(call.fetch, &values, &mut kept)?;
            Ok((named, kept))
        })
        .await;
        // The response is ready.
        abandon.keep();
        let (tensor, kept) = done?;
        let response = RunStepResponse {
            tensor,
            metadata: Some(RunMetadata::default()),
            ..RunStepResponse::default()
        };
        Ok((response, kept))
    }
}

/// Returns an undo that ends a partial run.
fn abandoned(session: Arc<MasterSession>, handle: String) -> UndoOnDrop {
    UndoOnDrop::new(move || session.abandon(&handle))
}

fn request_of(
    feed: Vec<NamedTensorProto>,
    fetches: Vec<String>,
    limit: usize,
) -> Result<Request, Status> {
    // One budget for all: a client may send any number of feeds.
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

/// Encodes values, which copies them.
fn named(
    names: Vec<String>,
    values: &[Tensor],
    kept: &mut CallContext,
) -> Result<Vec<NamedTensorProto>, Status> {
    let named = names.into_iter().zip(values).map(|(name, value)| {
        reserve(&mut kept.held, value.byte_size())?;
        Ok(NamedTensorProto {
            name,
            tensor: Some(message(value)?),
        })
    });
    named.collect()
}

impl Master {
    pub(super) async fn create_session(
        self: &Arc<Self>,
        call: CreateSessionRequest,
        mut kept: CallContext,
    ) -> CallResult<CreateSessionResponse> {
        let master = self.clone();
        run_compute(&self.platform, move || {
            let (handle, session) =
                master.create(&call.config.unwrap_or_default(), &call.target, &kept.caller)?;
            let closes = (master.clone(), handle.clone());
            // Until the response is sent, no one else knows the session.
            kept.undo = Some(UndoOnDrop::new(move || closes.0.forget(&closes.1)));
            let bytes = kept.held.bytes();
            session.extend(&call.graph_def.unwrap_or_default(), None, bytes)?;
            let response = CreateSessionResponse {
                session_handle: handle,
                graph_version: 0,
            };
            Ok((response, kept))
        })
        .await
    }

    pub(super) async fn extend_session(
        self: &Arc<Self>,
        call: ExtendSessionRequest,
        kept: CallContext,
    ) -> CallResult<ExtendSessionResponse> {
        let session = self.session(&call.session_handle, &kept.caller)?;
        run_compute(&self.platform, move || {
            let def = call.graph_def.unwrap_or_default();
            let expected = Some(call.current_graph_version);
            let new_graph_version = session.extend(&def, expected, kept.held.bytes())?;
            Ok((ExtendSessionResponse { new_graph_version }, kept))
        })
        .await
    }

    pub(super) async fn partial_run_setup(
        self: &Arc<Self>,
        call: PartialRunSetupRequest,
        mut kept: CallContext,
    ) -> CallResult<PartialRunSetupResponse> {
        self.check_not_repeated(call.request_id, "PartialRunSetup (Master)")?;
        let session = self.session(&call.session_handle, &kept.caller)?;
        let room = self.take_step_slot()?;
        run_compute(&self.platform, move || {
            let handle = session.begin_partial(&call.feed, &call.fetch, &call.target, room)?;
            kept.undo = Some(abandoned(session, handle.clone()));
            let response = PartialRunSetupResponse {
                partial_run_handle: handle,
            };
            Ok((response, kept))
        })
        .await
    }

    pub(super) async fn close_session(
        self: &Arc<Self>,
        call: CloseSessionRequest,
        kept: CallContext,
    ) -> CallResult<CloseSessionResponse> {
        let master = self.clone();
        run_compute(&self.platform, move || master.close(&call.session_handle)).await?;
        Ok((CloseSessionResponse {}, kept))
    }

    pub(super) async fn list_devices(
        self: &Arc<Self>,
        call: ListDevicesRequest,
        kept: CallContext,
    ) -> CallResult<ListDevicesResponse> {
        let handle = call.session_handle;
        let session = self.session(&handle, &kept.caller);
        if !handle.is_empty() && session.is_err() {
            let text =
                format!("Session {handle} is not found. Possibly, this master has restarted.");
            return Err(Status::invalid(text));
        }
        let (master, named) = (self.clone(), session.as_ref().ok().cloned());
        let (mut local_device, remote_device) = run_compute(&self.platform, move || {
            let own = named.and_then(|session| session.own_cluster_devices());
            Ok(match own {
                Some(tasks) => master.devices_of_session(&tasks),
                None => master.devices(),
            })
        })
        .await?;
        if let Ok(session) = session {
            session.rename_devices(&mut local_device);
        }
        let response = ListDevicesResponse {
            local_device,
            remote_device,
        };
        Ok((response, kept))
    }

    pub(super) async fn reset_all(
        self: &Arc<Self>,
        call: ResetRequest,
        kept: CallContext,
    ) -> CallResult<ResetResponse> {
        let master = self.clone();
        run_compute(&self.platform, move || master.reset(&call.container)).await?;
        Ok((ResetResponse {}, kept))
    }

    pub(super) async fn make_callable(
        self: &Arc<Self>,
        call: MakeCallableRequest,
        kept: CallContext,
    ) -> CallResult<MakeCallableResponse> {
        self.check_not_repeated(call.request_id, "MakeCallable (Master)")?;
        let session = self.session(&call.session_handle, &kept.caller)?;
        let bytes = kept.held.bytes();
        let handle = session.make_callable(call.options.unwrap_or_default(), bytes)?;
        Ok((MakeCallableResponse { handle }, kept))
    }

    pub(super) async fn run_callable(
        self: &Arc<Self>,
        call: RunCallableRequest,
        kept: CallContext,
    ) -> CallResult<RunCallableResponse> {
        self.check_not_repeated(call.request_id, "RunCallable (Master)")?;
        let make = move |session: &MasterSession, limit| {
            let mut budget = Budget::new(limit);
            let values = call.feed.iter().enumerate();
            let values = values.map(|(i, proto)| value(i, proto, &mut budget));
            session.callable(call.handle, values.collect::<Result<_, _>>()?)
        };
        let session = call.session_handle;
        let ((values, metadata), kept) = self.step_of(&session, kept, make).await?;
        let fetch = values.into_iter().map(|v| v.tensor.unwrap_or_default());
        let response = RunCallableResponse {
            fetch: fetch.collect(),
            metadata: Some(metadata),
        };
        Ok((response, kept))
    }

    pub(super) async fn release_callable(
        self: &Arc<Self>,
        call: ReleaseCallableRequest,
        kept: CallContext,
    ) -> CallResult<ReleaseCallableResponse> {
        let session = self.session(&call.session_handle, &kept.caller)?;
        session.release_callable(call.handle);
        Ok((ReleaseCallableResponse {}, kept))
    }
}
