//! A connection as a byte stream, plain or TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use super::goaway::GoawayScanner;
use super::table::{ConnectionSlot, OccupiedSlot};

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A byte stream, plain or TLS.
pub(crate) struct ConnectionStream {
    bytes: Box<dyn ByteStream>,
    /// Slot and GOAWAY scanner, on a server.
    held: Option<(OccupiedSlot, GoawayScanner)>,
}

impl ConnectionStream {
    pub(crate) fn new(
        bytes: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        held: Option<OccupiedSlot>,
    ) -> ConnectionStream {
        ConnectionStream {
            bytes: Box::new(bytes),
            held: held.map(|held| (held, GoawayScanner::new())),
        }
    }
}

impl Connected for ConnectionStream {
    type ConnectInfo = Option<Arc<ConnectionSlot>>;

    fn connect_info(&self) -> Option<Arc<ConnectionSlot>> {
        self.held.as_ref().map(|(held, _)| held.slot.clone())
    }
}

impl AsyncRead for ConnectionStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ConnectionStream { bytes, held } = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(bytes).poll_read(cx, buf);
        if let Some((held, goaway)) = held
            && goaway.feed(&buf.filled()[before..])
        {
            held.slot.note_goaway();
        }
        read
    }
}

impl AsyncWrite for ConnectionStream {
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
