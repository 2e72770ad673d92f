//! Peers: the other tasks of a cluster, as a task or a client calls them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{Buffer, Memory, Tensor};
use tokio::time::Instant;
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::{Channel, Endpoint};

use super::buffer_pool::BufferPool;
use super::error_chain::{causes, chain};
use super::error_codec;
use super::frames::{FrameReader, Frames};
use super::messages::header::Kind;
use super::messages::{Colocate, End, Value};
use super::network::Network;
use super::peer_stats::{PeerStats, PeerStatsTable};
use super::processes::Processes;
use super::wire_error::WireError;
use crate::cluster::spec::{TaskName, task_label, task_label_at};
use crate::error::{Cause, ClusterError};
use crate::limits::timeouts::Timeouts;
use crate::metrics::counters::Counters;
use crate::runtime::platform::Platform;
use crate::transport::connections::dialer::Dialer;
use crate::transport::connections::ping::{PING_ANSWER, ping_interval};
use crate::transport::protection::Protection;
use crate::transport::shared_memory::segments::{ColocatedTask, LentValue};

/// HTTP/2 flow-control window of a stream and of a connection, in bytes.
pub(crate) const FLOW_WINDOW: u32 = 64 << 20;
/// Largest HTTP/2 frame, in bytes. A ping waits for the frame before it, and a frame counts as a sign of life only
/// once it is complete: on a slow line a larger frame would look like a dead peer.
pub(crate) const MAX_FRAME: u32 = 256 << 10;

/// Memory that is kept for later values, in bytes: pooled receive buffers, and shared segments.
pub(crate) const MAX_POOLED_BYTES: usize = 1 << 30;

/// A task that is called over the network.
pub(crate) struct Peer {
    pub(crate) task: TaskName,
    pub(crate) address: String,
    pub(crate) platform: Arc<dyn Platform>,
    network: Arc<dyn Network>,
    endpoint: Endpoint,
    dial: Dialer,
    pub(crate) processes: Arc<Processes>,
    /// Made by the first call: it lives on the threads of the network.
    channel: OnceLock<Channel>,
    limit: u64,
    pool: Arc<BufferPool>,
    timeouts: Timeouts,
    heard: Mutex<Option<Instant>>,
    pub(crate) peer_stats: Arc<PeerStats>,
    /// `true` if its values may come through shared memory.
    shares: bool,
    /// Access to its segments, if it is on this machine. The outer `None`: not known yet.
    colocated: Mutex<Option<Option<Arc<ColocatedTask>>>>,
    #[cfg(test)]
    pub(crate) counts: SharedCounts,
}

/// Numbers of values of a co-located task that were copied from its segments and read in place, and of buffers of
/// these that stayed in use.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct SharedCounts {
    pub(crate) copies: std::sync::atomic::AtomicU64,
    pub(crate) in_place: std::sync::atomic::AtomicU64,
    pub(crate) kept: std::sync::atomic::AtomicU64,
}

#[cfg(test)]
impl SharedCounts {
    fn add(count: &std::sync::atomic::AtomicU64, more: u64) {
        count.fetch_add(more, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Frames of a response.
pub(crate) type ResponseFrames = FrameReader<Body>;

impl Peer {
    /// Returns the peer at this address. Nothing is sent yet.
    ///
    /// # Errors
    /// The address is invalid.
    pub(crate) fn new(task: TaskName, address: &str, peers: &Peers) -> Result<Peer, ClusterError> {
        let timeouts = peers.options.timeouts;
        let none = |e| {
            let text = format!("'{address}' is no address of a task: {e}");
            ClusterError::invalid(text).at(&task)
        };
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(none)?;
        let endpoint = endpoint
            .initial_stream_window_size(FLOW_WINDOW)
            .initial_connection_window_size(FLOW_WINDOW)
            .max_frame_size(MAX_FRAME)
            .http2_keep_alive_interval(ping_interval(timeouts.heartbeat))
            .keep_alive_while_idle(true)
            .keep_alive_timeout(PING_ANSWER);
        // The callee knows by it the task of the connection.
        let endpoint = match &peers.options.own {
            Some((job, index)) => endpoint.user_agent(task_label(job, *index)).map_err(none)?,
            None => endpoint,
        };
        let peer_stats = peers.peer_stats.with(&task);
        Ok(Peer {
            task,
            address: address.to_owned(),
            platform: peers.platform.clone(),
            network: peers.options.network.clone(),
            endpoint,
            processes: peers.processes.clone(),
            dial: Dialer {
                heartbeat: timeouts.heartbeat,
                protection: peers.options.protection.clone(),
                peer_stats: peer_stats.clone(),
            },
            peer_stats,
            channel: OnceLock::new(),
            limit: peers.options.limit,
            pool: peers.pool.clone(),
            timeouts,
            heard: Mutex::default(),
            shares: peers.options.shared_memory,
            colocated: Mutex::default(),
            #[cfg(test)]
            counts: SharedCounts::default(),
        })
    }

    /// Returns its name and address: `/job:ps/task:0 at 10.0.0.1:2222`.
    pub(crate) fn described(&self) -> String {
        task_label_at(&self.task, &self.address)
    }

    fn note_heard(&self) {
        *self.heard.lock().unpoisoned() = Some(Instant::now());
    }

    /// `true` if it has answered within this time.
    pub(crate) fn heard_within(&self, time: Duration) -> bool {
        let heard = self.heard.lock().unpoisoned();
        heard.is_some_and(|at| at.elapsed() < time)
    }

    /// Forgets the access to its segments: the next answer may come from another process.
    fn forget_colocation(&self) {
        *self.known() = None;
    }

    fn known(&self) -> MutexGuard<'_, Option<Option<Arc<ColocatedTask>>>> {
        self.colocated.lock().unpoisoned()
    }

    /// Returns the error of a peer that is not reached.
    pub(crate) fn unreachable(&self, why: &str) -> ClusterError {
        self.no_contact(Cause::Unreachable, why)
    }

    /// Returns the error of a peer without contact, with this cause.
    pub(crate) fn no_contact(&self, cause: Cause, why: &str) -> ClusterError {
        let heard = *self.heard.lock().unpoisoned();
        let last = match heard {
            None => "it was never reached".to_owned(),
            Some(at) => format!("last heard of {:.1} s ago", at.elapsed().as_secs_f64()),
        };
        let text = format!("{} is not reached ({last}): {why}", self.described());
        ClusterError::new(cause, text).at(&self.task)
    }

    /// Returns advice on a failed call, if a mismatch of protection may be the reason.
    fn advice(&self, error: &tonic::transport::Error) -> &'static str {
        use std::io::ErrorKind;
        // A TLS error is invalid data; a peer that does not understand the caller closes the connection.
        let may_be_mismatch = |kind| {
            matches!(
                kind,
                ErrorKind::InvalidData
                    | ErrorKind::BrokenPipe
                    | ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::UnexpectedEof
            )
        };
        let mut all = chain(error).filter_map(|e| e.downcast_ref::<std::io::Error>());
        let other_cause = all.any(|e| !may_be_mismatch(e.kind()));
        let heard = self.heard.lock().unpoisoned();
        match (&self.dial.protection, other_cause || heard.is_some()) {
            (_, true) => "",
            (None, false) => {
                "; if it is protected, its callers need its folder of `thalweg protect` too"
            }
            (Some(_), false) => {
                "; all tasks and clients need one folder of `thalweg protect`, made for their hosts"
            }
        }
    }

    /// Labels an error that it has sent, or that its messages have caused.
    fn error_from_peer(&self, mut error: ClusterError) -> ClusterError {
        // An error of a node names the node.
        if error.failed_node().is_none() && !error.derived {
            error.message = format!("{}: {}", self.described(), error.message);
        }
        error.at(&self.task)
    }

    /// Converts an error in one of its messages.
    pub(crate) fn wire_error(&self, error: WireError) -> ClusterError {
        if matches!(error, WireError::Descriptor(_) | WireError::Segment(_)) {
            // No retry: values come over the connection from now on.
            *self.known() = Some(None);
        }
        if matches!(error, WireError::Flight { .. }) {
            // The limit is this task's own.
            return error.into();
        }
        match error.is_broken() {
            true => self.unreachable(&error.to_string()),
            false => self.error_from_peer(error.into()),
        }
    }

    /// Calls `name` with this request. Returns the response once it begins. A drop of the call ends it at the peer
    /// too.
    ///
    /// # Errors
    /// It is not reached.
    pub(crate) async fn call(
        &self,
        name: &str,
        request: impl http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
    ) -> Result<ResponseFrames, ClusterError> {
        let head = http::Request::builder()
            .method(http::Method::POST)
            .uri(format!("{SERVICE_PATH}{name}"))
            .header(http::header::CONTENT_TYPE, "application/grpc+thalweg");
        let head = match &self.dial.protection {
            Some(known) => {
                let known = known.fresh().await;
                head.header(http::header::AUTHORIZATION, known.credentials())
            }
            None => head,
        };
        let request = head.body(Body::new(request));
        let request = request.map_err(|e| self.unreachable(&e.to_string()))?;
        // Each call waits on a channel of its own; the channels share the connection.
        let made = || self.network.connect(&self.endpoint, &self.dial);
        let mut channel = self.channel.get_or_init(made).clone();
        let lost = |e: tonic::transport::Error| {
            self.forget_colocation();
            self.unreachable(&format!("{}{}", causes(&e), self.advice(&e)))
        };
        std::future::poll_fn(|cx| Service::<http::Request<Body>>::poll_ready(&mut channel, cx))
            .await
            .map_err(lost)?;
        let response = channel.call(request).await.map_err(lost)?;
        if response.status() != http::StatusCode::OK {
            let text = format!("it answers with HTTP {}", response.status());
            return Err(self.unreachable(&text));
        }
        if let Some(status) = tonic::Status::from_header_map(response.headers()) {
            if status.code() == Code::Unauthenticated {
                let refused = ClusterError::new(Cause::Unauthenticated, status.message());
                return Err(self.error_from_peer(refused));
            }
            let text = format!("it is no task of Thalweg: {}", status.message());
            return Err(self.unreachable(&text));
        }
        self.note_heard();
        let pool = self.pool.clone();
        Ok(FrameReader::new(response.into_body(), self.limit, pool))
    }

    /// Reads the next header of a response.
    ///
    /// # Errors
    /// The response ends too early, or it is an error.
    pub(crate) async fn next(&self, answer: &mut ResponseFrames) -> Result<Kind, ClusterError> {
        match answer.next().await {
            Ok(Some(Kind::End(End { error: Some(error) }))) => {
                self.note_heard();
                Err(self.error_from_peer(error_codec::decoded(error)))
            }
            Ok(Some(kind)) => {
                self.note_heard();
                Ok(kind)
            }
            Ok(None) => Err(self.unreachable("its answer has no end")),
            Err(e) => Err(self.wire_error(e)),
        }
    }

    /// Reads the tensor behind the header of a value.
    ///
    /// # Errors
    /// It does not come as the header says.
    pub(crate) async fn tensor(
        &self,
        answer: &mut ResponseFrames,
        v: &Value,
    ) -> Result<Tensor, ClusterError> {
        answer.tensor(v).await.map_err(|e| self.wire_error(e))
    }

    /// Maps a value that it lends.
    ///
    /// # Errors
    /// It cannot be mapped, or no loan was requested.
    pub(crate) async fn lent(
        &self,
        from: Option<&ColocatedTask>,
        header: &Value,
    ) -> Result<LentValue, ClusterError> {
        let (Some(from), Some(loan)) = (from, header.loan) else {
            return Err(self.wire_error(WireError::Expected("a value's bytes")));
        };
        let lent = LentValue::new(from, loan, header, self.limit, &self.pool).await;
        let lent = lent.map_err(|e| self.wire_error(e))?;
        self.peer_stats.shared.fetch_add(header.bytes, Relaxed);
        Ok(lent)
    }

    /// Returns a lent tensor, read in place. `None` if it has to be copied.
    ///
    /// # Errors
    /// Its bytes are not what its header says.
    pub(crate) fn in_place(&self, lent: &LentValue) -> Result<Option<Tensor>, ClusterError> {
        let tensor = lent.in_place().map_err(|e| self.wire_error(e))?;
        #[cfg(test)]
        SharedCounts::add(&self.counts.in_place, u64::from(tensor.is_some()));
        Ok(tensor)
    }

    /// Releases a buffer of its segments. `true` if no other user is left.
    pub(crate) fn release(&self, from: &ColocatedTask, buffer: Arc<Buffer>) -> bool {
        let free = from.release(buffer);
        #[cfg(test)]
        SharedCounts::add(&self.counts.kept, u64::from(!free));
        free
    }

    /// Returns a copy of a lent value.
    ///
    /// # Errors
    /// Its bytes are not what its header says.
    pub(crate) async fn copied(&self, lent: LentValue) -> Result<Tensor, ClusterError> {
        let copied = self.platform.run_compute(move || lent.copied()).await?;
        let tensor = copied.map_err(|e| self.wire_error(e))?;
        #[cfg(test)]
        SharedCounts::add(&self.counts.copies, 1);
        Ok(tensor)
    }

    /// Returns the access to its segments, if it is on this machine and permits it. The first call determines it, and
    /// a later call again when another process may have taken its place.
    ///
    /// # Errors
    /// It is not reached.
    pub(crate) async fn colocated(&self) -> Result<Option<Arc<ColocatedTask>>, ClusterError> {
        if !self.shares {
            return Ok(None);
        }
        let known = self.known().clone();
        match known {
            Some(Some(known)) if known.is_gone() => self.forget_colocation(),
            Some(known) => return Ok(known),
            None => {}
        }
        let request = Frames::of(Kind::Colocate(Colocate {}));
        let mut answer = self.call("Colocate", request).await?;
        let found = match answer.next().await {
            Ok(Some(Kind::Colocation(said))) => {
                let runtime = self.platform.runtime();
                ColocatedTask::find(said, runtime, self.timeouts.heartbeat).await
            }
            // It does not permit it.
            Ok(_) => None,
            Err(e) => return Err(self.wire_error(e)),
        };
        // A concurrent call may have determined it meanwhile.
        Ok(self.known().get_or_insert(found).clone())
    }

    /// Calls `name`, whose response is one message or an end.
    ///
    /// # Errors
    /// It is not reached, or the call fails.
    pub(crate) async fn ask(&self, name: &str, request: Frames) -> Result<Kind, ClusterError> {
        let asked = async {
            let mut answer = self.call(name, request).await?;
            self.next(&mut answer).await
        };
        asked.await
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.timeouts
    }
}

/// Prefix of the paths of calls.
pub(crate) const SERVICE_PATH: &str = "/thalweg.Worker/";

/// Options of the calls to peers.
#[derive(Clone)]
pub(crate) struct PeerOptions {
    /// Name of the calling task. `None` for a client outside of the cluster.
    pub(crate) own: Option<TaskName>,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) timeouts: Timeouts,
    /// `true` if values may be received and sent through shared memory.
    pub(crate) shared_memory: bool,
    pub(crate) protection: Option<Protection>,
    /// Largest value that is accepted, in bytes.
    pub(crate) limit: u64,
    /// Limit of the bytes of incoming values at a time.
    pub(crate) flight: Arc<Memory>,
}

/// The peers that were used so far, each with its connection.
pub(crate) struct Peers {
    platform: Arc<dyn Platform>,
    pub(crate) options: PeerOptions,
    pub(crate) pool: Arc<BufferPool>,
    /// Newest processes of all tasks.
    pub(crate) processes: Arc<Processes>,
    pub(crate) peer_stats: Arc<PeerStatsTable>,
    /// Counters of this process.
    pub(crate) counts: Arc<Counters>,
    known: Mutex<HashMap<(TaskName, String), Arc<Peer>>>,
}

impl Peers {
    pub(crate) fn new(
        platform: Arc<dyn Platform>,
        options: PeerOptions,
        counts: Arc<Counters>,
    ) -> Peers {
        let refusals = counts.refusals.clone();
        Peers {
            platform,
            pool: Arc::new(BufferPool::new(
                MAX_POOLED_BYTES,
                options.flight.clone(),
                refusals,
            )),
            options,
            processes: Arc::default(),
            peer_stats: Arc::default(),
            counts,
            known: Mutex::default(),
        }
    }

    /// Returns the same peers with other options. Incoming bytes are counted together.
    pub(crate) fn with_options(&self, options: PeerOptions) -> Peers {
        Peers {
            platform: self.platform.clone(),
            options,
            pool: self.pool.clone(),
            processes: self.processes.clone(),
            peer_stats: self.peer_stats.clone(),
            counts: self.counts.clone(),
            known: Mutex::default(),
        }
    }

    /// Returns the peer at this address.
    ///
    /// # Errors
    /// As [`Peer::new`].
    pub(crate) fn get(&self, task: &TaskName, address: &str) -> Result<Arc<Peer>, ClusterError> {
        let mut known = self.known.lock().unpoisoned();
        let key = (task.clone(), address.to_owned());
        if let Some(peer) = known.get(&key) {
            return Ok(peer.clone());
        }
        let peer = Peer::new(task.clone(), address, self)?;
        let peer = Arc::new(peer);
        known.insert(key, peer.clone());
        Ok(peer)
    }
}
