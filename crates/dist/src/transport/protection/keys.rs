//! Certificates, keys and tokens for calls over HTTP/2.

use std::path::Path;
use std::sync::Arc;

use subtle::{Choice, ConstantTimeEq};
use thalweg_protection::ProtectionError;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tonic::codegen::http;

/// ALPN name of HTTP/2.
const PROTOCOL: &[u8] = b"h2";

/// One version of a cluster's keys and tokens.
pub(crate) struct Keys {
    /// TLS configuration of a server.
    pub(crate) server: Arc<ServerConfig>,
    /// TLS configuration of a caller.
    pub(crate) client: Arc<ClientConfig>,
    /// Accepted values of the authorization header. Calls send the first one.
    credentials: Vec<http::HeaderValue>,
}

impl Keys {
    pub(super) fn new(
        authority: &[u8],
        certificate: &[u8],
        key: &[u8],
        tokens: &str,
    ) -> Result<Keys, ProtectionError> {
        Keys::of(thalweg_protection::Keys::new(
            authority,
            certificate,
            key,
            tokens,
        )?)
    }

    /// Reads the files of a folder.
    pub(super) fn from_dir(folder: &Path) -> Result<Keys, ProtectionError> {
        Keys::of(thalweg_protection::Keys::from_dir(folder)?)
    }

    fn of(mut keys: thalweg_protection::Keys) -> Result<Keys, ProtectionError> {
        let credentials = keys.tokens.iter().map(|token| credentials(token));
        let credentials = credentials.collect::<Result<Vec<_>, _>>()?;
        keys.server.alpn_protocols.push(PROTOCOL.into());
        keys.client.alpn_protocols.push(PROTOCOL.into());
        Ok(Keys {
            server: Arc::new(keys.server),
            client: Arc::new(keys.client),
            credentials,
        })
    }

    /// Returns the authorization header of a call.
    pub(crate) fn credentials(&self) -> http::HeaderValue {
        self.credentials[0].clone()
    }

    /// `true` if this header carries a valid token. The comparison takes constant time.
    pub(crate) fn admits(&self, said: &[u8]) -> bool {
        let known = self.credentials.iter().map(|c| said.ct_eq(c.as_bytes()));
        known.fold(Choice::from(0), |any, one| any | one).into()
    }
}

/// Returns the authorization header for this token.
fn credentials(token: &str) -> Result<http::HeaderValue, ProtectionError> {
    let value = http::HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_| ProtectionError::Token)?;
    // Sensitive: neither logged nor indexed by header compression.
    value.set_sensitive(true);
    Ok(value)
}
