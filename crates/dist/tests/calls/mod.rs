//! Recorded calls of `tensorflow.MasterService`: encoded requests and responses.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt, Full};
use prost::Message;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// A call and its response.
#[derive(Clone, PartialEq, Message)]
pub struct Call {
    /// Path, such as `/tensorflow.MasterService/RunStep`.
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub request: Bytes,
    #[prost(int32, tag = "3")]
    pub code: i32,
    /// Message of the error.
    #[prost(string, tag = "4")]
    pub message: String,
    #[prost(bytes = "bytes", tag = "5")]
    pub response: Bytes,
}

/// Returns the file of a case.
pub fn file(case: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    here.join(format!("{case}.gz"))
}

/// Reads the recorded calls of a case.
pub fn load(case: &str) -> Vec<Call> {
    let packed = std::fs::read(file(case)).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    let mut rest = Bytes::from(bytes);
    let mut calls = Vec::new();
    while !rest.is_empty() {
        calls.push(Call::decode_length_delimited(&mut rest).unwrap());
    }
    calls
}

/// Writes the file of a case.
pub fn save(case: &str, calls: &[Call]) {
    let all = calls
        .iter()
        .flat_map(|c| c.encode_length_delimited_to_vec());
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&all.collect::<Vec<u8>>()).unwrap();
    std::fs::write(file(case), packed.finish().unwrap()).unwrap();
}

/// Calls a server. A message has a prefix: a flag for compression, and four bytes of its length.
pub async fn called(channel: &mut Channel, path: &str, request: Bytes) -> Call {
    let length = u32::try_from(request.len()).unwrap().to_be_bytes();
    let framed = [&[0], &length[..], &request].concat();
    let head = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/grpc")
        .header(http::header::TE, "trailers");
    let asked = head.body(Body::new(Full::from(framed))).unwrap();
    std::future::poll_fn(|cx| Service::<http::Request<Body>>::poll_ready(channel, cx))
        .await
        .unwrap();
    let (head, body) = channel.call(asked).await.unwrap().into_parts();
    let body = body.collect().await.unwrap();
    let none = http::HeaderMap::new();
    let status = Status::from_header_map(body.trailers().unwrap_or(&none))
        .or_else(|| Status::from_header_map(&head.headers))
        .expect("an answer has a status");
    Call {
        path: path.to_owned(),
        request,
        code: status.code() as i32,
        message: status.message().to_owned(),
        response: message(body.to_bytes()),
    }
}

/// Returns the message of a frame; empty if there is none.
fn message(mut framed: Bytes) -> Bytes {
    if framed.is_empty() {
        return framed;
    }
    let head = framed.split_to(5);
    assert_eq!(head[0], 0, "a message is compressed");
    assert_eq!(
        head[1..],
        u32::try_from(framed.len()).unwrap().to_be_bytes()
    );
    framed
}

/// Proxy of a server that records all calls.
#[derive(Clone)]
pub struct Recorder {
    pub server: Channel,
    pub calls: Arc<Mutex<Vec<Call>>>,
}

impl NamedService for Recorder {
    const NAME: &'static str = "tensorflow.MasterService";
}

impl Service<http::Request<Body>> for Recorder {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, asked: http::Request<Body>) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move {
            let path = asked.uri().path().to_owned();
            let request = asked.into_body().collect().await.unwrap().to_bytes();
            let call = called(&mut this.server, &path, message(request)).await;
            this.calls.lock().unwrap().push(call.clone());
            Ok(answer(call))
        })
    }
}

fn answer(call: Call) -> http::Response<Body> {
    if call.code != Code::Ok as i32 {
        return Status::new(Code::from_i32(call.code), call.message).into_http();
    }
    let length = u32::try_from(call.response.len()).unwrap().to_be_bytes();
    let framed = [&[0], &length[..], &call.response].concat();
    let mut trailers = http::HeaderMap::new();
    trailers.insert(Status::GRPC_STATUS, http::HeaderValue::from_static("0"));
    let trailers: Ready<Option<Result<_, Infallible>>> = ready(Some(Ok(trailers)));
    let body = Body::new(Full::from(framed).with_trailers(trailers));
    let answer = http::Response::builder().header(http::header::CONTENT_TYPE, "application/grpc");
    answer.body(body).unwrap()
}
