//! Router of calls to the services of a server.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::service::Routes;

use crate::transport::peers::SERVICE_PATH;
use crate::worker::service::WorkerService;

/// All services of a server. Calls of tasks, for which steps wait, bypass the generic router.
#[derive(Clone)]
pub(crate) struct ServiceRouter {
    pub(crate) worker: WorkerService,
    pub(crate) others: Routes,
}

impl Service<http::Request<Body>> for ServiceRouter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.others, cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match request.uri().path().starts_with(SERVICE_PATH) {
            true => self.worker.call(request),
            false => Box::pin(self.others.call(request)),
        }
    }
}
