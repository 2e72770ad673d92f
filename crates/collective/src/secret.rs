//! Secret of a job, and the keys of its connections.

use std::fmt;
#[cfg(feature = "tls")]
use std::path::Path;
use std::sync::Arc;

/// Secret that the processes of a job share: a text, and the keys of connections over TLS.
///
/// ```
/// use thalweg_collective::Secret;
///
/// let secret = Secret::from("of this job");
/// assert_eq!(format!("{secret:?}"), "a secret, over plain TCP");
/// ```
#[derive(Clone)]
pub struct Secret {
    text: Arc<str>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<Tls>>,
}

/// TLS configurations of both ends of a connection.
#[cfg(feature = "tls")]
pub(crate) struct Tls {
    pub(crate) server: Arc<thalweg_protection::rustls::ServerConfig>,
    pub(crate) client: Arc<thalweg_protection::rustls::ClientConfig>,
}

impl Secret {
    /// The same secret for connections over TLS, with the certificates of a folder that `thalweg protect` has made. Peers must
    /// also know the folder's token. The certificate names the addresses of all hosts.
    ///
    /// # Errors
    /// A file cannot be read or used, or other users have access to the key or the token.
    #[cfg(feature = "tls")]
    pub fn protected(
        &self,
        folder: impl AsRef<Path>,
    ) -> Result<Secret, thalweg_protection::ProtectionError> {
        let mut keys = thalweg_protection::Keys::from_dir(folder.as_ref())?;
        // A session ticket would stay unread if only the other end receives. The system then discards sent data when this end
        // closes the connection.
        keys.server.send_tls13_tickets = 0;
        keys.client.resumption = thalweg_protection::rustls::client::Resumption::disabled();
        let token = keys.tokens.first().map_or("", String::as_str);
        Ok(Secret {
            text: format!("{}{token}", self.text).into(),
            tls: Some(Arc::new(Tls {
                server: Arc::new(keys.server),
                client: Arc::new(keys.client),
            })),
        })
    }

    /// `true` if connections go over TLS.
    pub(crate) fn is_protected(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Compares a peer's secret in constant time.
    pub(crate) fn admits(&self, presented: &[u8]) -> bool {
        let own = self.text.as_bytes();
        let differs = presented.iter().zip(own).fold(0, |d, (a, b)| d | (a ^ b));
        presented.len() == own.len() && differs == 0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret {
            text: text.into(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl From<&String> for Secret {
    fn from(text: &String) -> Secret {
        Secret::from(text.as_str())
    }
}

impl From<&Secret> for Secret {
    fn from(secret: &Secret) -> Secret {
        secret.clone()
    }
}

impl fmt::Debug for Secret {
    /// Hides the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_protected() {
            true => "a secret, over TLS",
            false => "a secret, over plain TCP",
        })
    }
}
