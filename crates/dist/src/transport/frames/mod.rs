//! Frames: four bytes of length, a header, and behind the header of a value the bytes of the value.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::{Body, Frame};
use prost::Message;
use thalweg_graphdef::sizes::decoded_bytes;
use thalweg_tensor::Tensor;

use super::buffer_pool::{BufferPool, InFlightBytes};
use super::messages::header::Kind;
use super::messages::{End, Header, Value};
use super::wire_error::WireError;
use super::{error_codec, values};
use crate::error::ClusterError;
use crate::transport::shared_memory::lender::Loans;
use crate::transport::shared_memory::loan_table::MIN_LENT_BYTES;

/// Maximum size of a value that is copied behind its header, in bytes: one small write is cheaper than two.
const MAX_INLINE_BYTES: usize = 16 << 10;
/// Maximum size of a header, in bytes: a part of a very large graph, of some million nodes.
const MAX_HEADER: u64 = 256 << 20;
/// Minimum size of a header that counts among the incoming bytes: its encoded size while it arrives, then its decoded
/// size.
const MIN_COUNTED_HEADER: usize = 4 << 10;

/// Outgoing frames.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    ready: VecDeque<Bytes>,
    open: BytesMut,
    /// Loans of large values: a stream with loans stays open until the receiver drops it.
    loans: Option<Loans>,
}

impl Frames {
    /// Returns one frame.
    pub(crate) fn of(kind: Kind) -> Frames {
        let mut frames = Frames::default();
        frames.push(kind);
        frames
    }

    /// Returns no frames. Large values in shared memory are lent if `loans` is given.
    pub(crate) fn lending(loans: Option<Loans>) -> Frames {
        Frames {
            loans,
            ..Frames::default()
        }
    }

    pub(crate) fn push(&mut self, kind: Kind) {
        let header = Header { kind: Some(kind) };
        let length = header.encoded_len();
        // Parts are bounded when they are made: no header comes near 4 GB.
        self.open
            .put_u32_le(u32::try_from(length).unwrap_or(u32::MAX));
        self.open.reserve(length);
        // A BytesMut grows: encoding cannot fail.
        let _ = header.encode(&mut self.open);
    }

    /// Adds a value, without a copy of its bytes if it is large.
    ///
    /// # Errors
    /// [`WireError::Handle`].
    pub(crate) fn push_value(&mut self, number: i64, tensor: &Tensor) -> Result<(), WireError> {
        let (mut header, bytes) = values::encoded(number, tensor)?;
        if let Some(loans) = &mut self.loans
            && bytes.len() >= MIN_LENT_BYTES
            && let Some(loan) = loans.lend(tensor)
        {
            header.loan = Some(loan);
            self.push(Kind::Value(header));
            return Ok(());
        }
        self.push(Kind::Value(header));
        if bytes.len() <= MAX_INLINE_BYTES {
            self.open.put_slice(&bytes);
        } else {
            self.ready.push_back(self.open.split().freeze());
            self.ready.push_back(bytes);
        }
        Ok(())
    }

    /// Adds the end of a response.
    pub(crate) fn push_end(&mut self, failure: Option<ClusterError>) {
        self.push(Kind::End(End {
            error: failure.map(error_codec::encoded),
        }));
    }

    fn pop(&mut self) -> Option<Bytes> {
        let next = self.ready.pop_front();
        next.or_else(|| (!self.open.is_empty()).then(|| self.open.split().freeze()))
    }

    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.open.is_empty()
    }

    /// `true` if a value was lent: the receiver then drops the stream.
    fn stays(&self) -> bool {
        self.loans.as_ref().is_some_and(|l| !l.is_empty())
    }

    /// Ends the stream, unless a value was lent.
    fn end(&self) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.stays() {
            true => Poll::Pending,
            false => Poll::Ready(None),
        }
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.pop() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => self.end(),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty() && !self.stays()
    }
}

/// Producer of frames while they are sent.
pub(crate) trait FrameSource: Send + Unpin {
    /// Adds outgoing frames. Ready with `false` if no more follow.
    fn poll(&mut self, frames: &mut Frames, cx: &mut Context<'_>) -> Poll<bool>;
}

/// HTTP/2 body of a source's frames.
pub(crate) struct FrameStream<S> {
    source: Option<S>,
    frames: Frames,
}

impl<S: FrameSource> FrameStream<S> {
    /// Returns the body of a source. Large values in shared memory are lent if `loans` is given.
    pub(crate) fn new(source: S, loans: Option<Loans>) -> FrameStream<S> {
        FrameStream {
            source: Some(source),
            frames: Frames::lending(loans),
        }
    }
}

impl<S: FrameSource> Body for FrameStream<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        loop {
            if let Some(bytes) = this.frames.pop() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            let Some(source) = &mut this.source else {
                return this.frames.end();
            };
            match source.poll(&mut this.frames, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(true) => {}
                Poll::Ready(false) => this.source = None,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_none() && self.frames.is_end_stream()
    }
}

/// Reader of incoming frames.
pub(crate) struct FrameReader<B> {
    body: B,
    chunk: Bytes,
    /// Maximum size of a value, in bytes.
    limit: u64,
    pool: Arc<BufferPool>,
    /// Bytes that have come in on this call.
    flight: InFlightBytes,
}

impl<B> FrameReader<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    /// Reads from `body`. A value may have `limit` bytes at most. Large values take memory from `pool`.
    pub(crate) fn new(body: B, limit: u64, pool: Arc<BufferPool>) -> FrameReader<B> {
        FrameReader {
            body,
            chunk: Bytes::new(),
            limit,
            flight: InFlightBytes::new(pool.clone()),
            pool,
        }
    }

    /// Waits for bytes. `false` at the end.
    async fn more(&mut self) -> Result<bool, WireError> {
        while self.chunk.is_empty() {
            let next = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
            match next {
                None => return Ok(false),
                Some(Err(e)) => return Err(WireError::Broken(e.to_string())),
                Some(Ok(frame)) => {
                    // Trailers carry no information here.
                    if let Ok(data) = frame.into_data() {
                        self.chunk = data;
                    }
                }
            }
        }
        Ok(true)
    }

    async fn fill(&mut self, mut into: &mut [u8]) -> Result<(), WireError> {
        while !into.is_empty() {
            if !self.more().await? {
                return Err(WireError::Short);
            }
            let n = self.chunk.len().min(into.len());
            let (now, rest) = into.split_at_mut(n);
            self.chunk.copy_to_slice(now);
            into = rest;
        }
        Ok(())
    }

    /// Reads the next header. `None` at the end of the stream.
    ///
    /// # Errors
    /// The stream ended in the middle of a header, or the bytes are no header.
    pub(crate) async fn next(&mut self) -> Result<Option<Kind>, WireError> {
        if !self.more().await? {
            return Ok(None);
        }
        let mut length = [0; 4];
        self.fill(&mut length).await?;
        let length = u32::from_le_bytes(length);
        if u64::from(length) > MAX_HEADER {
            return Err(WireError::TooLong {
                found: length.into(),
                limit: MAX_HEADER,
            });
        }
        let length = length as usize;
        let counted = length >= MIN_COUNTED_HEADER;
        let header = match self.chunk.len() >= length && !counted {
            true => Header::decode(self.chunk.split_to(length))?,
            false => {
                // The buffer grows with the received bytes: a length alone allocates nothing.
                let mut bytes = BytesMut::new();
                let mut coming = InFlightBytes::new(self.pool.clone());
                while bytes.len() < length {
                    if !self.more().await? {
                        return Err(WireError::Short);
                    }
                    let n = self.chunk.len().min(length - bytes.len());
                    if counted {
                        coming.more(n)?;
                    }
                    bytes.put(self.chunk.split_to(n));
                }
                if counted {
                    // An empty node takes two encoded bytes, and hundreds once it is decoded.
                    let decoded = decoded_bytes::<Header>(&bytes, self.pool.most());
                    let decoded = decoded.map_err(|e| WireError::Flight { limit: e.limit })?;
                    self.flight.more(decoded as usize)?;
                }
                Header::decode(bytes.freeze())?
            }
        };
        Ok(Some(header.kind.ok_or(WireError::Expected("a message"))?))
    }

    /// Reads the tensor behind the header of a value.
    ///
    /// # Errors
    /// Its bytes do not match the header, or are missing.
    pub(crate) async fn tensor(&mut self, header: &Value) -> Result<Tensor, WireError> {
        if header.loan.is_some() {
            return Err(WireError::Expected("a value's bytes"));
        }
        let mut room = values::ValueBuffer::new(header, self.limit, &self.pool)?;
        loop {
            match room.next() {
                [] => return room.finish(&self.pool),
                part => {
                    self.flight.more(part.len())?;
                    self.fill(part).await?;
                }
            }
        }
    }

    /// Reads the next value, with its number.
    ///
    /// # Errors
    /// The next frame is no value.
    pub(crate) async fn value(&mut self) -> Result<(i64, Tensor), WireError> {
        match self.next().await? {
            Some(Kind::Value(header)) => Ok((header.number, self.tensor(&header).await?)),
            _ => Err(WireError::Expected("a value")),
        }
    }
}

#[cfg(test)]
mod tests;
