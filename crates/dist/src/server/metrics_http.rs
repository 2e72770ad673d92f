//! A server's numbers over HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tonic::body::Body;
use tonic::codegen::http;

use super::options::{ServerError, listen, resolve};

/// How many may read at a time.
const MAX_READERS: usize = 8;
/// How long one may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What Prometheus knows the text by.
const CONTENT_TYPE_VALUE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers `GET /metrics` with a text, until the server is stopped.
pub(super) fn serve(
    address: &str,
    runtime: &Handle,
    mut stopped: watch::Receiver<bool>,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> Result<SocketAddr, ServerError> {
    let failed = |source| ServerError::Listen {
        address: address.to_owned(),
        source,
    };
    let socket = resolve(address).and_then(listen).map_err(failed)?;
    let local = socket.local_addr().map_err(failed)?;
    let _context = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(socket).map_err(failed)?;
    let (readers, text) = (Arc::new(Semaphore::new(MAX_READERS)), Arc::new(text));
    runtime.spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped.wait_for(|s| *s) => return,
            };
            let Ok((stream, _)) = accepted else {
                // The system lacks descriptors: others may be given back.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            // Who comes when there are as many as may be is not answered.
            let Ok(place) = readers.clone().try_acquire_owned() else {
                continue;
            };
            let text = text.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let answer = respond(&request, &*text);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let mut http = http1::Builder::new();
                let served = http.keep_alive(false);
                let served = served.serve_connection(TokioIo::new(stream), answer);
                // A reader that goes is no loss.
                let _ = tokio::time::timeout(TIMEOUT, served).await;
                drop(place);
            });
        }
    });
    Ok(local)
}

fn respond(
    request: &http::Request<hyper::body::Incoming>,
    text: &impl Fn() -> String,
) -> http::Response<Body> {
    let known = request.method() == http::Method::GET && request.uri().path() == "/metrics";
    let (status, content, body) = match known {
        true => (http::StatusCode::OK, CONTENT_TYPE_VALUE, text()),
        false => {
            let text = "the numbers are at /metrics\n".to_owned();
            (http::StatusCode::NOT_FOUND, "text/plain", text)
        }
    };
    let mut answer = http::Response::new(Body::new(body));
    *answer.status_mut() = status;
    let content = http::HeaderValue::from_static(content);
    (answer.headers_mut()).insert(http::header::CONTENT_TYPE, content);
    answer
}
