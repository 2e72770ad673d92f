//! gRPC health checking: liveness and readiness of a server.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_server};

use crate::cluster::spec::TaskName;
use crate::error::Cause;
use crate::master::link;
use crate::worker::state::Worker;

/// Services with readiness. The empty name is the liveness of the server.
const READY: [&str; 2] = ["tensorflow.MasterService", "thalweg.Worker"];
/// Job of the parameter servers, which the other tasks need.
const PARAMETER_SERVER_JOB: &str = "ps";
/// Time that a task counts as reached after its last answer.
const FRESH_FOR: Duration = Duration::from_secs(10);
/// Interval of the readiness checks for a watching client.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of tasks that are probed at a time.
const MAX_CONCURRENT_PROBES: usize = 16;

/// Health service of a server.
#[derive(Clone)]
pub(crate) struct HealthService(pub(crate) Arc<Worker>);

impl HealthService {
    /// Returns the status of a service. `None` if there is no such service.
    async fn status(&self, service: &str) -> Option<ServingStatus> {
        let worker = &self.0;
        let serves = !worker.has_ended() && worker.is_current().is_ok();
        let good = match service {
            "" => serves,
            ready if READY.contains(&ready) => {
                serves && !worker.drains() && self.reaches_all().await
            }
            _ => return None,
        };
        Some(match good {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        })
    }

    /// `true` if all parameter servers are reached, or if this task is one itself.
    async fn reaches_all(&self) -> bool {
        let worker = &self.0;
        if worker.task.0 == PARAMETER_SERVER_JOB {
            return true;
        }
        let room = Arc::new(Semaphore::new(MAX_CONCURRENT_PROBES));
        let mut asked = JoinSet::new();
        for (index, address) in worker.cluster.tasks(PARAMETER_SERVER_JOB) {
            let task: TaskName = (PARAMETER_SERVER_JOB.to_owned(), index);
            let Ok(peer) = worker.peers.get(&task, address) else {
                return false;
            };
            if peer.heard_within(FRESH_FOR) && !peer.peer_stats.is_lost() {
                continue;
            }
            let room = room.clone();
            asked.spawn(async move {
                let _room = room.acquire_owned().await;
                // A task at its limit of sessions is reached.
                let looked = link::probe(&peer, false).await;
                looked.map_or_else(|e| e.cause == Cause::Exhausted, |_| true)
            });
        }
        while let Some(reached) = asked.join_next().await {
            if !matches!(reached, Ok(true)) {
                return false;
            }
        }
        true
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}

#[tonic::async_trait]
impl health_server::Health for HealthService {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        let unknown = || Status::not_found(format!("there is no service '{service}'"));
        let status = self.status(&service).await.ok_or_else(unknown)?;
        Ok(Response::new(answer(status)))
    }

    type WatchStream =
        Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send + 'static>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (health, service) = (self.clone(), request.into_inner().service);
        let (send, statuses) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut told = None;
            loop {
                let status = health.status(&service).await;
                let status = status.unwrap_or(ServingStatus::ServiceUnknown);
                if told.replace(status) != Some(status)
                    && send.send(Ok(answer(status))).await.is_err()
                {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                    () = send.closed() => return,
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(statuses))))
    }
}
