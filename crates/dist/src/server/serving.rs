//! Thread of a server: its services, and their limits.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use thalweg_tensor::sync::Unpoisoned;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::{Builder, Error};

use super::deadline::Deadline;
use super::gate::Gate;
use super::health::HealthService;
use super::router::ServiceRouter;
use crate::limits::server_limits::Limits;
use crate::tf_client::grpc_service::MasterGrpcService;
use crate::tf_client::master::Master;
use crate::transport::connections::listener::AcceptedConnections;
use crate::transport::connections::ping::{PING_ANSWER, ping_interval};
use crate::transport::connections::table::ConnectionTable;
use crate::transport::peers::{FLOW_WINDOW, MAX_FRAME};
use crate::transport::protection::Protection;
use crate::worker::service::WorkerService;
use crate::worker::state::Worker;

/// Bounds of the interval between two sweeps of expired sessions.
const MIN_SWEEP: Duration = Duration::from_millis(50);
const MAX_SWEEP: Duration = Duration::from_secs(10);
/// Time that steps may still run when a server ends.
const GRACE: Duration = Duration::from_secs(5);

/// Descriptors of `proto/master.proto`, written by `tests/messages.rs`.
const DESCRIPTORS: &[u8] = include_bytes!("../tf_client/descriptors.bin");
/// Maximum size of a call's HTTP headers, in bytes.
const MAX_HEADERS: u32 = 16 << 10;

/// Result of a server, once it has ended.
#[derive(Default)]
pub(super) struct ServerExit {
    pub(super) why: Mutex<Option<Result<(), String>>>,
    pub(super) changed: Condvar,
}

/// State of the thread of a server.
pub(super) struct ServerThread {
    pub(super) master: Arc<Master>,
    pub(super) worker: Arc<Worker>,
    pub(super) heartbeat: Duration,
    pub(super) protection: Option<Protection>,
    pub(super) connection_table: Arc<ConnectionTable>,
    pub(super) ended: Arc<ServerExit>,
}

impl ServerThread {
    /// Serves until it is stopped.
    pub(super) fn run(
        self,
        runtime: Runtime,
        socket: std::net::TcpListener,
        mut stopped: watch::Receiver<bool>,
    ) {
        let ServerThread {
            master,
            worker,
            heartbeat,
            protection,
            connection_table,
            ended,
        } = self;
        let result = runtime.block_on(async {
            let listener = TcpListener::from_std(socket).map_err(|e| e.to_string())?;
            let calls = max_concurrent_streams(master.limits());
            let call_memory = master.call_memory();
            let incoming =
                AcceptedConnections::new(listener, connection_table, heartbeat, protection.clone());
            let door = MasterGrpcService(master.clone());
            // Sweeps expired sessions, until the runtime ends.
            tokio::spawn(sweep_sessions(master));
            let mut late = stopped.clone();
            let stop = async move {
                // An error means that the server was dropped.
                let _ = stopped.wait_for(|s| *s).await;
            };
            // A client that never ends its call does not block the end.
            let grace = async move {
                let _ = late.wait_for(|s| *s).await;
                tokio::time::sleep(GRACE).await;
            };
            let health = HealthServer::new(HealthService(worker.clone()));
            let routes = Routes::new(Deadline(door)).add_service(health);
            let routes = with_reflection(routes).map_err(|e| e.to_string())?;
            let refusals = worker.counts.refusals.clone();
            let services = ServiceRouter {
                worker: WorkerService(worker),
                others: routes.prepare(),
            };
            let serving = http2_server(heartbeat)
                .max_concurrent_streams(calls)
                .http2_max_header_list_size(MAX_HEADERS)
                .serve_with_incoming_shutdown(
                    Gate::new(services, protection, refusals, call_memory),
                    incoming,
                    stop,
                );
            tokio::select! {
                ended = serving => ended.map_err(|e| e.to_string()),
                () = grace => Ok(()),
            }
        });
        runtime.shutdown_timeout(GRACE);
        *ended.why.lock().unpoisoned() = Some(result);
        ended.changed.notify_all();
    }
}

/// Closes expired sessions periodically.
pub(crate) async fn sweep_sessions(master: Arc<Master>) {
    let often = (master.limits().lease / 4).clamp(MIN_SWEEP, MAX_SWEEP);
    let mut sweep = tokio::time::interval(often);
    loop {
        sweep.tick().await;
        // The drop of a graph of gigabytes takes long.
        let swept = master.clone();
        let done = master.platform.run_compute(move || swept.collect()).await;
        if done.is_err() {
            // No thread is available: steps of disconnected clients may occupy them all.
            master.collect();
        }
    }
}

/// Returns the HTTP/2 server, for this time without a sign of life of a connection.
pub(crate) fn http2_server(heartbeat: Duration) -> tonic::transport::Server {
    tonic::transport::Server::builder()
        .initial_stream_window_size(FLOW_WINDOW)
        .initial_connection_window_size(FLOW_WINDOW)
        .max_frame_size(MAX_FRAME)
        .http2_keepalive_interval(Some(ping_interval(heartbeat)))
        .http2_keepalive_timeout(Some(PING_ANSWER))
}

/// Returns the maximum number of open calls of one connection. A step has a few on each connection, and a session
/// one: a call that a step waits for must not be queued behind that step.
fn max_concurrent_streams(limits: &Limits) -> u32 {
    let calls = limits
        .steps
        .saturating_add(limits.sessions)
        .saturating_mul(4);
    u32::try_from(calls.saturating_add(64)).unwrap_or(u32::MAX)
}

/// Adds reflection for the services of TensorFlow and of health checking.
fn with_reflection(routes: Routes) -> Result<Routes, Error> {
    let described = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Older tools use the older version.
    let (new, old) = (described().build_v1()?, described().build_v1alpha()?);
    Ok(routes.add_service(new).add_service(old))
}
