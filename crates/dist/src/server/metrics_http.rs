//! HTTP endpoint of a server's metrics.

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

/// Maximum number of concurrent readers.
const MAX_READERS: usize = 8;
/// Time limit of one reader.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Content type of the metrics.
const CONTENT_TYPE_VALUE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the text at `GET /metrics`, until the server is stopped.
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
                // The system lacks descriptors: some may be freed meanwhile.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            // A reader above the limit is not answered.
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
                // An error means that the reader is gone.
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
