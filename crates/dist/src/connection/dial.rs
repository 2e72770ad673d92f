//! Connections as they are made to other tasks.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::codegen::{BoxFuture, Service, http};

use super::{Stream, Watched};
use crate::protection::Protection;

/// Connects to other tasks, as the transport asks for it.
#[derive(Clone)]
pub(crate) struct Dial {
    /// How long they may be silent; how long each of TCP and TLS may take.
    pub(crate) silence: Duration,
    pub(crate) protection: Option<Protection>,
}

impl Service<http::Uri> for Dial {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = BoxFuture<Self::Response, io::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let dial = self.clone();
        Box::pin(async move { Ok(TokioIo::new(dial.to(&uri).await?)) })
    }
}

impl Dial {
    async fn to(&self, uri: &http::Uri) -> io::Result<Stream> {
        let none = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
        let host = uri.host().ok_or_else(|| none("the address has no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16();
        let port = port.ok_or_else(|| none("the address has no port"))?;
        let stream = self.within("TCP", TcpStream::connect((host, port))).await?;
        // One that is slow all the same is no error.
        let _ = stream.set_nodelay(true);
        let watched = Watched::new(stream, self.silence, None);
        let Some(protection) = &self.protection else {
            return Ok(Stream::new(watched, None));
        };
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let connector = TlsConnector::from(protection.fresh().await.client.clone());
        let stream = self.within("TLS", connector.connect(name, watched)).await?;
        Ok(Stream::new(stream, None))
    }

    /// What `connects` gives, if it does in time.
    async fn within<T>(
        &self,
        what: &str,
        connects: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let late = |_| {
            let text = format!(
                "no {what} connection within {:.1} s",
                self.silence.as_secs_f64()
            );
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        };
        let limited = tokio::time::timeout(self.silence, connects).await;
        limited.unwrap_or_else(late)
    }
}
