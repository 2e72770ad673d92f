//! Certificates, keys and tokens, ready to be used.

use std::sync::Arc;

use subtle::{Choice, ConstantTimeEq};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tonic::codegen::http;

use super::{LEAST, ProtectionError};

/// The protocol that is spoken over TLS, as ALPN names it.
const PROTOCOL: &[u8] = b"h2";

/// One version of what protects a cluster.
pub(crate) struct Keys {
    /// What a server asks of its callers.
    pub(crate) server: Arc<ServerConfig>,
    /// What a caller asks of a server.
    pub(crate) client: Arc<ClientConfig>,
    /// What may stand in the header of a call; the first is what does.
    credentials: Vec<http::HeaderValue>,
}

fn unusable(error: impl std::fmt::Display) -> ProtectionError {
    ProtectionError::Certificates(error.to_string())
}

impl Keys {
    pub(super) fn new(
        authority: &[u8],
        certificate: &[u8],
        key: &[u8],
        tokens: &str,
    ) -> Result<Keys, ProtectionError> {
        let tokens = tokens.lines().map(str::trim).filter(|t| !t.is_empty());
        let credentials = tokens.map(credentials).collect::<Result<Vec<_>, _>>()?;
        if credentials.is_empty() {
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
            server: Arc::new(server),
            client: Arc::new(client),
            credentials,
        })
    }

    /// What stands in the header of a call.
    pub(crate) fn credentials(&self) -> http::HeaderValue {
        self.credentials[0].clone()
    }

    /// Whether a caller knows a token. It takes as long whichever character is wrong.
    pub(crate) fn admits(&self, said: &[u8]) -> bool {
        let known = self.credentials.iter().map(|c| said.ct_eq(c.as_bytes()));
        known.fold(Choice::from(0), |any, one| any | one).into()
    }
}

/// What stands in the header of a call of who knows this token.
fn credentials(token: &str) -> Result<http::HeaderValue, ProtectionError> {
    if token.len() < LEAST || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(ProtectionError::Token);
    }
    let value = http::HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_| ProtectionError::Token)?;
    // Neither logged nor kept by the compression of headers.
    value.set_sensitive(true);
    Ok(value)
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
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(callers)
        .with_single_cert(certificate.clone(), key.clone_key())
        .map_err(unusable)?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificate, key)
        .map_err(unusable)?;
    server.alpn_protocols.push(PROTOCOL.into());
    client.alpn_protocols.push(PROTOCOL.into());
    Ok((server, client))
}
