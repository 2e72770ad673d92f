//! What keeps others away from a cluster: TLS in both directions, and a token that its tasks share.
//!
//! A task shows a certificate to whoever calls it and asks for one in turn; both have to be signed by
//! the cluster's authority. Whoever has come so far has to know the token too.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use subtle::ConstantTimeEq;
use thiserror::Error;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};
use tonic::{Code, Status};

/// How long a caller may take to show its certificate.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Characters of a token, at least.
const LEAST: usize = 16;

/// The files of [`Protection::from_dir`].
pub mod files {
    /// The certificate of the authority that has signed those of all tasks, as PEM.
    pub const AUTHORITY: &str = "authority.pem";
    /// The certificate of this task, as PEM.
    pub const CERTIFICATE: &str = "certificate.pem";
    /// The key of that certificate, as PEM. Nobody else may read it.
    pub const KEY: &str = "key.pem";
    /// The token, as text of printable characters without spaces. Nobody else may read it.
    pub const TOKEN: &str = "token";
}

/// What a task or a client shows to the tasks of a cluster, and what it asks of them. All of a cluster
/// have the same authority and the same token.
#[derive(Clone)]
pub struct Protection {
    authority: Certificate,
    identity: Identity,
    /// What stands in the header of a call.
    credentials: Arc<http::HeaderValue>,
}

/// Why there is no protection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProtectionError {
    /// A file cannot be read.
    #[error("{}: {source}; `thalweg protect` makes it", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The token cannot be used.
    #[error(
        "a token has at least {LEAST} printable characters, none of them a space: make it anew with `thalweg protect`"
    )]
    Token,
    /// The certificates or the key cannot be used.
    #[error("these certificates and this key cannot be used: {0}; see `thalweg protect`")]
    Certificates(String),
}

impl Protection {
    /// From certificates and a key as PEM, and a token.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn new(
        authority: &[u8],
        certificate: &[u8],
        key: &[u8],
        token: &str,
    ) -> Result<Protection, ProtectionError> {
        let token = token.trim();
        if token.len() < LEAST || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(ProtectionError::Token);
        }
        let credentials = http::HeaderValue::from_str(&format!("Bearer {token}"));
        let mut credentials = credentials.map_err(|_| ProtectionError::Token)?;
        // Neither logged nor kept by the compression of headers.
        credentials.set_sensitive(true);
        let protection = Protection {
            authority: Certificate::from_pem(authority),
            identity: Identity::from_pem(certificate, key),
            credentials: Arc::new(credentials),
        };
        // What is wrong with them shows here, not when the first peer is called.
        tonic::transport::Server::builder()
            .tls_config(protection.server())
            .map_err(|e| ProtectionError::Certificates(crate::peers::causes(&e)))?;
        Ok(protection)
    }

    /// From the files of a folder, named as in [`files`].
    ///
    /// # Errors
    /// One cannot be read, or not be used.
    pub fn from_dir(folder: impl AsRef<Path>) -> Result<Protection, ProtectionError> {
        let read = |name: &str| {
            let path = folder.as_ref().join(name);
            std::fs::read(&path).map_err(|source| ProtectionError::File { path, source })
        };
        let token = read(files::TOKEN)?;
        let token = std::str::from_utf8(&token).map_err(|_| ProtectionError::Token)?;
        let (authority, certificate) = (read(files::AUTHORITY)?, read(files::CERTIFICATE)?);
        Protection::new(&authority, &certificate, &read(files::KEY)?, token)
    }

    /// What a server asks of its callers.
    pub(crate) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(self.identity.clone())
            .client_ca_root(self.authority.clone())
            .timeout(HANDSHAKE)
    }

    /// What a caller asks of a server, which may be silent for so long.
    pub(crate) fn client(&self, silence: Duration) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .identity(self.identity.clone())
            .ca_certificate(self.authority.clone())
            .timeout(silence)
    }

    /// What stands in the header of a call.
    pub(crate) fn credentials(&self) -> http::HeaderValue {
        http::HeaderValue::clone(&self.credentials)
    }

    /// Whether a caller knows the token. It takes as long whichever character is wrong.
    fn admits(&self, said: Option<&http::HeaderValue>) -> bool {
        let said = said.map_or(&b""[..], http::HeaderValue::as_bytes);
        said.ct_eq(self.credentials.as_bytes()).into()
    }
}

impl std::fmt::Debug for Protection {
    /// Tells nothing of it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protection").finish_non_exhaustive()
    }
}

/// A service that answers to those alone who know the token, if there is one.
#[derive(Clone)]
pub(crate) struct Guarded<S> {
    pub(crate) service: S,
    pub(crate) protection: Option<Protection>,
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Guarded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let said = request.headers().get(http::header::AUTHORIZATION);
        if self.protection.as_ref().is_none_or(|p| p.admits(said)) {
            return Box::pin(self.service.call(request));
        }
        let text = "the caller does not have the token of this cluster: give all of its tasks and \
                    clients the same";
        let refused = Status::new(Code::Unauthenticated, text).into_http();
        Box::pin(std::future::ready(Ok(refused)))
    }
}
