//! Simulated connections, as tonic takes them.

use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::transport::server::Connected;
use turmoil::net::{TcpListener, TcpStream};

/// The port that every host listens on.
pub(super) const PORT: u16 = 2222;

/// Connects to hosts by their names.
#[derive(Clone)]
pub(super) struct Connector;

impl Service<http::Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = BoxFuture<Self::Response, io::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let host = uri.host().unwrap_or_default().to_owned();
        Box::pin(async move { Ok(TokioIo::new(TcpStream::connect((host, PORT)).await?)) })
    }
}

/// A connection that has come in.
pub(super) struct Accepted(TcpStream);

impl Connected for Accepted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// The connections that come to the host that calls this.
pub(super) async fn incoming() -> io::Result<ReceiverStream<io::Result<Accepted>>> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
    let (give, given) = tokio::sync::mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if give.send(Ok(Accepted(stream))).await.is_err() {
                return;
            }
        }
    });
    Ok(ReceiverStream::new(given))
}
