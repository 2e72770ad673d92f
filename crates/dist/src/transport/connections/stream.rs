//! A connection as the transport takes it, with TLS or without.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use super::goaway::Farewell;
use super::table::{Held, Seat};

trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A connection.
pub(crate) struct Stream {
    bytes: Box<dyn Bytes>,
    /// Its place and what reads along, where a server has accepted it.
    held: Option<(Held, Farewell)>,
}

impl Stream {
    pub(crate) fn new(
        bytes: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        held: Option<Held>,
    ) -> Stream {
        Stream {
            bytes: Box::new(bytes),
            held: held.map(|held| (held, Farewell::new())),
        }
    }
}

impl Connected for Stream {
    type ConnectInfo = Option<Arc<Seat>>;

    fn connect_info(&self) -> Option<Arc<Seat>> {
        self.held.as_ref().map(|(held, _)| held.seat.clone())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Stream { bytes, held } = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(bytes).poll_read(cx, buf);
        if let Some((held, farewell)) = held
            && farewell.is_said(&buf.filled()[before..])
        {
            held.seat.part();
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.bytes.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(cx)
    }
}
