//! Middleware of all calls of a server: counts the open calls of each connection and the memory of their headers, and
//! checks the cluster's token.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use thalweg_tensor::{Memory, Reservation};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::{Code, Status};

use crate::limits::settings::limit_name;
use crate::metrics::tally::Refusals;
use crate::tf_client::status::limit_exceeded;
use crate::transport::connections::responses::ResponseProgress;
use crate::transport::connections::table::{ConnectionSlot, OpenCall};
use crate::transport::peers::SERVICE_PATH;
use crate::transport::protection::Protection;

/// Prefix of calls without a token: a health checker has a certificate at most.
const UNPROTECTED_PATH: &str = "/grpc.health.v1.Health/";

/// Services behind the gate.
#[derive(Clone)]
pub(crate) struct Gate<S> {
    inner: S,
    protection: Option<Protection>,
    refusals: Arc<Refusals>,
    /// Memory of open calls.
    calls: Arc<Memory>,
}

impl<S> Gate<S> {
    /// Returns the gate of a service. Calls need the token, if there is protection, and count against `calls`.
    pub(crate) fn new(
        inner: S,
        protection: Option<Protection>,
        refusals: Arc<Refusals>,
        calls: Arc<Memory>,
    ) -> Gate<S> {
        Gate {
            inner,
            protection,
            refusals,
            calls,
        }
    }

    /// Reserves the memory of a call until its response has ended.
    ///
    /// # Errors
    /// The calls have no memory left.
    fn reserve(&self, headers: &http::HeaderMap) -> Result<Reservation, Status> {
        let fields = headers.iter();
        let bytes = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES);
        let mut held = Reservation::of(Some(&self.calls));
        match held.grow(CALL_BYTES + bytes.sum::<usize>()) {
            true => Ok(held),
            false => {
                let text = "the calls under way take as much memory as they may";
                let refusal = limit_exceeded(const { limit_name("call_bytes") }, &text);
                let name = refusal.limit.unwrap_or_default();
                self.refusals.count_limit(name, &refusal);
                Err(refusal.into())
            }
        }
    }
}

/// Estimate of the bytes that an open call takes beside its headers and its message.
const CALL_BYTES: usize = 8 << 10;
/// Estimate of the bytes that a header field takes beside its text.
const FIELD_BYTES: usize = 96;

impl<S> Service<http::Request<Body>> for Gate<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    type Response = http::Response<CountedBody>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let held = match self.reserve(request.headers()) {
            Ok(held) => held,
            Err(refusal) => {
                let refusal = refusal.into_http::<Body>().map(CountedBody::uncounted);
                return Box::pin(async move { Ok(refusal) });
            }
        };
        let slot = request
            .extensions()
            .get::<Option<Arc<ConnectionSlot>>>()
            .cloned();
        let slot = slot.flatten();
        let path = request.uri().path();
        let (open, of_client) = (
            path.starts_with(UNPROTECTED_PATH),
            !path.starts_with(SERVICE_PATH),
        );
        let Some(protection) = self.protection.as_ref().filter(|_| !open) else {
            let slot = slot.filter(|_| !open || self.protection.is_none());
            let call = self.inner.call(request);
            return Box::pin(counted_call(slot, of_client, held, call));
        };
        let (protection, refusals) = (protection.clone(), self.refusals.clone());
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let said = request.headers().get(http::header::AUTHORIZATION).cloned();
            match knows_token(&protection, said).await {
                true => counted_call(slot, of_client, held, inner.call(request)).await,
                false => {
                    let from = slot.map(|s| s.address);
                    refusals.count_caller("token", from, &NO_TOKEN);
                    let refusal = Status::new(Code::Unauthenticated, NO_TOKEN);
                    Ok(refusal.into_http::<Body>().map(CountedBody::uncounted))
                }
            }
        })
    }
}

/// `true` if a caller has the token.
async fn knows_token(protection: &Protection, said: Option<http::HeaderValue>) -> bool {
    let said = said.as_ref().map_or(&b""[..], |s| s.as_bytes());
    // An unknown token may be new, and a known one may have been revoked: the current files decide.
    protection.fresh().await.admits(said)
}

const NO_TOKEN: &str = "the caller does not have the token of this cluster: give all of its tasks and clients the same";

/// Runs a call, which stays open until its response has ended.
async fn counted_call(
    slot: Option<Arc<ConnectionSlot>>,
    of_client: bool,
    held: Reservation,
    call: impl Future<Output = Result<http::Response<Body>, Infallible>>,
) -> Result<http::Response<CountedBody>, Infallible> {
    let open = slot.map(|slot| {
        slot.authenticate();
        slot.call()
    });
    let answer = call.await?;
    // A value for another task is one piece, which may take any time: only its connection is monitored.
    let counted = open.map(|call| (of_client.then(|| call.answer()), call));
    Ok(answer.map(|body| CountedBody {
        body,
        counted,
        _held: Some(held),
    }))
}

/// Body of a response. A drop closes the call.
pub(crate) struct CountedBody {
    body: Body,
    counted: Option<(Option<Arc<ResponseProgress>>, OpenCall)>,
    /// Memory of the call.
    _held: Option<Reservation>,
}

impl CountedBody {
    fn uncounted(body: Body) -> CountedBody {
        CountedBody {
            body,
            counted: None,
            _held: None,
        }
    }
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Some((Some(answer), _)) = &self.counted {
            answer.asked(polled.is_ready());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
