//! What comes from a peer that does not mean well.

use std::time::Duration;

use proptest::prelude::*;
use prost::Message;
use thalweg_graph::{DType, Graph, Tensor};
use thalweg_ops::{ArrayOps, FlowOps, LinalgOps, MathOps, NewGraph, SourceOps, StateOps};
use thalweg_session::{Cutter, Engine, Fetch, SessionOptions};

use super::*;
use crate::allowed::AllowedOps;
use crate::cluster::ClusterSpec;
use crate::limits::Limits;
use crate::peers::{Patience, Peers, Reach};
use crate::platform::system;
use crate::wire::part;

fn worker(handle: tokio::runtime::Handle, ops: AllowedOps) -> Arc<Worker> {
    let options = SessionOptions::with_threads(1);
    let cluster = ClusterSpec::new([("localhost", ["127.0.0.1:1"])]).unwrap();
    let limits = Limits {
        value_bytes: 1 << 20,
        expanded_bytes: 1 << 20,
        ops,
        ..Limits::default()
    };
    let patience = Patience {
        silence: Duration::from_millis(200),
        ..Patience::default()
    };
    let reach = Reach {
        patience,
        near: true,
        protection: None,
        limit: 1 << 20,
        flight: 4 << 20,
    };
    let platform = system(handle);
    Arc::new(Worker::new(
        Engine::new(&options).unwrap(),
        options,
        limits,
        (cluster, ("localhost".to_owned(), 0)),
        Arc::new(Peers::new(platform.clone(), reach)),
        platform,
    ))
}

/// Calls `name` with these bytes as the body; gives the bytes of the answer that come at once.
async fn call(worker: &Arc<Worker>, name: &str, body: Vec<u8>) -> Vec<u8> {
    let body = Body::new(http_body_of(body));
    let request = http::Request::builder().uri(format!("{PATH}{name}"));
    let mut service = WorkerService(worker.clone());
    let answer = service.call(request.body(body).unwrap());
    // One that waits for what does not come is dropped, as by a client that goes.
    let Ok(answer) = tokio::time::timeout(Duration::from_millis(300), answer).await else {
        return Vec::new();
    };
    let mut body = answer.unwrap().into_body();
    let mut bytes = Vec::new();
    loop {
        let next = std::future::poll_fn(|cx| {
            use tonic::codegen::Body as _;
            Pin::new(&mut body).poll_frame(cx)
        });
        match tokio::time::timeout(Duration::from_millis(5), next).await {
            Ok(Some(Ok(frame))) => bytes.extend(frame.into_data().unwrap()),
            _ => return bytes,
        }
    }
}

/// A body of these bytes, in pieces of odd sizes.
fn http_body_of(
    bytes: Vec<u8>,
) -> impl tonic::codegen::Body<Data = bytes::Bytes, Error = Infallible> + Send + Unpin + 'static {
    struct Pieces(bytes::Bytes);
    impl tonic::codegen::Body for Pieces {
        type Data = bytes::Bytes;
        type Error = Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Infallible>>> {
            let n = self.0.len().min(1021);
            let piece = self.0.split_to(n);
            Poll::Ready((n > 0).then(|| Ok(http_body::Frame::data(piece))))
        }
    }
    Pieces(bytes.into())
}

fn bytes_of(frames: Frames) -> Vec<u8> {
    use tonic::codegen::Body as _;
    let mut frames = frames;
    let mut bytes = Vec::new();
    let mut cx = Context::from_waker(std::task::Waker::noop());
    while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut frames).poll_frame(&mut cx) {
        bytes.extend(frame.into_data().unwrap());
    }
    bytes
}

/// A part with a loop, a variable, a function and constants, as it goes over the wire.
fn register() -> (Vec<u8>, usize) {
    let g = Graph::new();
    let x = g.placeholder("x", thalweg_graph::DType::F32, [2, 2]);
    let w = g.variable("w", Tensor::new(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap());
    let product = x.matmul(g.constant(Tensor::new(&[2, 2], &[0.5f32; 4]).unwrap()));
    let counted = g.while_loop(
        &[g.constant(0i32)],
        |b, v| v[0].less(b.constant(3i32)),
        |b, v| vec![v[0] + b.constant(1i32)],
    );
    let sum = product + counted[0].cast(thalweg_graph::DType::F32);
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let options = SessionOptions::with_threads(1);
    let engine = Engine::new(&options).unwrap();
    let devices: Vec<_> = engine.devices().iter().map(|d| d.name().clone()).collect();
    let numbered = devices.iter().map(|d| (d.clone(), 0)).collect();
    let cutter = Cutter::new(engine, options, numbered);
    let feeds = [(x.id(), x.dtype(), smallvec::smallvec![2, 2])];
    let fetches = [Fetch::Value(sum.id()), Fetch::Run(w.initializer().id())];
    let cut = cutter.cut(&g.snapshot(), &fetches, &feeds).unwrap();
    let tasks = [("localhost".to_owned(), 0)];
    let (message, values) = part::encoded(&cut.parts[0], &cut.channels, &devices, &tasks).unwrap();
    let mut frames = Frames::of(Kind::Register(wire::Register {
        session: "s".to_owned(),
        part: Some(message),
    }));
    for value in &values {
        frames.push_value(0, value).unwrap();
    }
    (bytes_of(frames), values.len())
}

fn run(part: u64, step: u64) -> Vec<u8> {
    let mut frames = Frames::of(Kind::Run(wire::Run {
        session: "s".to_owned(),
        part,
        step,
        limit: 1_000_000,
        near: 0,
        trace: true,
    }));
    let feed = Tensor::new(&[2, 2], &[1.0f32; 4]).unwrap();
    frames.push_value(0, &feed).unwrap();
    bytes_of(frames)
}

/// What an answer ends with.
fn end(answer: &[u8]) -> wire::End {
    let (mut rest, mut last) = (answer, wire::End::default());
    last.code = -1;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (header, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        rest = after;
        match wire::Header::decode(header).unwrap().kind {
            Some(Kind::Value(v)) => rest = &rest[v.bytes as usize..],
            Some(Kind::End(e)) => last = e,
            _ => last.code = 0,
        }
    }
    last
}

fn with_session<T>(test: impl AsyncFnOnce(Arc<Worker>) -> T) -> T {
    with_ops(AllowedOps::all(), test)
}

fn with_ops<T>(ops: AllowedOps, test: impl AsyncFnOnce(Arc<Worker>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    let worker = worker(runtime.handle().clone(), ops);
    runtime.block_on(async {
        let session = worker.open("s", false, None).unwrap();
        let result = test(worker.clone()).await;
        worker.close("s", &session);
        result
    })
}

#[test]
fn a_part_that_is_as_it_should_be_runs() {
    with_session(async |worker| {
        let (message, values) = register();
        assert!(values > 0);
        let answer = call(&worker, "Register", message).await;
        assert_eq!(end(&answer).code, 0, "{:?}", end(&answer));
        let answer = call(&worker, "Run", run(1, 7)).await;
        assert_eq!(end(&answer).code, 0, "{:?}", end(&answer));
    });
}

#[test]
fn what_comes_in_on_calls_that_go_on_is_bounded_and_what_is_announced_does_not_count() {
    with_session(async |worker| {
        let asked = wire::Register {
            session: "s".to_owned(),
            part: Some(wire::Part {
                node: vec![wire::Node {
                    name: "n".to_owned(),
                    op: "Const".to_owned(),
                    known: 8,
                    ..wire::Node::default()
                }],
                ..wire::Part::default()
            }),
        };
        let value = Tensor::zeros(DType::F32, &[1 << 18]).unwrap();
        let mut frames = Frames::of(Kind::Register(asked.clone()));
        for _ in 0..8 {
            frames.push_value(0, &value).unwrap();
        }
        // 8 MiB on one call, where 4 may be.
        let answer = end(&call(&worker, "Register", bytes_of(frames)).await);
        assert_eq!(answer.code, Code::ResourceExhausted as i32, "{answer:?}");
        assert!(answer.message.contains("flight_bytes"), "{answer:?}");
        // Announced by many, who then send nothing.
        let mut announced = Frames::of(Kind::Register(asked));
        announced.push_value(0, &value).unwrap();
        let mut announced = bytes_of(announced);
        announced.truncate(announced.len() - (1 << 20));
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let body = Body::new(Endless(Some(announced.clone().into())));
                let request = http::Request::builder().uri(format!("{PATH}Register"));
                let mut service = WorkerService(worker.clone());
                tokio::spawn(service.call(request.body(body).unwrap()))
            })
            .collect();
        tokio::task::yield_now().await;
        let (message, _) = register();
        let answer = end(&call(&worker, "Register", message).await);
        assert_eq!(answer.code, 0, "{answer:?}");
        waiting.iter().for_each(|w| w.abort());
    });
}

/// A body that has begun and does not end.
struct Endless(Option<bytes::Bytes>);

impl tonic::codegen::Body for Endless {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Infallible>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(http_body::Frame::data(bytes)))),
            None => Poll::Pending,
        }
    }
}

#[test]
fn a_part_with_an_op_that_is_not_allowed_is_refused() {
    let some = AllowedOps::only(["MatMul"]).unwrap();
    with_ops(some, async |worker| {
        let (message, _) = register();
        let answer = end(&call(&worker, "Register", message).await);
        assert_eq!(answer.code, Code::PermissionDenied as i32, "{answer:?}");
    });
}

#[test]
fn what_does_not_belong_together_is_an_error() {
    with_session(async |worker| {
        for (name, body) in [
            ("Run", run(99, 1)),
            ("Register", run(1, 1)),
            ("Nothing", run(1, 1)),
            ("Run", Vec::new()),
            ("Open", vec![0xff; 3]),
            ("Open", vec![0xff; 64]),
        ] {
            let answer = end(&call(&worker, name, body).await);
            assert!(answer.code > 0, "{name}: {answer:?}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_of_a_peer_do_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        name in prop_oneof![Just("Register"), Just("Run"), Just("Receive"), Just("Open"), Just("Clear"), Just("Near")],
    ) {
        let (mut message, _) = register();
        for (at, byte) in &changes {
            let at = at.index(message.len());
            message[at] = *byte;
        }
        if let Some(cut) = cut {
            message.truncate(cut.index(message.len()));
        }
        with_session(async |worker| {
            call(&worker, "Register", message.clone()).await;
            // Whatever was taken for a part is run.
            call(&worker, "Run", run(1, 7)).await;
            call(&worker, name, message.clone()).await;
        });
    }
}
