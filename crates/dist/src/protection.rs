//! What keeps others away from a cluster: TLS in both directions, and a token that its tasks share.
//!
//! A task shows a certificate to whoever calls it and asks for one in turn; both have to be signed by
//! the cluster's authority. Whoever has come so far has to know the token too.
//!
//! `thalweg protect DIR host1 host2` makes the certificates and the token. All tasks and clients get them:
//!
//! ```no_run
//! use thalweg_dist::{Protection, Server, ServerOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = ServerOptions::listening("0.0.0.0:2222").protection(Protection::from_dir("keys")?);
//! let server = Server::start(options)?;
//! server.join()?;
//! # Ok(())
//! # }
//! ```
//!
//! A token that can be guessed is refused:
//!
//! ```
//! use thalweg_dist::Protection;
//!
//! let refused = Protection::new(b"", b"", b"", "secret").unwrap_err();
//! assert!(refused.to_string().contains("at least 16"));
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use subtle::ConstantTimeEq;
use thiserror::Error;
use tonic::codegen::http;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};
use tonic::{Code, Request, Status};

/// How long a caller may take to show its certificate.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Characters of a token, at least.
const LEAST: usize = 16;

/// The files of [`Protection::from_dir`].
///
/// ```
/// use thalweg_dist::protection::files::{AUTHORITY, CERTIFICATE, KEY, TOKEN};
///
/// let all = [AUTHORITY, CERTIFICATE, KEY, TOKEN];
/// assert_eq!(all, ["authority.pem", "certificate.pem", "key.pem", "token"]);
/// ```
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
    credentials: http::HeaderValue,
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
            credentials,
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
        self.credentials.clone()
    }

    /// Whether a caller knows the token. It takes as long whichever character is wrong.
    fn admits(&self, said: &[u8]) -> bool {
        said.ct_eq(self.credentials.as_bytes()).into()
    }
}

impl std::fmt::Debug for Protection {
    /// Tells nothing of it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protection").finish_non_exhaustive()
    }
}

/// Lets a call in whose caller knows the token, if there is one.
///
/// # Errors
/// The caller does not.
pub(crate) fn guard(
    protection: Option<&Protection>,
    call: Request<()>,
) -> Result<Request<()>, Status> {
    let said = call.metadata().get(http::header::AUTHORIZATION.as_str());
    let said = said.map_or(&b""[..], |s| s.as_encoded_bytes());
    if protection.is_none_or(|p| p.admits(said)) {
        return Ok(call);
    }
    Err(Status::new(
        Code::Unauthenticated,
        "the caller does not have the token of this cluster: give all of its tasks and clients the same",
    ))
}
