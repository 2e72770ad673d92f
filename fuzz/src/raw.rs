//! A server under raw input: bytes that are no calls, and calls with compressed or invalid messages.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use thalweg_dist::{Limits, Server, ServerOptions};
use thalweg_session::SessionOptions;
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::Channel;

/// HTTP/2's connection preface, and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Timeout of an answer to raw bytes.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(2);
/// Timeout after which the client drops a call.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// The most bytes of a message before it is compressed.
const MAX_MESSAGE_BYTES: usize = 1 << 22;

/// Paths of the calls.
pub const PATHS: [&str; 16] = [
    "/tensorflow.MasterService/CreateSession",
    "/tensorflow.MasterService/ExtendSession",
    "/tensorflow.MasterService/RunStep",
    "/tensorflow.MasterService/PartialRunSetup",
    "/tensorflow.MasterService/MakeCallable",
    "/tensorflow.MasterService/RunCallable",
    "/tensorflow.MasterService/ListDevices",
    "/tensorflow.MasterService/Reset",
    "/thalweg.Worker/Open",
    "/thalweg.Worker/Register",
    "/thalweg.Worker/Run",
    "/thalweg.Worker/Receive",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/nothing",
];

/// A server with low limits, and a connection to it.
pub struct RawClient {
    channel: Channel,
    runtime: Runtime,
    server: Server,
}

/// Ignores SIGPIPE: a write to a closed connection is then an error. Rust's main function ignores the signal, but a
/// target's main function is libFuzzer's.
pub fn ignore_closed_connections() {
    // SAFETY: no handler runs.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

impl Default for RawClient {
    fn default() -> RawClient {
        ignore_closed_connections();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime without threads is made");
        let limits = Limits {
            message_bytes: 1 << 20,
            graph_nodes: 1 << 12,
            sessions: 4,
            ..Limits::default()
        };
        let session = SessionOptions::new().threads(1);
        let options = ServerOptions::listening("127.0.0.1:0").session(session).limits(limits);
        let server = Server::start(options).expect("a port is free");
        let address = format!("http://{}", server.address());
        let endpoint = Channel::from_shared(address).expect("an address is a part of one");
        let channel = runtime.block_on(async { endpoint.connect_lazy() });
        RawClient { channel, runtime, server }
    }
}

impl RawClient {
    /// Sends bytes on a new connection, after HTTP/2's preface if `greets`.
    pub fn send(&self, greets: bool, bytes: &[u8]) {
        let Ok(mut stream) = TcpStream::connect(self.server.address()) else {
            panic!("the server does not listen any more");
        };
        // The server may close it at any time.
        let _ = stream.set_read_timeout(Some(ANSWER_TIMEOUT));
        let _ = stream.write_all(if greets { PREFACE } else { b"" });
        let _ = stream.write_all(bytes);
        let _ = stream.read(&mut [0; 4096]);
    }

    /// Makes a call whose message is these bytes, repeated and compressed according to the first three bytes.
    pub fn call(&mut self, input: &[u8]) {
        let Some((&[which, how, times], bytes)) = input.split_first_chunk() else {
            return;
        };
        let times = (1usize << (times % 20)).min(MAX_MESSAGE_BYTES / bytes.len().max(1)).max(1);
        let message = bytes.repeat(times);
        let (encoding, message) = match how % 4 {
            0 => ("identity", message),
            1 => ("gzip", gzip(&message)),
            2 => ("deflate", deflate(&message)),
            // The header announces compression, and the message is not compressed.
            _ => ("gzip", message),
        };
        let mut body = vec![u8::from(encoding != "identity")];
        body.extend((message.len() as u32).to_be_bytes());
        body.extend(message);
        let request = http::Request::post(PATHS[usize::from(which) % PATHS.len()])
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-encoding", encoding)
            .header("grpc-timeout", "200m")
            .body(Body::new(http_body_util::Full::new(tonic::codegen::Bytes::from(body))));
        let request = request.expect("the parts are those of a request");
        let channel = &mut self.channel;
        let called = async {
            std::future::poll_fn(|cx| Service::<http::Request<Body>>::poll_ready(channel, cx)).await?;
            channel.call(request).await
        };
        let answered = self.runtime.block_on(async { tokio::time::timeout(CLIENT_TIMEOUT, called).await });
        if let Ok(Err(e)) = answered {
            // A reset stream is an answer; the server must still accept connections.
            assert!(TcpStream::connect(self.server.address()).is_ok(), "{e:?}");
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes all")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes all")
}
