//! Messages in chunks, which go over any connection of a link.

use std::io;
use std::ops::Range;

use crate::aligned::Aligned;
use crate::error::CollectiveError;
use crate::links::{Incoming, Outgoing, check_message};
use crate::phase_timer::{Phase, PhaseTimer};
use crate::stream::Stream;

/// Bytes of a chunk: whole elements of every dtype. A chunk is received before it is reduced, and stays in the cache.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes of a chunk's header: the tag and the length of the message, its number on this link, and the offset of the chunk.
const HEADER_BYTES: usize = 32;

/// Number of chunks of a message: an empty one has one, so that ranks meet.
fn chunk_count(len: usize) -> usize {
    len.div_ceil(CHUNK_BYTES).max(1)
}

/// Bytes of a chunk in a message.
fn chunk_range(number: usize, len: usize) -> Range<usize> {
    (number * CHUNK_BYTES).min(len)..((number + 1) * CHUNK_BYTES).min(len)
}

/// Chunk that is being sent.
struct OutChunk {
    header: [u8; HEADER_BYTES],
    range: Range<usize>,
    /// Bytes that were sent, of the header and of the chunk.
    done: usize,
}

/// Message that is being sent.
pub(super) struct Sending<'a> {
    pub(super) message: Outgoing<'a>,
    number: u64,
    /// Number of the next chunk.
    next: usize,
    /// Chunks that are being sent, by connection.
    out: Vec<Option<OutChunk>>,
    /// By connection: `true` if the system has taken all that was written.
    flushed: Vec<bool>,
}

impl<'a> Sending<'a> {
    /// Message with its number on a link of so many connections.
    pub(super) fn new(message: Outgoing<'a>, number: u64, connections: usize) -> Sending<'a> {
        Sending {
            message,
            number,
            next: 0,
            out: (0..connections).map(|_| None).collect(),
            flushed: vec![true; connections],
        }
    }

    fn has_more(&self) -> bool {
        self.next < chunk_count(self.message.bytes.len())
    }

    pub(super) fn is_done(&self) -> bool {
        (0..self.out.len()).all(|connection| !self.waits_for(connection))
    }

    /// `true` if this connection has bytes to send.
    pub(super) fn waits_for(&self, connection: usize) -> bool {
        self.out[connection].is_some() || !self.flushed[connection] || self.has_more()
    }

    /// Begins the next chunk.
    fn begin(&mut self) -> OutChunk {
        let range = chunk_range(self.next, self.message.bytes.len());
        self.next += 1;
        let len = self.message.bytes.len() as u64;
        let words = [self.message.tag, len, self.number, range.start as u64];
        let mut header = [0; HEADER_BYTES];
        for (to, word) in header.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        OutChunk {
            header,
            range,
            done: 0,
        }
    }

    /// Sends a chunk over each connection, or the part that the system takes. Returns `true` on progress.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn go_on(&mut self, streams: &[Stream], timer: &PhaseTimer) -> io::Result<bool> {
        let mut progress = false;
        for (connection, stream) in streams.iter().enumerate() {
            let out = match self.out[connection].take() {
                Some(out) => out,
                None if self.has_more() => self.begin(),
                None => {
                    let flushed = self.flushed[connection] || stream.flush()?;
                    progress |= flushed && !self.flushed[connection];
                    self.flushed[connection] = flushed;
                    continue;
                }
            };
            let before = out.done;
            let out = timer.time(Phase::Copy, || self.send(out, stream))?;
            self.flushed[connection] = stream.flush()?;
            progress |= out.as_ref().is_none_or(|out| out.done > before);
            self.out[connection] = out;
        }
        Ok(progress)
    }

    /// Sends the part of a chunk that the system takes. Returns the chunk unless all of it was sent.
    fn send(&self, mut out: OutChunk, stream: &Stream) -> io::Result<Option<OutChunk>> {
        let all = HEADER_BYTES + out.range.len();
        while out.done < all {
            let header = out.header.get(out.done..).unwrap_or_default();
            let bytes =
                &self.message.bytes[out.range.clone()][out.done.saturating_sub(HEADER_BYTES)..];
            match stream.write(header, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => out.done += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Some(out)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }
}

/// Received part of a chunk of a connection. It belongs to this message or to the next one.
pub(super) struct Inbox {
    header: [u8; HEADER_BYTES],
    /// Bytes that were received, of the header and of the chunk.
    done: usize,
    /// Buffer of a chunk that is to be reduced.
    piece: Aligned,
    /// `true` at the end of the stream. Other connections may still have bytes that were sent before.
    ended: bool,
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        Inbox {
            header: [0; HEADER_BYTES],
            done: 0,
            piece: Aligned::default(),
            ended: false,
        }
    }

    /// Word of the header.
    fn word(&self, at: usize) -> u64 {
        let bytes = self.header[8 * at..8 * at + 8].try_into();
        bytes.map_or(0, u64::from_le_bytes)
    }
}

/// Error of a receive: another message than the expected one, or a broken stream.
pub(super) enum ReceiveError {
    Message(CollectiveError),
    Stream(io::Error),
}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> ReceiveError {
        ReceiveError::Stream(error)
    }
}

/// Message that is being received.
pub(super) struct Receiving<'a> {
    pub(super) message: Incoming<'a>,
    number: u64,
    /// Chunks that are missing.
    left: usize,
}

impl<'a> Receiving<'a> {
    /// Message with its number on the link.
    pub(super) fn new(message: Incoming<'a>, number: u64) -> Receiving<'a> {
        Receiving {
            left: chunk_count(message.sink.len()),
            message,
            number,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// `true` if a connection may be read: not if a chunk of the next message has begun.
    pub(super) fn waits_for(&self, inbox: &Inbox) -> bool {
        !inbox.ended && (inbox.done < HEADER_BYTES || inbox.word(2) <= self.number)
    }

    /// Receives the bytes that have come. Returns `true` on progress.
    pub(super) fn go_on(
        &mut self,
        streams: &[Stream],
        inboxes: &mut [Inbox],
        timer: &PhaseTimer,
    ) -> Result<bool, ReceiveError> {
        let mut progress = false;
        for (stream, inbox) in streams.iter().zip(&mut *inboxes) {
            while !self.is_done() && self.waits_for(inbox) {
                if !self.read(stream, inbox, timer)? {
                    break;
                }
                progress = true;
            }
        }
        // Each connection has ended, or is at the next message already.
        let is_stuck = !inboxes.iter().any(|inbox| self.waits_for(inbox));
        match !self.is_done() && is_stuck {
            true => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            false => Ok(progress),
        }
    }

    /// Reads once. Returns `true` if bytes came.
    fn read(
        &mut self,
        stream: &Stream,
        inbox: &mut Inbox,
        timer: &PhaseTimer,
    ) -> Result<bool, ReceiveError> {
        let chunk = match inbox.done < HEADER_BYTES {
            true => 0..0,
            false => self.chunk(inbox)?,
        };
        let at = inbox.done.saturating_sub(HEADER_BYTES);
        if inbox.done < HEADER_BYTES || at < chunk.len() {
            let room = if inbox.done < HEADER_BYTES {
                &mut inbox.header[inbox.done..]
            } else if let Some(room) = self.message.sink.room(chunk.start + at) {
                &mut room[..chunk.len() - at]
            } else {
                if inbox.piece.bytes().is_empty() {
                    inbox.piece = Aligned::zeroed(CHUNK_BYTES);
                }
                &mut inbox.piece.bytes_mut()[at..chunk.len()]
            };
            match timer.time(Phase::Copy, || stream.read(room)) {
                Ok(0) if inbox.done == 0 => {
                    inbox.ended = true;
                    return Ok(true);
                }
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(n) => inbox.done += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
                Err(e) => return Err(e.into()),
            }
        }
        self.take_whole(inbox, timer)?;
        Ok(true)
    }

    /// Consumes a complete chunk.
    fn take_whole(&mut self, inbox: &mut Inbox, timer: &PhaseTimer) -> Result<(), ReceiveError> {
        if inbox.done < HEADER_BYTES || !self.waits_for(inbox) {
            return Ok(());
        }
        let chunk = self.chunk(inbox)?;
        if inbox.done < HEADER_BYTES + chunk.len() {
            return Ok(());
        }
        if self.message.sink.room(chunk.start).is_none() {
            let piece = &inbox.piece.bytes()[..chunk.len()];
            timer.time(Phase::Reduce, || self.message.sink.take(chunk.start, piece));
        }
        inbox.done = 0;
        self.left -= 1;
        Ok(())
    }

    /// Bytes of the message to which a chunk with this header belongs.
    fn chunk(&self, inbox: &Inbox) -> Result<Range<usize>, ReceiveError> {
        let received = (inbox.word(0), inbox.word(1) as usize);
        let len = self.message.sink.len();
        check_message(self.message.from, received, (self.message.tag, len))
            .map_err(ReceiveError::Message)?;
        let begin = inbox.word(3) as usize;
        if inbox.word(2) != self.number || begin > len || !begin.is_multiple_of(CHUNK_BYTES) {
            let text = "a chunk of a message has no place in it";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text).into());
        }
        Ok(chunk_range(begin / CHUNK_BYTES, len))
    }
}
