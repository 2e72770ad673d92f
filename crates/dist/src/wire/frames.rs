//! Frames: four bytes of length, a header, and the bytes of a value behind the header of one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::{Body, Frame};
use prost::Message;
use thalweg_tensor::Tensor;

use super::WireError;
use super::messages::header::Kind;
use super::messages::{End, Header, Value};
use super::spare::{Flight, Spare};
use super::{error, value};
use crate::error::ClusterError;
use crate::near::{Borrowed, LEAST, Loans, Maps, Near};

/// Bytes of a value that are copied behind their header: one small write is cheaper than two.
const SMALL: usize = 16 << 10;
/// The longest header: a part of a very large graph.
const MOST_HEADER: u64 = 1 << 30;

/// Frames that are on their way out.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    ready: VecDeque<Bytes>,
    open: BytesMut,
    /// What is lent, where large values are.
    loans: Option<Arc<Loans>>,
    /// Whether anything was lent: the stream then stays until the receiver drops it.
    stays: bool,
}

impl Frames {
    /// One frame.
    pub(crate) fn of(kind: Kind) -> Frames {
        let mut frames = Frames::default();
        frames.push(kind);
        frames
    }

    /// None yet; large values are lent where the receiver can read this process's memory, to be copied.
    pub(crate) fn to(lends: bool) -> Frames {
        Frames {
            loans: lends.then(|| Arc::new(Loans::new(false))),
            ..Frames::default()
        }
    }

    pub(crate) fn push(&mut self, kind: Kind) {
        let header = Header { kind: Some(kind) };
        let length = header.encoded_len();
        // Parts are bounded where they are made: no header comes near 4 GB.
        self.open
            .put_u32_le(u32::try_from(length).unwrap_or(u32::MAX));
        self.open.reserve(length);
        // A BytesMut grows: nothing can go wrong.
        let _ = header.encode(&mut self.open);
    }

    /// A value, whose bytes stay where they are.
    ///
    /// # Errors
    /// [`WireError::Handle`].
    pub(crate) fn push_value(&mut self, number: i64, tensor: &Tensor) -> Result<(), WireError> {
        let (mut header, bytes) = value::encoded(number, tensor)?;
        if let Some(loans) = &self.loans
            && bytes.len() >= LEAST
        {
            header.loan = Some(loans.lend(bytes, tensor.buffer()));
            self.stays = true;
            self.push(Kind::Value(header));
            return Ok(());
        }
        self.push(Kind::Value(header));
        if bytes.len() <= SMALL {
            self.open.put_slice(&bytes);
        } else {
            self.ready.push_back(self.open.split().freeze());
            self.ready.push_back(bytes);
        }
        Ok(())
    }

    /// The end of an answer.
    pub(crate) fn push_end(&mut self, failure: Option<ClusterError>) {
        self.push(Kind::End(End {
            error: failure.map(error::encoded),
        }));
    }

    fn pop(&mut self) -> Option<Bytes> {
        let next = self.ready.pop_front();
        next.or_else(|| (!self.open.is_empty()).then(|| self.open.split().freeze()))
    }

    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.open.is_empty()
    }

    /// The end of the stream, which does not come while something may be lent.
    fn end(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match (&self.loans, self.stays) {
            (Some(loans), true) => loans.poll_ended(cx).map(|()| None),
            _ => Poll::Ready(None),
        }
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.pop() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => self.end(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty() && !self.stays
    }
}

/// Frames that are made while they are sent.
pub(crate) trait Source: Send + Unpin {
    /// Adds frames to what goes out; ready with `false` where no more come.
    fn poll(&mut self, frames: &mut Frames, cx: &mut Context<'_>) -> Poll<bool>;
}

/// The body of what a source makes.
pub(crate) struct Stream<S> {
    source: Option<S>,
    frames: Frames,
}

impl<S: Source> Stream<S> {
    /// Its values are lent where `lends` says so, and may be mapped: the receiver says behind its request
    /// what it reads no more.
    pub(crate) fn new(source: S, lends: bool) -> Stream<S> {
        Stream {
            source: Some(source),
            frames: Frames {
                loans: lends.then(|| Arc::new(Loans::new(true))),
                ..Frames::default()
            },
        }
    }

    /// What is lent on it, where large values are.
    pub(crate) fn loans(&self) -> Option<Arc<Loans>> {
        self.frames.loans.clone()
    }
}

impl<S: Source> Body for Stream<S> {
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
                return this.frames.end(cx);
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

/// Frames that come in.
pub(crate) struct Reader<B> {
    body: B,
    chunk: Bytes,
    /// The most bytes of one value.
    limit: u64,
    spare: Arc<Spare>,
    /// What has come in on this call.
    flight: Flight,
    /// The sender, where its memory can be read.
    near: Option<Near>,
}

impl<B> Reader<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    /// Reads from `body`; no value may have more bytes than `limit`. Large ones take memory that is
    /// spare.
    pub(crate) fn new(body: B, limit: u64, spare: Arc<Spare>) -> Reader<B> {
        Reader {
            body,
            chunk: Bytes::new(),
            limit,
            flight: Flight::new(spare.clone()),
            spare,
            near: None,
        }
    }

    /// The same from a sender whose values may be lent.
    pub(crate) fn near(self, near: Option<Near>) -> Reader<B> {
        Reader { near, ..self }
    }

    /// Whether values may be lent.
    pub(crate) fn is_near(&self) -> bool {
        self.near.is_some()
    }

    /// Waits for bytes; false at the end.
    async fn more(&mut self) -> Result<bool, WireError> {
        while self.chunk.is_empty() {
            let next = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
            match next {
                None => return Ok(false),
                Some(Err(e)) => return Err(WireError::Broken(e.to_string())),
                Some(Ok(frame)) => {
                    // Trailers say nothing here.
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

    /// The next header; none where the stream has ended.
    ///
    /// # Errors
    /// It ended in the middle of one, or what came is none.
    pub(crate) async fn next(&mut self) -> Result<Option<Kind>, WireError> {
        if !self.more().await? {
            return Ok(None);
        }
        let mut length = [0; 4];
        self.fill(&mut length).await?;
        let length = u32::from_le_bytes(length);
        if u64::from(length) > MOST_HEADER {
            return Err(WireError::TooLong {
                found: length.into(),
                limit: MOST_HEADER,
            });
        }
        let length = length as usize;
        let header = match self.chunk.len() >= length {
            true => Header::decode(self.chunk.split_to(length))?,
            false => {
                // It grows with what has come: a length alone takes no memory.
                let mut bytes = BytesMut::new();
                while bytes.len() < length {
                    if !self.more().await? {
                        return Err(WireError::Short);
                    }
                    let n = self.chunk.len().min(length - bytes.len());
                    bytes.put(self.chunk.split_to(n));
                }
                Header::decode(bytes.freeze())?
            }
        };
        Ok(Some(header.kind.ok_or(WireError::Expected("a message"))?))
    }

    /// The tensor behind the header of a value.
    ///
    /// # Errors
    /// Its bytes are not what the header says, or do not come.
    pub(crate) async fn tensor(&mut self, header: &Value) -> Result<Tensor, WireError> {
        if header.loan.is_some() {
            return Err(WireError::Expected("a value's bytes"));
        }
        let mut room = value::Room::new(header, self.limit, &self.spare)?;
        loop {
            match room.next() {
                [] => return room.finish(&self.spare),
                part => {
                    self.flight.more(part.len())?;
                    self.fill(part).await?;
                }
            }
        }
    }

    /// What copies a tensor that is lent, megabytes: not on the threads of the network. The stream that
    /// tells of it must be there until it is done.
    ///
    /// # Errors
    /// The header does not say that it is lent, or nobody asked for that.
    pub(crate) fn borrowed(
        &self,
        header: &Value,
    ) -> Result<impl FnOnce() -> Result<Tensor, WireError> + Send + 'static, WireError> {
        let (Some(near), Some(loan)) = (self.near, header.loan) else {
            return Err(WireError::Expected("a value's bytes"));
        };
        let (header, limit, spare) = (header.clone(), self.limit, self.spare.clone());
        Ok(move || {
            let mut room = value::Room::new(&header, limit, &spare)?;
            let mut borrowed = Borrowed::new(near, loan);
            let mut flight = Flight::new(spare.clone());
            loop {
                match room.next() {
                    [] => break,
                    part => {
                        flight.more(part.len())?;
                        borrowed.fill(part)?;
                    }
                }
            }
            borrowed.end()?;
            room.finish(&spare)
        })
    }

    /// A tensor that is lent, read in place; the buffer that it lies in has to be given back to `maps`. None
    /// where it can not be mapped: it is copied then.
    ///
    /// # Errors
    /// Its bytes are not what the header says.
    pub(crate) fn mapped(&self, header: &Value, maps: &Maps) -> Result<Option<Tensor>, WireError> {
        let (Some(near), Some(segment)) = (self.near, header.loan.and_then(|l| l.segment)) else {
            return Ok(None);
        };
        let value = value::Described::new(header, self.limit)?;
        if !value.dtype.is_float() {
            // An index that was looked at must not become another one, whatever the sender does.
            return Ok(None);
        }
        let Some(buffer) = maps.get(near, segment, value.bytes) else {
            return Ok(None);
        };
        let tensor = Tensor::from_buffer(value.dtype, &value.dims, buffer)?;
        Ok(Some(tensor))
    }

    /// The next value, with its number.
    ///
    /// # Errors
    /// Something else comes.
    pub(crate) async fn value(&mut self) -> Result<(i64, Tensor), WireError> {
        match self.next().await? {
            Some(Kind::Value(header)) => Ok((header.number, self.tensor(&header).await?)),
            _ => Err(WireError::Expected("a value")),
        }
    }
}
