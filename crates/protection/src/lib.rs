//! What protects the connections of a cluster, servers and ranks alike: certificates for TLS in both directions, and tokens.
//!
//! `thalweg protect DIR host1 host2` makes the files. Both ends of a connection show a certificate, which has to be signed by
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

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use thiserror::Error;

pub use rustls;

/// Characters of a token, at least.
const LEAST: usize = 16;

/// The files of [`Keys::from_dir`].
///
/// ```
/// use thalweg_protection::files::{AUTHORITY, CERTIFICATE, KEY, TOKEN};
///
/// let all = [AUTHORITY, CERTIFICATE, KEY, TOKEN];
/// assert_eq!(all, ["authority.pem", "certificate.pem", "key.pem", "token"]);
/// ```
pub mod files {
    /// The certificates of the authorities that have signed those of the tasks, as PEM.
    pub const AUTHORITY: &str = "authority.pem";
    /// The certificate of this task, as PEM.
    pub const CERTIFICATE: &str = "certificate.pem";
    /// The key of that certificate, as PEM. Nobody else may read it.
    pub const KEY: &str = "key.pem";
    /// The token, as text of printable characters without spaces. Several may be valid at a time, one a line: the
    /// first is shown to others. Nobody else may read it.
    pub const TOKEN: &str = "token";
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

fn unusable(error: impl std::fmt::Display) -> ProtectionError {
    ProtectionError::Certificates(error.to_string())
}

/// Certificates, a key and tokens, ready to be used.
pub struct Keys {
    /// What a server asks of its callers.
    pub server: ServerConfig,
    /// What a caller asks of a server.
    pub client: ClientConfig,
    /// The tokens that are valid; the first is shown to others.
    pub tokens: Vec<String>,
}

impl Keys {
    /// From certificates and a key as PEM, and a token. The certificates of several authorities may follow each other, and
    /// several tokens, one a line.
    ///
    /// # Errors
    /// They cannot be used.
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
        let (server, client) = tls(roots, certificate, key)?;
        Ok(Keys {
            server,
            client,
            tokens,
        })
    }

    /// From the files of a folder, named as in [`files`].
    ///
    /// # Errors
    /// One cannot be read, or not be used.
    pub fn from_dir(folder: &Path) -> Result<Keys, ProtectionError> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|source| ProtectionError::File { path, source })
        };
        let token = read(files::TOKEN)?;
        let token = std::str::from_utf8(&token).map_err(|_| ProtectionError::Token)?;
        let (authority, certificate) = (read(files::AUTHORITY)?, read(files::CERTIFICATE)?);
        Keys::new(&authority, &certificate, &read(files::KEY)?, token)
    }
}

fn is_token(text: &str) -> bool {
    text.len() >= LEAST && text.bytes().all(|b| b.is_ascii_graphic())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ProtectionError> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(unusable)?;
    match all.is_empty() {
        true => Err(unusable("a file has no certificate")),
        false => Ok(all),
    }
}

fn tls(
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
