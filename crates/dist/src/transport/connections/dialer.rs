//! Connections to other tasks: name resolution, TCP, TLS.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::codegen::{BoxFuture, Service, http};

use super::liveness::MonitoredConnection;
use super::stream::ConnectionStream;
use crate::transport::peer_stats::PeerStats;
use crate::transport::protection::Protection;

/// Connector to other tasks, for the HTTP/2 client.
#[derive(Clone)]
pub(crate) struct Dialer {
    /// Time without a sign of life of a connection; time limit of each of the TCP and the TLS handshake.
    pub(crate) heartbeat: Duration,
    pub(crate) protection: Option<Protection>,
    /// Statistics of the peer.
    pub(crate) peer_stats: Arc<PeerStats>,
}

impl Service<http::Uri> for Dialer {
    type Response = TokioIo<ConnectionStream>;
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

impl Dialer {
    async fn to(&self, uri: &http::Uri) -> io::Result<ConnectionStream> {
        let none = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
        let host = uri.host().ok_or_else(|| none("the address has no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16();
        let port = port.ok_or_else(|| none("the address has no port"))?;
        let stream = self.within("TCP", self.any_of(host, port)).await?;
        // Without it the connection is slower, which is no error.
        let _ = stream.set_nodelay(true);
        let monitored =
            MonitoredConnection::new(stream, self.heartbeat, None).to(self.peer_stats.clone());
        let Some(protection) = &self.protection else {
            return Ok(ConnectionStream::new(monitored, None));
        };
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let connector = TlsConnector::from(protection.fresh().await.client.clone());
        let stream = self
            .within("TLS", connector.connect(name, monitored))
            .await?;
        Ok(ConnectionStream::new(stream, None))
    }

    /// Connects to the first address of the host that answers.
    async fn any_of(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let addresses = addresses(host, port).await?;
        // An address that does not answer leaves time for the others.
        let each = self.heartbeat / addresses.len().max(1) as u32;
        let text = format!("the name {host} has no address");
        let mut failed = io::Error::new(io::ErrorKind::NotFound, text);
        for address in addresses {
            match tokio::time::timeout(each, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(e)) => failed = e,
                Err(_) => {
                    let text = format!("{address} did not answer within {each:.1?}");
                    failed = io::Error::new(io::ErrorKind::TimedOut, text);
                }
            }
        }
        Err(failed)
    }

    /// Returns the result of `connects`, or an error when its time is over.
    async fn within<T>(
        &self,
        what: &str,
        connects: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let late = |_| {
            let text = format!(
                "no {what} connection within {:.1} s",
                self.heartbeat.as_secs_f64()
            );
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        };
        let limited = tokio::time::timeout(self.heartbeat, connects).await;
        limited.unwrap_or_else(late)
    }
}

/// Resolves a host. The system resolves names by a blocking call, which runs on a thread of its own. If the system
/// gives no thread that is an error; tokio's own threads would panic.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (name, (give, given)) = (host.to_owned(), oneshot::channel());
    let asks = std::thread::Builder::new().name("thalweg-names".to_owned());
    asks.spawn(move || {
        let found = (name.as_str(), port).to_socket_addrs();
        // The receiver is gone if the search took too long.
        let _ = give.send(found.map(Iterator::collect));
    })?;
    given
        .await
        .unwrap_or_else(|_| Err(io::Error::other("the search for a name has panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn host_names_and_ip_addresses_resolve() {
        let port = |a: &SocketAddr| a.port() == 80;
        for host in ["localhost", "127.0.0.1", "::1"] {
            let found = addresses(host, 80).await.unwrap();
            assert!(!found.is_empty() && found.iter().all(port), "{host}");
        }
        assert!(addresses("no name at all", 80).await.is_err());
    }
}
