//! Deadlines of calls (`grpc-timeout`).
//!
//! gRPC clients send the timeout of a call, and a server answers `DEADLINE_EXCEEDED` once it is over. The transport
//! answers `CANCELLED`, which clients understand differently: calls are ended here, a moment before the transport
//! does.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::{Code, Status};

/// A service whose calls end at their deadlines.
#[derive(Clone)]
pub(crate) struct Deadline<S>(pub(crate) S);

impl<S: NamedService> NamedService for Deadline<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Deadline<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let given = request.headers().get("grpc-timeout");
        let given = given.and_then(|v| parsed(v.to_str().ok()?));
        // The transport starts its own timer after this returns: this one is never later.
        let end = given.and_then(|limit| Some((limit, Instant::now().checked_add(limit)?)));
        let mut call = Box::pin(self.0.call(request));
        let Some((limit, end)) = end else {
            return call;
        };
        let mut late = Box::pin(sleep_until(end));
        Box::pin(std::future::poll_fn(move |cx| {
            if let Poll::Ready(done) = Pin::new(&mut call).poll(cx) {
                return Poll::Ready(done);
            }
            // By the clock, not by the timer: the transport's timer may have woken this task.
            let over = Pin::new(&mut late).poll(cx).is_ready() || Instant::now() >= end;
            if !over {
                return Poll::Pending;
            }
            let text = format!("the call was not done within its {limit:?}: give it more time");
            Poll::Ready(Ok(Status::new(Code::DeadlineExceeded, text).into_http()))
        }))
    }
}

/// Parses a `grpc-timeout`: at most eight digits and a unit.
fn parsed(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grpc_timeout_header_is_parsed() {
        assert_eq!(parsed("200m"), Some(Duration::from_millis(200)));
        assert_eq!(
            parsed("99999999H"),
            Some(Duration::from_secs(359_999_996_400))
        );
        assert_eq!(parsed("7n"), Some(Duration::from_nanos(7)));
        for none in ["", "m", "200", "-1m", "+1m", "123456789m", "1x", "1é"] {
            assert_eq!(parsed(none), None, "{none}");
        }
    }

    /// Never answers.
    struct Silent;

    impl Service<http::Request<Body>> for Silent {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = std::future::Pending<Result<http::Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: http::Request<Body>) -> Self::Future {
            std::future::pending()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_at_its_deadline_before_the_transport_ends_it() {
        for limit in [0, 1, 30, 200, 12_345] {
            let request = http::Request::builder().header("grpc-timeout", format!("{limit}m"));
            let call = Deadline(Silent).call(request.body(Body::empty()).unwrap());
            // As the transport does: its timer starts once the call was made.
            let answer = tokio::time::timeout(Duration::from_millis(limit), call).await;
            let status = Status::from_header_map(answer.unwrap().unwrap().headers()).unwrap();
            assert_eq!(status.code(), Code::DeadlineExceeded);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_a_readable_deadline_has_none() {
        for header in [None, Some("soon"), Some("99999999H")] {
            let mut request = http::Request::builder();
            if let Some(text) = header {
                request = request.header("grpc-timeout", text);
            }
            let call = Deadline(Silent).call(request.body(Body::empty()).unwrap());
            let waited = tokio::time::timeout(Duration::from_secs(3600), call).await;
            assert!(waited.is_err(), "{header:?}");
        }
    }
}
