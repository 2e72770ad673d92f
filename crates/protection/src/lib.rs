//! Keys of a cluster, for servers and ranks alike: certificates for mutual TLS, and tokens.
//!
//! `thalweg protect DIR host1 host2` makes the files. Both ends of a connection present a certificate, which must be signed by
//! the cluster's authority.
//!
//! A token that can be guessed is refused:
//!
//! ```
//! use thalweg_protection::Keys;
//!
//! let refused = Keys::new(b"", b"", b"", "secret").err().unwrap();
//! assert!(refused.to_string().contains("at least 16"));
//! ```

mod error;
mod secret_file;

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use error::MIN_TOKEN_LENGTH;

pub use error::ProtectionError;
pub use rustls;
pub use secret_file::read_secret;

/// Names of the files of [`Keys::from_dir`].
///
/// ```
/// use thalweg_protection::files::{AUTHORITY, CERTIFICATE, KEY, TOKEN};
///
/// let all = [AUTHORITY, CERTIFICATE, KEY, TOKEN];
/// assert_eq!(all, ["authority.pem", "certificate.pem", "key.pem", "token"]);
/// ```
pub mod files {
    /// Certificates of the authorities that have signed those of the tasks, as PEM.
    pub const AUTHORITY: &str = "authority.pem";
    /// Certificate of this task, as PEM.
    pub const CERTIFICATE: &str = "certificate.pem";
    /// Private key of that certificate, as PEM. No other user may read it.
    pub const KEY: &str = "key.pem";
    /// Token, as printable characters without spaces. Several may be valid at a time, one a line: the first is sent to others.
    /// No other user may read the file.
    pub const TOKEN: &str = "token";
}

fn unusable(error: impl std::fmt::Display) -> ProtectionError {
    ProtectionError::Certificates(error.to_string())
}

/// Certificates, a private key and tokens, checked and ready for use.
pub struct Keys {
    /// TLS configuration of servers.
    pub server: ServerConfig,
    /// TLS configuration of clients.
    pub client: ClientConfig,
    /// Valid tokens; the first is sent to others.
    pub tokens: Vec<String>,
}

impl Keys {
    /// Parses certificates and a key as PEM, and tokens, one a line. `authority` may have the certificates of several
    /// authorities.
    ///
    /// # Errors
    /// Certificates, key or tokens cannot be used.
    pub fn new(
        authority: &[u8],
        certificate: &[u8],
        key: &[u8],
        tokens: &str,
    ) -> Result<Keys, ProtectionError> {
        let tokens = tokens.lines().map(str::trim).filter(|t| !t.is_empty());
        let tokens: Vec<String> = tokens.map(str::to_owned).collect();
        if tokens.is_empty() || !tokens.iter().all(|t| is_token(t)) {
            return Err(ProtectionError::Token);
        }
        let mut roots = RootCertStore::empty();
        for authority in certificates(authority)? {
            roots.add(authority).map_err(unusable)?;
        }
        let roots = Arc::new(roots);
        let certificate = certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(unusable)?;
        let (server, client) = tls_configs(roots, certificate, key)?;
        Ok(Keys {
            server,
            client,
            tokens,
        })
    }

    /// Reads the files of a folder, named as in [`files`]. The key and the tokens are read by [`read_secret`].
    ///
    /// # Errors
    /// A file cannot be read or used, or other users have access to the key or the tokens.
    pub fn from_dir(folder: &Path) -> Result<Keys, ProtectionError> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|source| ProtectionError::File { path, source })
        };
        let secret = |name: &str| read_secret(&folder.join(name));
        let token = secret(files::TOKEN)?;
        let token = std::str::from_utf8(&token).map_err(|_| ProtectionError::Token)?;
        let (authority, certificate) = (read(files::AUTHORITY)?, read(files::CERTIFICATE)?);
        Keys::new(&authority, &certificate, &secret(files::KEY)?, token)
    }
}

fn is_token(text: &str) -> bool {
    text.len() >= MIN_TOKEN_LENGTH && text.bytes().all(|b| b.is_ascii_graphic())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ProtectionError> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(unusable)?;
    match all.is_empty() {
        true => Err(unusable("a file has no certificate")),
        false => Ok(all),
    }
}

/// Builds the TLS configurations of servers and clients.
fn tls_configs(
    roots: Arc<RootCertStore>,
    certificate: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<(ServerConfig, ClientConfig), ProtectionError> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let callers = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let callers = callers.build().map_err(unusable)?;
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(callers)
        .with_single_cert(certificate.clone(), key.clone_key())
        .map_err(unusable)?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificate, key)
        .map_err(unusable)?;
    Ok((server, client))
}
