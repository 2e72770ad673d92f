//! Hostile requests to a server with little memory.

#![cfg(target_os = "linux")]

#[path = "support/server_process.rs"]
mod server_process;

use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt, Full};
use server_process::ServerProcess;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// Calls with this body, and returns the status.
async fn call_with(
    channel: &mut Channel,
    call: &str,
    gzip: bool,
    body: Body,
) -> Result<(), Status> {
    let path = format!("http://server/tensorflow.MasterService/{call}");
    let mut request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if gzip {
        request = request.header("grpc-encoding", "gzip");
    }
    std::future::poll_fn(|cx| channel.poll_ready(cx))
        .await
        .map_err(|e| Status::from_error(e.into()))?;
    let answer = channel.call(request.body(body).unwrap()).await;
    let answer = answer.map_err(|e| Status::from_error(e.into()))?;
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return Err(status);
    }
    let collected = answer.into_body().collect().await?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    match Status::from_header_map(&trailers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        Some(_) => Ok(()),
        None => Err(Status::unknown("no status came")),
    }
}

fn head(compressed: bool, length: usize) -> Vec<u8> {
    let length = u32::try_from(length).unwrap();
    [&[u8::from(compressed)], &length.to_be_bytes()[..]].concat()
}

fn framed(compressed: bool, message: &[u8]) -> Body {
    let bytes = [head(compressed, message.len()), message.to_vec()].concat();
    Body::new(Full::from(bytes))
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn with_channel<F: Future<Output = ()>>(server: &ServerProcess, test: impl FnOnce(Channel) -> F) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(server.http()).unwrap();
        let channel = endpoint.connect().await.unwrap();
        let test = tokio::time::timeout(Duration::from_secs(60), test(channel));
        test.await.expect("the server does not answer");
    });
}

#[test]
fn a_small_message_that_decodes_to_gigabytes_is_refused() {
    let server = ServerProcess::limited("-v 4194304");
    // A CreateSessionRequest with a graph of eighty million nodes of two bytes each.
    let nodes = 160_000_000;
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed
        .write_all(&[vec![10], varint(nodes)].concat())
        .unwrap();
    let piece = [10, 0].repeat(500_000);
    for _ in 0..nodes / piece.len() {
        packed.write_all(&piece).unwrap();
    }
    let packed = packed.finish().unwrap();
    assert!(packed.len() < 1 << 20, "{}", packed.len());
    with_channel(&server, |mut channel| async move {
        let body = framed(true, &packed);
        let refused = call_with(&mut channel, "CreateSession", true, body).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        assert!(refused.message().contains("--decoded-bytes"), "{refused}");
        let good = call_with(&mut channel, "CreateSession", false, framed(false, &[])).await;
        good.unwrap();
    });
}

#[test]
fn announced_bytes_allocate_no_memory() {
    let server = ServerProcess::limited("-v 4194304");
    with_channel(&server, |mut channel| async move {
        let mut open = Vec::new();
        for _ in 0..40 {
            // The length announces 500 MB, and then no byte follows.
            let body = Body::new(Stalled(Some(head(false, 500_000_000).into())));
            let mut channel = channel.clone();
            let call = async move { call_with(&mut channel, "CreateSession", false, body).await };
            open.push(tokio::spawn(call));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(open.iter().all(|call| !call.is_finished()));
        let good = call_with(&mut channel, "CreateSession", false, framed(false, &[])).await;
        good.unwrap();
        open.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

/// Body that stalls after its first part.
struct Stalled(Option<Bytes>);

impl http_body::Body for Stalled {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(data) => Poll::Ready(Some(Ok(http_body::Frame::data(data)))),
            None => Poll::Pending,
        }
    }
}

#[test]
fn a_small_file_that_decodes_to_gigabytes_is_refused() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("door-nodes.pb");
    std::fs::write(&path, [10, 0].repeat(20_000_000)).unwrap();
    for call in [&["run", "--target", "n"][..], &["graph"], &["inspect"]] {
        let mut command = Command::new("sh");
        let script = "ulimit -v 4194304 && exec \"$0\" \"$@\"";
        command.args(["-c", script, env!("CARGO_BIN_EXE_thalweg")]);
        let done = command.args(call).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{call:?}: {said}");
        assert!(
            said.contains("bytes of memory once it is decoded"),
            "{said}"
        );
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_call_without_exactly_one_message_is_refused() {
    let server = ServerProcess::limited("-v 4194304");
    with_channel(&server, |mut channel| async move {
        let short = [head(false, 10), vec![0; 5]].concat();
        let two = [head(false, 0), head(false, 0)].concat();
        let strange = [&[7][..], &head(false, 0)[1..]].concat();
        let whole = |bytes: Vec<u8>| Body::new(Full::from(bytes));
        for (body, what) in [
            (whole(Vec::new()), "ended before"),
            (whole(vec![0, 0]), "ended before"),
            (whole(short), "ended before"),
            (whole(two), "another one came"),
            (whole(strange), "no message"),
            (framed(true, &[1, 2, 3]), "no header says how"),
            (framed(false, &[0xff; 20]), "cannot be decoded"),
        ] {
            let refused = call_with(&mut channel, "CreateSession", false, body).await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), Code::Internal, "{refused}");
            assert!(refused.message().contains(what), "{refused}");
        }
        let broken = call_with(&mut channel, "RunStep", true, framed(true, &[1, 2, 3])).await;
        assert!(broken.unwrap_err().message().contains("decompressed"));
        let unknown = call_with(&mut channel, "Nothing", false, framed(false, &[])).await;
        assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
        let good = call_with(&mut channel, "CreateSession", false, framed(false, &[])).await;
        good.unwrap();
    });
}
