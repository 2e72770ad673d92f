//! TensorFlow's `MasterService` over HTTP/2: decodes messages, counts their memory, routes calls to the master.
//!
//! Memory is reserved before it is allocated: for received bytes, for decompressed bytes, and for the decoded
//! message. A message above a limit is refused, and the error names the limit.

use std::convert::Infallible;
use std::io::Read;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http_body::{Body as _, Frame};
use prost::Message;
use thalweg_graphdef::sizes::{Measured, decoded_bytes};
use thalweg_tensor::Reservation;
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;

use super::call::{CallContext, reserve, run_compute};
use super::leases::{Caller, ConnectionAlive};
use super::master::Master;
use super::status::{Status, limit_exceeded};
use crate::limits::server_limits::Limits;
use crate::limits::settings::limit_name;
use crate::metrics::counters::GaugeGuard;
use crate::transport::connections::table::ConnectionSlot;

const MESSAGE_BYTES: &str = limit_name("message_bytes");

/// Length of the prefix of a message: a flag for compression, and the message's length.
const MESSAGE_HEADER: usize = 5;
/// Time without bytes in the middle of a message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum size of a message that is decoded or encoded on a compute thread, in bytes.
const MIN_OFFLOADED_BYTES: usize = 1 << 20;
/// Bytes that are decompressed at a time.
const CHUNK_BYTES: usize = 64 << 10;
const ENCODINGS: &str = "identity,gzip,deflate";

/// The service that TensorFlow's clients call.
#[derive(Clone)]
pub(crate) struct MasterGrpcService(pub(crate) Arc<Master>);

impl NamedService for MasterGrpcService {
    const NAME: &'static str = "tensorflow.MasterService";
}

impl Service<http::Request<Body>> for MasterGrpcService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let master = self.0.clone();
        Box::pin(async move {
            let answer = route_call(&master, request).await;
            Ok(answer.unwrap_or_else(|status| {
                master.failed(&status);
                tonic::Status::from(status).into_http()
            }))
        })
    }
}

type GrpcResponse = Result<http::Response<Body>, Status>;

async fn route_call(master: &Arc<Master>, request: http::Request<Body>) -> GrpcResponse {
    let path = request.uri().path().to_owned();
    let caller = caller(request.extensions());
    let call = IncomingCall {
        master,
        caller,
        request,
        held: Reservation::of(Some(&master.calls)),
    };
    match path.strip_prefix("/tensorflow.MasterService/") {
        Some("CreateSession") => unary(call, |q, kept| master.create_session(q, kept)).await,
        Some("ExtendSession") => unary(call, |q, kept| master.extend_session(q, kept)).await,
        Some("PartialRunSetup") => unary(call, |q, kept| master.partial_run_setup(q, kept)).await,
        Some("RunStep") => unary(call, |q, kept| master.run_step(q, kept)).await,
        Some("CloseSession") => unary(call, |q, kept| master.close_session(q, kept)).await,
        Some("ListDevices") => unary(call, |q, kept| master.list_devices(q, kept)).await,
        Some("Reset") => unary(call, |q, kept| master.reset_all(q, kept)).await,
        Some("MakeCallable") => unary(call, |q, kept| master.make_callable(q, kept)).await,
        Some("RunCallable") => unary(call, |q, kept| master.run_callable(q, kept)).await,
        Some("ReleaseCallable") => unary(call, |q, kept| master.release_callable(q, kept)).await,
        _ => {
            let text = format!("there is no call {path}");
            Err(Status::new(Code::Unimplemented, text))
        }
    }
}

/// Returns the caller of a call.
fn caller(extensions: &http::Extensions) -> Caller {
    let slot = extensions.get::<Option<Arc<ConnectionSlot>>>();
    let Some(slot) = slot.and_then(Option::as_ref) else {
        return Caller::default();
    };
    let connection: Weak<ConnectionAlive> = Arc::downgrade(slot) as Weak<ConnectionAlive>;
    Caller {
        address: Some(slot.address.ip()),
        connection: Some(connection),
    }
}

/// Runs a unary call.
async fn unary<Q, A, F>(
    call: IncomingCall<'_>,
    method: impl FnOnce(Q, CallContext) -> F,
) -> GrpcResponse
where
    Q: Message + Default + Measured + Send + 'static,
    A: Message + 'static,
    F: Future<Output = Result<(A, CallContext), Status>>,
{
    let encoding = match call.encoding() {
        Ok(encoding) => encoding,
        Err(status) => {
            let mut answer = tonic::Status::from(status).into_http();
            let known = http::HeaderValue::from_static(ENCODINGS);
            answer.headers_mut().insert("grpc-accept-encoding", known);
            return Ok(answer);
        }
    };
    let (caller, platform) = (call.caller.clone(), call.master.platform.clone());
    let (request, held) = call.message(encoding).await?;
    let kept = CallContext {
        caller,
        held,
        undo: None,
    };
    let (answer, kept) = method(request, kept).await?;
    match answer.encoded_len() >= MIN_OFFLOADED_BYTES {
        true => run_compute(&platform, move || encode_response(&answer, kept)).await,
        false => encode_response(&answer, kept),
    }
}

/// Compression of a message.
#[derive(Clone, Copy)]
enum Compression {
    Gzip,
    Deflate,
}

/// A call whose message is arriving.
struct IncomingCall<'a> {
    master: &'a Arc<Master>,
    caller: Caller,
    request: http::Request<Body>,
    held: Reservation,
}

impl IncomingCall<'_> {
    fn encoding(&self) -> Result<Option<Compression>, Status> {
        let named = self.request.headers().get("grpc-encoding");
        match named.map(|v| v.to_str()) {
            None | Some(Ok("identity")) => Ok(None),
            Some(Ok("gzip")) => Ok(Some(Compression::Gzip)),
            Some(Ok("deflate")) => Ok(Some(Compression::Deflate)),
            Some(_) => {
                let text = "messages may be compressed with gzip or deflate, or not at all";
                Err(Status::new(Code::Unimplemented, text))
            }
        }
    }

    /// Receives and decodes the message. Also returns the reservation of its memory.
    async fn message<Q: Message + Default + Measured + Send + 'static>(
        mut self,
        encoding: Option<Compression>,
    ) -> Result<(Q, Reservation), Status> {
        let (compressed, bytes) = self.collect_message().await?;
        let (master, mut held) = (self.master.clone(), self.held);
        let encoding = match (compressed, encoding) {
            (false, _) => None,
            (true, Some(encoding)) => Some(encoding),
            (true, None) => {
                let text = "a message is compressed, and no header says how";
                return Err(Status::new(Code::Internal, text));
            }
        };
        let large = encoding.is_some() || bytes.len() >= MIN_OFFLOADED_BYTES;
        let decode = move || {
            let limits = master.limits();
            let bytes = match encoding {
                Some(encoding) => decompress(bytes, encoding, limits, &mut held)?,
                None => bytes,
            };
            let decoded = decoded_bytes::<Q>(&bytes, limits.decoded_bytes);
            let decoded =
                decoded.map_err(|e| limit_exceeded(const { limit_name("decoded_bytes") }, &e))?;
            reserve(&mut held, decoded as usize)?;
            let came = bytes.len();
            let message = Q::decode(bytes).map_err(|e| {
                let text = format!("the message cannot be decoded: {e}");
                Status::new(Code::Internal, text)
            })?;
            // Releases the encoded bytes: the message has its own memory.
            held.shrink(came);
            Ok((message, held))
        };
        match large {
            true => run_compute(&self.master.platform, decode).await,
            false => decode(),
        }
    }

    /// Receives the bytes of the only message; `true` if they are compressed. Memory is reserved as bytes arrive:
    /// announced bytes take none.
    async fn collect_message(&mut self) -> Result<(bool, Bytes), Status> {
        let master = self.master;
        let _waits = GaugeGuard::begin(&master.worker.counts.messages);
        let most = master.limits().message_bytes;
        let mut bytes = Vec::new();
        let mut known = None;
        while let Some(data) = self.next_chunk().await? {
            reserve(&mut self.held, data.len())?;
            grow(&mut bytes, data.len(), known)?;
            bytes.extend_from_slice(&data);
            if known.is_none() && bytes.len() >= MESSAGE_HEADER {
                let length = (&bytes[1..]).get_u32() as usize;
                known = Some(MESSAGE_HEADER + length);
                if length > most {
                    let text = format!("a message of {length} bytes, where {most} are taken");
                    return Err(limit_exceeded(MESSAGE_BYTES, &text));
                }
            }
            if known.is_some_and(|k| bytes.len() > k) {
                let text = "a call has one message, and another one came";
                return Err(Status::new(Code::Internal, text));
            }
        }
        if known != Some(bytes.len()) {
            let text = "the call has ended before its message";
            return Err(Status::new(Code::Internal, text));
        }
        let compressed = match bytes[0] {
            0 => false,
            1 => true,
            _ => return Err(Status::new(Code::Internal, "bytes that are no message")),
        };
        Ok((compressed, Bytes::from(bytes).split_off(MESSAGE_HEADER)))
    }

    /// Returns the next bytes of the body.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Status> {
        let body = self.request.body_mut();
        loop {
            let next = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
            let next = tokio::time::timeout(MESSAGE_TIMEOUT, next)
                .await
                .map_err(|_| {
                    let text = format!("no byte of the message came in {MESSAGE_TIMEOUT:?}");
                    Status::new(Code::DeadlineExceeded, text)
                })?;
            match next {
                None => return Ok(None),
                Some(Err(error)) => return Err(Status::new(error.code(), error.message())),
                // Trailers of a request carry no information.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// Grows the buffer: doubles it, up to the length of the message once that is known.
fn grow(bytes: &mut Vec<u8>, more: usize, known: Option<usize>) -> Result<(), Status> {
    let wanted = bytes.len() + more;
    let grown = (2 * bytes.len()).min(known.unwrap_or(usize::MAX));
    let room = grown.max(wanted) - bytes.len();
    let reserved = match wanted > bytes.capacity() {
        true => bytes.try_reserve_exact(room),
        false => Ok(()),
    };
    reserved.map_err(|_| no_memory(wanted))
}

fn no_memory(bytes: usize) -> Status {
    let text = format!("the system has no memory for a message of {bytes} bytes");
    Status::new(Code::ResourceExhausted, text)
}

/// Decompresses bytes.
fn decompress(
    bytes: Bytes,
    encoding: Compression,
    limits: &Limits,
    held: &mut Reservation,
) -> Result<Bytes, Status> {
    let mut reader: Box<dyn Read + '_> = match encoding {
        Compression::Gzip => Box::new(flate2::read::GzDecoder::new(&bytes[..])),
        Compression::Deflate => Box::new(flate2::read::ZlibDecoder::new(&bytes[..])),
    };
    let mut piece = vec![0; CHUNK_BYTES];
    let mut out: Vec<u8> = Vec::new();
    loop {
        let read = reader.read(&mut piece).map_err(|e| {
            let text = format!("the message cannot be decompressed: {e}");
            Status::new(Code::Internal, text)
        })?;
        if read == 0 {
            break;
        }
        if out.len() + read > limits.message_bytes {
            let most = limits.message_bytes;
            let text =
                format!("a message of more than {most} bytes, once decompressed, is not taken");
            return Err(limit_exceeded(MESSAGE_BYTES, &text));
        }
        reserve(held, read)?;
        let grown = out.try_reserve(read);
        grown.map_err(|_| no_memory(out.len() + read))?;
        out.extend_from_slice(&piece[..read]);
    }
    drop(reader);
    held.shrink(bytes.len());
    Ok(Bytes::from(out))
}

/// Encodes a response. Its memory is reserved until it has been sent.
fn encode_response(answer: &impl Message, mut kept: CallContext) -> GrpcResponse {
    let length = answer.encoded_len();
    let Ok(announced) = u32::try_from(length) else {
        let text =
            format!("an answer of {length} bytes is more than a message may have: fetch less");
        return Err(Status::new(Code::ResourceExhausted, text));
    };
    reserve(&mut kept.held, length)?;
    let mut bytes = Vec::new();
    let grown = bytes.try_reserve_exact(MESSAGE_HEADER + length);
    grown.map_err(|_| no_memory(length))?;
    bytes.put_u8(0);
    bytes.put_u32(announced);
    let encoded = answer.encode(&mut bytes);
    encoded.map_err(|e| Status::defect(&e))?;
    let outgoing = ResponseBody {
        data: Bytes::from(bytes),
        ended: false,
        kept,
    };
    let content = http::HeaderValue::from_static("application/grpc");
    let mut answer = http::Response::new(Body::new(outgoing));
    (answer.headers_mut()).insert(http::header::CONTENT_TYPE, content);
    Ok(answer)
}

/// Body of a successful response.
struct ResponseBody {
    data: Bytes,
    ended: bool,
    kept: CallContext,
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.data.is_empty() {
            // The transport takes one piece at once and polls for more when it has been sent: so waiting bytes stay
            // reserved.
            let piece = self.data.len().min(CHUNK_BYTES);
            return Poll::Ready(Some(Ok(Frame::data(self.data.split_to(piece)))));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        self.ended = true;
        if let Some(undo) = self.kept.undo.take() {
            undo.keep();
        }
        let mut trailers = http::HeaderMap::new();
        let ok = http::HeaderValue::from_static("0");
        trailers.insert(tonic::Status::GRPC_STATUS, ok);
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}
