//! gRPC's health checking: whether the server lives, and whether it is ready.

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

/// The services that are ready or not. The empty name is that of the server, which lives.
const READY: [&str; 2] = ["tensorflow.MasterService", "thalweg.Worker"];
/// The job whose tasks the others need.
const PARAMETER_SERVER_JOB: &str = "ps";
/// How long a task counts as reached after it was heard of.
const FRESH_FOR: Duration = Duration::from_secs(10);
/// How often a server that is watched looks whether it is ready.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How many tasks are asked at a time.
const MAX_CONCURRENT_PROBES: usize = 16;

/// Answers whether the server lives and is ready.
#[derive(Clone)]
pub(crate) struct HealthService(pub(crate) Arc<Worker>);

impl HealthService {
    /// The status of a service; none where there is no such service.
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

    /// Whether the tasks that this one needs are reached: all parameter servers, where it is none itself.
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
                // A task that has as many sessions as it may is there.
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
