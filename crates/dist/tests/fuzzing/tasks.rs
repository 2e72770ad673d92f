//! A task, as other tasks and masters call it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use thalweg_graph::{Graph, OutputId};
use thalweg_ops::{ArrayOps, FlowOps, LinalgOps, MathOps, NewGraph, SourceOps, StateOps};
use thalweg_plan::TaskPartitioner;
use thalweg_session::{Engine, Fetch, SessionOptions};
use thalweg_tensor::{DType, Dims, Memory, Tensor};
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::{Body as _, Service, http};

use crate::cluster::spec::ClusterSpec;
use crate::limits::server_limits::Limits;
use crate::limits::timeouts::Timeouts;
use crate::runtime::platform::system;
use crate::transport::frames::Frames;
use crate::transport::messages::header::Kind;
use crate::transport::network::Tcp;
use crate::transport::parts::codec;
use crate::transport::peers::{PeerOptions, Peers, SERVICE_PATH};
use crate::transport::{messages as wire, version};
use crate::worker::service::WorkerService;
use crate::worker::state::{Worker, WorkerSession};

/// Names of a task's calls.
pub const CALLS: [&str; 8] = [
    "Register", "Run", "Receive", "Colocate", "Clear", "Finish", "Forget", "Open",
];
/// Time limit of a response: a call that waits for missing input is dropped, as by a client that disconnects.
const BEGINS: Duration = Duration::from_millis(300);
/// Time limit of the next bytes of a response.
const GOES_ON: Duration = Duration::from_millis(5);
/// Handle of the session in all messages.
const SESSION: &str = "s";

/// A task with a session, and small limits.
pub struct FuzzedTask {
    pub(crate) worker: Arc<Worker>,
    session: Arc<WorkerSession>,
    runtime: Runtime,
}

impl Default for FuzzedTask {
    fn default() -> FuzzedTask {
        FuzzedTask::new(little())
    }
}

impl FuzzedTask {
    /// Returns a task with these limits.
    pub(crate) fn new(limits: Limits) -> FuzzedTask {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime without threads is made");
        let worker = worker(runtime.handle().clone(), limits);
        let session = worker.open(SESSION, 0, false, None);
        FuzzedTask {
            session: session.expect("the first session is taken"),
            worker,
            runtime,
        }
    }
}

impl Drop for FuzzedTask {
    fn drop(&mut self) {
        self.worker.close(SESSION, &self.session);
    }
}

impl FuzzedTask {
    /// Closes the session with all its parts, and opens it again.
    pub fn reopen(&mut self) {
        let session = self.worker.open(SESSION, 0, false, None);
        self.session = session.expect("it takes the place of the one before");
        self.worker.clear(&[]);
    }

    /// Returns its session.
    #[cfg(test)]
    pub(crate) fn session(&self) -> &Arc<WorkerSession> {
        &self.session
    }

    /// Starts a call of `name` with a body that begins with these bytes and does not end.
    #[cfg(test)]
    pub(crate) fn begin(&self, name: &str, body: Vec<u8>) -> tokio::task::JoinHandle<()> {
        let body = Body::new(Chunks {
            rest: body.into(),
            ends: false,
        });
        let request = http::Request::builder().uri(format!("{SERVICE_PATH}{name}"));
        let request = request.body(body).expect("names of calls are of paths");
        let call = WorkerService(self.worker.clone()).call(request);
        let begun = self.runtime.spawn(async {
            // The response is kept until the call is ended.
            let _answer = call.await;
            std::future::pending::<()>().await;
        });
        // Lets it run as far as it can.
        self.runtime.block_on(tokio::task::yield_now());
        begun
    }

    /// Ends an open call.
    #[cfg(test)]
    pub(crate) fn end(&self, call: tokio::task::JoinHandle<()>) {
        call.abort();
        // The join reports the abort.
        let _ = self.runtime.block_on(call);
    }

    /// Calls `name` with these bytes as the body. Returns the bytes of the response that arrive at once.
    pub fn call(&self, name: &str, body: Vec<u8>) -> Vec<u8> {
        self.runtime.block_on(call(&self.worker, name, body))
    }
}

/// Small limits of a task.
pub(crate) fn little() -> Limits {
    Limits {
        value_bytes: 1 << 20,
        flight_bytes: 4 << 20,
        expanded_bytes: 1 << 20,
        graph_nodes: 1 << 12,
        sessions: 4,
        callables: 4,
        ..Limits::default()
    }
}

/// Returns a task of a cluster with one task.
fn worker(handle: tokio::runtime::Handle, limits: Limits) -> Arc<Worker> {
    let options = SessionOptions::new()
        .threads(1)
        .default_memory_limit(1 << 20)
        .shared_memory(1 << 20);
    let cluster = ClusterSpec::new([("localhost", ["127.0.0.1:1"])]);
    let timeouts = Timeouts {
        heartbeat: Duration::from_millis(200),
        ..Timeouts::default()
    };
    let peer_options = PeerOptions {
        own: None,
        network: Arc::new(Tcp),
        timeouts,
        shared_memory: true,
        protection: None,
        limit: limits.value_bytes,
        flight: Arc::new(Memory::new(Some(limits.flight_bytes as usize))),
    };
    let platform = system(handle);
    Arc::new(Worker::new(
        Engine::new(&options).expect("a CPU is there"),
        options,
        limits,
        (
            cluster.expect("the cluster is one"),
            ("localhost".to_owned(), 0),
        ),
        Arc::new(Peers::new(platform.clone(), peer_options, Arc::default())),
        platform,
    ))
}

async fn call(worker: &Arc<Worker>, name: &str, body: Vec<u8>) -> Vec<u8> {
    let request = http::Request::builder()
        .uri(format!("{SERVICE_PATH}{name}"))
        .body(Body::new(Chunks::of(body)))
        .expect("names of calls are of paths");
    let answer = WorkerService(worker.clone()).call(request);
    let Ok(Ok(answer)) = tokio::time::timeout(BEGINS, answer).await else {
        return Vec::new();
    };
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    loop {
        let next = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        match tokio::time::timeout(GOES_ON, next).await {
            Ok(Some(Ok(frame))) => bytes.extend(frame.into_data().unwrap_or_default()),
            _ => return bytes,
        }
    }
}

/// A body in pieces of odd sizes, with an end or without.
pub(super) struct Chunks {
    rest: Bytes,
    ends: bool,
}

impl Chunks {
    /// Returns a body of all of these bytes.
    pub(super) fn of(bytes: Vec<u8>) -> Chunks {
        Chunks {
            rest: bytes.into(),
            ends: true,
        }
    }
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let n = self.rest.len().min(1021);
        let piece = self.rest.split_to(n);
        match n {
            0 if !self.ends => Poll::Pending,
            0 => Poll::Ready(None),
            _ => Poll::Ready(Some(Ok(http_body::Frame::data(piece)))),
        }
    }
}

/// Returns the bytes of frames.
pub(crate) fn bytes_of(frames: &mut Frames) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut cx = Context::from_waker(std::task::Waker::noop());
    while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut *frames).poll_frame(&mut cx) {
        bytes.extend(frame.into_data().unwrap_or_default());
    }
    bytes
}

/// Returns the valid body of a call. The first registered part has the number 1, to which the others refer.
pub fn message(name: &str) -> Vec<u8> {
    let session = SESSION.to_owned();
    bytes_of(&mut Frames::of(match name {
        "Register" => return register().0,
        "Run" => return run(1, 7),
        "Receive" => Kind::Receive(wire::Receive {
            session,
            step: 7,
            ..wire::Receive::default()
        }),
        "Colocate" => Kind::Colocate(wire::Colocate {}),
        "Clear" => Kind::Clear(wire::Clear {
            containers: vec!["c".to_owned()],
        }),
        "Finish" => Kind::Finish(wire::Finish {
            job: "localhost".to_owned(),
            index: 0,
        }),
        "Forget" => Kind::Forget(wire::Forget {
            session,
            part: 1,
            opening: 0,
        }),
        _ => Kind::Open(wire::Open {
            session: "another".to_owned(),
            version: Some(version::own_version()),
            ..wire::Open::default()
        }),
    }))
}

/// Returns an encoded part with a loop, a variable, a function, a region and constants, and the number of values that
/// follow it.
pub(crate) fn register() -> (Vec<u8>, usize) {
    let (message, values) = part();
    (registration(message, &values), values.len())
}

/// Returns a part and its values as the body of a call.
pub(crate) fn registration(message: wire::Part, values: &[Tensor]) -> Vec<u8> {
    let mut frames = Frames::of(Kind::Register(wire::Register {
        session: SESSION.to_owned(),
        part: Some(message),
        opening: 0,
    }));
    for value in values {
        frames.push_value(0, value).expect("constants can be sent");
    }
    bytes_of(&mut frames)
}

/// Returns the part of [`register`], and the values of its constant nodes.
pub(crate) fn part() -> (wire::Part, Vec<Tensor>) {
    let g = Graph::new();
    let square = |values: [f32; 4]| Tensor::new(&[2, 2], &values).expect("four elements");
    let x = g.placeholder("x", thalweg_tensor::DType::F32, [2, 2]);
    let w = g.variable("w", square([1.0, 2.0, 3.0, 4.0]));
    let product = x.matmul(g.constant(square([0.5; 4])));
    let counted = g.while_loop(
        &[g.constant(0i32)],
        |b, v| v[0].less(b.constant(3i32)),
        |b, v| vec![v[0] + b.constant(1i32)],
    );
    let sum = product + counted[0].cast(thalweg_tensor::DType::F32);
    let branch = g
        .op("Switch")
        .input(sum)
        .input(g.constant(true))
        .name("branch")
        .build();
    // Of three: two would be compiled, and the part would have no region.
    let sides = [
        branch.output(0) * 2.0,
        branch.output(1) + 1.0,
        branch.output(0) - 1.0,
    ];
    let sum = g.op("Merge").inputs(sides).output();
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let feeds = [(x.id(), x.dtype(), smallvec::smallvec![2, 2])];
    let fetches = [Fetch::Value(sum.id()), Fetch::Run(w.initializer().id())];
    cut(&g, &fetches, &feeds)
}

/// Returns the part of a graph with these fetches, and the values of its constant nodes.
pub(crate) fn cut(
    g: &Graph,
    fetches: &[Fetch],
    feeds: &[(OutputId, DType, Dims)],
) -> (wire::Part, Vec<Tensor>) {
    let options = SessionOptions::new().threads(1);
    let engine = Engine::new(&options).expect("a CPU is there");
    let devices: Vec<_> = engine.devices().iter().map(|d| d.name().clone()).collect();
    let numbered = devices.iter().map(|d| (d.clone(), 0)).collect();
    let partitioner =
        TaskPartitioner::new(engine.machine().clone(), options.plan_options(), numbered);
    let cut = partitioner.cut(&g.snapshot(), fetches, feeds);
    let cut = cut.expect("the graph can be cut");
    let tasks = [("localhost".to_owned(), 0)];
    codec::encoded(&cut.parts[0], &cut.channels, &devices, &tasks)
        .expect("what was cut can be sent")
}

/// Returns a run of this part in this step, with its feed.
pub(crate) fn run(part: u64, step: u64) -> Vec<u8> {
    let mut frames = Frames::of(Kind::Run(wire::Run {
        once: None,
        session: SESSION.to_owned(),
        part,
        step,
        limit: 1_000_000,
        colocated: 0,
        trace: true,
        opening: 0,
    }));
    let feed = Tensor::new(&[2, 2], &[1.0f32; 4]).expect("four elements");
    frames.push_value(0, &feed).expect("numbers can be sent");
    bytes_of(&mut frames)
}
