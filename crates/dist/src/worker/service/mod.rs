//! gRPC service for other tasks and masters.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use thalweg_graph::DeviceSpec;
use thalweg_tensor::Tensor;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;

use super::run::RunRequest;
use super::state::{Worker, WorkerSession};
use super::step::{OutgoingValues, WorkerStep};
use crate::cluster::spec::TaskName;
use crate::error::{Cause, ClusterError};
use crate::transport::connections::table::ConnectionSlot;
use crate::transport::frames::{FrameReader, FrameSource, FrameStream, Frames};
use crate::transport::messages::header::Kind;
use crate::transport::peers::SERVICE_PATH;
use crate::transport::wire_error::WireError;
use crate::transport::{messages as wire, processes, trace, version};

/// Service of the calls of other tasks and of masters.
#[derive(Clone)]
pub(crate) struct WorkerService(pub(crate) Arc<Worker>);

impl NamedService for WorkerService {
    const NAME: &'static str = "thalweg.Worker";
}

impl Service<http::Request<Body>> for WorkerService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let worker = self.0.clone();
        worker.meet_caller(&request);
        Box::pin(async move {
            let name = request
                .uri()
                .path()
                .strip_prefix(SERVICE_PATH)
                .unwrap_or("");
            let name = name.to_owned();
            let (limit, pool) = (worker.limits.value_bytes, worker.peers.pool.clone());
            let reader = FrameReader::new(request.into_body(), limit, pool);
            let body = match answer(worker.clone(), &name, reader).await {
                Ok(body) => body,
                Err(error) => {
                    let mut frames = Frames::default();
                    frames.push_end(Some(error.at(&worker.task)));
                    Body::new(frames)
                }
            };
            Ok(http::Response::new(body))
        })
    }
}

impl Worker {
    /// Sets the peer of a call's connection, if it is a task of the cluster.
    fn meet_caller(&self, request: &http::Request<Body>) {
        let slot = request.extensions().get::<Option<Arc<ConnectionSlot>>>();
        let Some(slot) = slot.and_then(Option::as_ref) else {
            return;
        };
        if slot.peer_stats().is_some() {
            return;
        }
        let named = request.headers().get(http::header::USER_AGENT);
        // The user agent of the transport follows it.
        let named = named.and_then(|n| n.to_str().ok()?.split(' ').next());
        let task = named.filter(|n| n.starts_with("/job:"));
        let task = task.and_then(|n| DeviceSpec::parse(n).ok());
        let Some((Some(job), Some(index))) = task.map(|t| (t.job, t.task)) else {
            return;
        };
        if self.cluster.address(&job, index).is_err() {
            return;
        }
        let peer_stats = self.peers.peer_stats.with(&(job.to_string(), index));
        if slot.set_peer(peer_stats.clone()) {
            tracing::info!(peer = peer_stats.peer, "peer reached again");
        }
    }
}

async fn answer(
    worker: Arc<Worker>,
    name: &str,
    mut reader: FrameReader<Body>,
) -> Result<Body, ClusterError> {
    worker.is_current()?;
    let request = reader.next().await?;
    let request = request.ok_or(WireError::Expected("a message"))?;
    let done = |kind: Kind| Ok(Body::new(Frames::of(kind)));
    let ended = || done(Kind::End(wire::End::default()));
    match (name, request) {
        ("Open", Kind::Open(open)) => {
            let master = (!open.job.is_empty()).then_some((open.job, open.index));
            admit(
                &worker,
                master.as_ref(),
                open.version,
                open.own.as_ref(),
                open.known,
            )?;
            let known = master.as_ref().map(|m| worker.peers.processes.known_to(m));
            let master = master.map(|m| (m, open.own.map_or(0, |own| own.incarnation)));
            let session = worker.open_in(
                &open.session,
                open.opening,
                open.isolated,
                master,
                &open.tasks,
            )?;
            let lease = SessionLease {
                opened: Some(wire::Opened {
                    known: known.unwrap_or_default(),
                    ..opened(&worker)
                }),
                closed: Box::pin(is_closed(session.closed.subscribe())),
                _end: CloseOnDrop(worker, open.session, session),
            };
            Ok(Body::new(FrameStream::new(lease, None)))
        }
        ("Register", Kind::Register(register)) => {
            let session = worker.opened(&register.session, register.opening)?;
            let message = register.part.unwrap_or_default();
            let mut values = Vec::new();
            for _ in 0..worker.values_of(&message)? {
                values.push(reader.value().await?.1);
            }
            let platform = worker.platform.clone();
            let make = move || worker.register(&session, &message, values);
            let part = platform.run_compute(make).await??;
            done(Kind::Registered(wire::Registered { part }))
        }
        ("Forget", Kind::Forget(forget)) => {
            let session = worker.opened(&forget.session, forget.opening)?;
            session.drop_part(forget.part);
            ended()
        }
        ("Run", Kind::Run(run)) => run_part(&worker, run, reader).await,
        ("Receive", Kind::Receive(asked)) => {
            let session = worker.session(&asked.session)?;
            let step = session.step(asked.step)?;
            let early = EarlyReceive {
                outgoing: step.outgoing(asked.task)?,
                of: Some((session, asked.step, step)),
            };
            let loans = worker.loans(asked.colocated);
            Ok(Body::new(FrameStream::new(early, loans)))
        }
        ("Colocate", Kind::Colocate(_)) if let Some(said) = worker.colocation() => {
            done(Kind::Colocation(said))
        }
        ("Clear", Kind::Clear(clear)) => {
            worker.clear(&clear.containers);
            ended()
        }
        ("Finish", Kind::Finish(finish)) => {
            worker.finish((finish.job, finish.index));
            ended()
        }
        ("Turn", Kind::Turn(turn)) => {
            let timeout = worker.peers.options.timeouts.heartbeat / 2;
            let given = worker.turns.ask(&turn, timeout).await?;
            done(Kind::TurnGiven(given))
        }
        _ => {
            let text = format!("there is no call {name}");
            Err(ClusterError::new(Cause::Unsupported, text))
        }
    }
}

/// Checks that a master may open a session: it has to use this protocol version, and to be the newest process of its
/// task.
///
/// # Errors
/// It may not, or a newer process has replaced this one.
fn admit(
    worker: &Worker,
    master: Option<&TaskName>,
    version: Option<wire::Version>,
    own: Option<&wire::Process>,
    known: Vec<wire::Process>,
) -> Result<(), ClusterError> {
    let caller = master.map(|m| worker.described(m));
    let caller = caller.as_deref().unwrap_or("the client");
    let this = worker.described(&worker.task);
    version::check_version(&this, caller, version.as_ref())?;
    worker.note_known_processes(known);
    worker.check_not_replaced()?;
    if let (Some(master), Some(own)) = (master, own) {
        let (_, process) = processes::of_message(own.clone());
        // The master of this process is of the same task.
        if *master != worker.task {
            worker.note_process(master, process)?;
        }
    }
    Ok(())
}

async fn run_part(
    worker: &Arc<Worker>,
    run: wire::Run,
    mut reader: FrameReader<Body>,
) -> Result<Body, ClusterError> {
    let came = Instant::now();
    let session = worker.opened(&run.session, run.opening)?;
    let part = session.part(run.part)?;
    let mut feeds: Vec<Tensor> = Vec::with_capacity(part.feeds.len());
    for _ in 0..part.feeds.len() {
        feeds.push(reader.value().await?.1);
    }
    let asked = RunRequest {
        step: run.step,
        feeds,
        limit: (run.limit > 0).then(|| Duration::from_micros(run.limit)),
        trace: run.trace,
        client: None,
        once: run.once,
    };
    // Feeds arrive before the part is looked up here, and after it is registered.
    let fed = came.elapsed();
    let done = worker.run(&session, &run.session, part, asked).await?;
    let mut frames = Frames::lending(worker.loans(run.colocated));
    if run.trace {
        let traced = trace::encoded(&done.trace, done.began + fed, came.elapsed());
        frames.push(Kind::Traced(traced));
    }
    for (number, value) in done.fetched.iter().enumerate() {
        frames.push_value(number as i64, value)?;
    }
    frames.push_end(None);
    Ok(Body::new(frames))
}

fn opened(worker: &Worker) -> wire::Opened {
    let cluster = &worker.cluster;
    let tasks = cluster.jobs().flat_map(|job| {
        cluster.tasks(job).map(move |(index, address)| wire::Task {
            job: job.to_owned(),
            index,
            address: address.to_owned(),
            number: 0,
        })
    });
    let (job, index) = worker.task.clone();
    wire::Opened {
        devices: worker.devices().iter().map(ToString::to_string).collect(),
        incarnation: worker.incarnation,
        tasks: tasks.collect(),
        job,
        index,
        version: Some(version::own_version()),
        started: worker.process().started,
        known: Vec::new(),
    }
}

async fn is_closed(mut closed: watch::Receiver<bool>) {
    // An error means that the session is gone.
    let _ = closed.wait_for(|c| *c).await;
}

/// Stream of a session: the session lives while it is open.
struct SessionLease {
    opened: Option<wire::Opened>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    _end: CloseOnDrop,
}

impl FrameSource for SessionLease {
    fn poll(&mut self, frames: &mut Frames, cx: &mut Context<'_>) -> Poll<bool> {
        if let Some(opened) = self.opened.take() {
            frames.push(Kind::Opened(opened));
            return Poll::Ready(true);
        }
        self.closed.as_mut().poll(cx).map(|()| false)
    }
}

/// Closes a session when it is dropped.
struct CloseOnDrop(Arc<Worker>, String, Arc<WorkerSession>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close(&self.1, &self.2);
    }
}

/// Values for a task that may have asked before the step has begun here.
struct EarlyReceive {
    outgoing: OutgoingValues,
    of: Option<(Arc<WorkerSession>, u64, Arc<WorkerStep>)>,
}

impl FrameSource for EarlyReceive {
    fn poll(&mut self, frames: &mut Frames, cx: &mut Context<'_>) -> Poll<bool> {
        self.outgoing.poll(frames, cx)
    }
}

impl Drop for EarlyReceive {
    fn drop(&mut self) {
        if let Some((session, number, step)) = self.of.take()
            && !step.has_begun()
        {
            session.forget(number, &step);
        }
    }
}

#[cfg(test)]
mod tests;
