//! Certificates, keys and tokens, as calls over HTTP/2 use them.

use std::path::Path;
use std::sync::Arc;

use subtle::{Choice, ConstantTimeEq};
use thalweg_protection::ProtectionError;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tonic::codegen::http;

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

    /// From the files of a folder.
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
    let value = http::HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value = value.map_err(|_| ProtectionError::Token)?;
    // Neither logged nor kept by the compression of headers.
    value.set_sensitive(true);
    Ok(value)
}
