//! Messages in chunks, which go over any of the connections of a link.

use std::io;
use std::ops::Range;

use crate::aligned::Aligned;
use crate::error::CollectiveError;
use crate::links::{Incoming, Outgoing, same};
use crate::stream::Stream;
use crate::watch::{Phase, Watch};

/// Bytes of a chunk: whole elements of every dtype. It is received before it is reduced, and stays in the cache.
const CHUNK: usize = 64 << 10;
/// Bytes before each chunk: the tag and the length of the message, its number on this link, and where the chunk begins in it.
const HEADER: usize = 32;

/// How many chunks a message has: an empty one has one, so that ranks meet.
fn chunks(len: usize) -> usize {
    len.div_ceil(CHUNK).max(1)
}

fn chunk(number: usize, len: usize) -> Range<usize> {
    (number * CHUNK).min(len)..((number + 1) * CHUNK).min(len)
}

/// A chunk that is being sent.
struct Out {
    header: [u8; HEADER],
    range: Range<usize>,
    /// Bytes that are out, of the header and of the chunk.
    done: usize,
}

/// A message that is being sent.
pub(super) struct Sending<'a> {
    pub(super) message: Outgoing<'a>,
    number: u64,
    /// The chunk that is begun next.
    next: usize,
    /// By connection: what it sends.
    out: Vec<Option<Out>>,
    /// By connection: whether all that was written is with the system.
    flushed: Vec<bool>,
}

impl<'a> Sending<'a> {
    /// The message with this number on its link, which has so many connections.
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
        self.next < chunks(self.message.bytes.len())
    }

    pub(super) fn is_done(&self) -> bool {
        (0..self.out.len()).all(|connection| !self.waits_for(connection))
    }

    /// Whether this connection has something to send.
    pub(super) fn waits_for(&self, connection: usize) -> bool {
        self.out[connection].is_some() || !self.flushed[connection] || self.has_more()
    }

    /// The next chunk.
    fn begin(&mut self) -> Out {
        let range = chunk(self.next, self.message.bytes.len());
        self.next += 1;
        let len = self.message.bytes.len() as u64;
        let words = [self.message.tag, len, self.number, range.start as u64];
        let mut header = [0; HEADER];
        for (to, word) in header.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        Out {
            header,
            range,
            done: 0,
        }
    }

    /// Sends a chunk over each connection, or what the system takes of it; whether it took anything.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn go_on(&mut self, streams: &[Stream], watch: &Watch) -> io::Result<bool> {
        let mut went = false;
        for (connection, stream) in streams.iter().enumerate() {
            let out = match self.out[connection].take() {
                Some(out) => out,
                None if self.has_more() => self.begin(),
                None => {
                    let flushed = self.flushed[connection] || stream.flush()?;
                    went |= flushed && !self.flushed[connection];
                    self.flushed[connection] = flushed;
                    continue;
                }
            };
            let before = out.done;
            let out = watch.time(Phase::Copy, || self.send(out, stream))?;
            self.flushed[connection] = stream.flush()?;
            went |= out.as_ref().is_none_or(|out| out.done > before);
            self.out[connection] = out;
        }
        Ok(went)
    }

    /// Sends what the system takes of a chunk; gives it back unless all of it is out.
    fn send(&self, mut out: Out, stream: &Stream) -> io::Result<Option<Out>> {
        let all = HEADER + out.range.len();
        while out.done < all {
            let header = out.header.get(out.done..).unwrap_or_default();
            let bytes = &self.message.bytes[out.range.clone()][out.done.saturating_sub(HEADER)..];
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

/// What has come over a connection, and belongs to this message or to the next one.
pub(super) struct Inbox {
    header: [u8; HEADER],
    /// Bytes that have come, of the header and of the chunk.
    done: usize,
    /// A chunk that is to be reduced, until it is whole.
    piece: Aligned,
    /// Whether nothing more comes. The other connections may still bring what was sent before.
    ended: bool,
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        Inbox {
            header: [0; HEADER],
            done: 0,
            piece: Aligned::default(),
            ended: false,
        }
    }

    /// A word of the header.
    fn word(&self, at: usize) -> u64 {
        let bytes = self.header[8 * at..8 * at + 8].try_into();
        bytes.map_or(0, u64::from_le_bytes)
    }
}

/// What a message is that is not the expected one, or why the stream is broken.
pub(super) enum Broken {
    Other(CollectiveError),
    Stream(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Stream(error)
    }
}

/// A message that is being received.
pub(super) struct Receiving<'a> {
    pub(super) message: Incoming<'a>,
    number: u64,
    /// Chunks that have not come.
    left: usize,
}

impl<'a> Receiving<'a> {
    /// The message with this number on its link.
    pub(super) fn new(message: Incoming<'a>, number: u64) -> Receiving<'a> {
        Receiving {
            left: chunks(message.sink.len()),
            message,
            number,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Whether what a connection brings may be read: not where a chunk of the next message has begun to come.
    pub(super) fn waits_for(&self, inbox: &Inbox) -> bool {
        !inbox.ended && (inbox.done < HEADER || inbox.word(2) <= self.number)
    }

    /// Takes what has come; whether anything has.
    pub(super) fn go_on(
        &mut self,
        streams: &[Stream],
        inboxes: &mut [Inbox],
        watch: &Watch,
    ) -> Result<bool, Broken> {
        let mut went = false;
        for (stream, inbox) in streams.iter().zip(&mut *inboxes) {
            while !self.is_done() && self.waits_for(inbox) {
                if !self.read(stream, inbox, watch)? {
                    break;
                }
                went = true;
            }
        }
        // Each connection has ended, or brings the next message already.
        let nothing_comes = !inboxes.iter().any(|inbox| self.waits_for(inbox));
        match !self.is_done() && nothing_comes {
            true => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            false => Ok(went),
        }
    }

    /// Reads once; whether anything came.
    fn read(&mut self, stream: &Stream, inbox: &mut Inbox, watch: &Watch) -> Result<bool, Broken> {
        let chunk = match inbox.done < HEADER {
            true => 0..0,
            false => self.chunk(inbox)?,
        };
        let at = inbox.done.saturating_sub(HEADER);
        if inbox.done < HEADER || at < chunk.len() {
            let room = if inbox.done < HEADER {
                &mut inbox.header[inbox.done..]
            } else if let Some(room) = self.message.sink.room(chunk.start + at) {
                &mut room[..chunk.len() - at]
            } else {
                if inbox.piece.bytes().is_empty() {
                    inbox.piece = Aligned::zeroed(CHUNK);
                }
                &mut inbox.piece.bytes_mut()[at..chunk.len()]
            };
            match watch.time(Phase::Copy, || stream.read(room)) {
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
        self.take_whole(inbox, watch)?;
        Ok(true)
    }

    /// Takes a chunk that is whole.
    fn take_whole(&mut self, inbox: &mut Inbox, watch: &Watch) -> Result<(), Broken> {
        if inbox.done < HEADER || !self.waits_for(inbox) {
            return Ok(());
        }
        let chunk = self.chunk(inbox)?;
        if inbox.done < HEADER + chunk.len() {
            return Ok(());
        }
        if self.message.sink.room(chunk.start).is_none() {
            let piece = &inbox.piece.bytes()[..chunk.len()];
            watch.time(Phase::Reduce, || self.message.sink.take(chunk.start, piece));
        }
        inbox.done = 0;
        self.left -= 1;
        Ok(())
    }

    /// Where a chunk belongs whose header has come.
    fn chunk(&self, inbox: &Inbox) -> Result<Range<usize>, Broken> {
        let comes = (inbox.word(0), inbox.word(1) as usize);
        let len = self.message.sink.len();
        same(self.message.from, comes, (self.message.tag, len)).map_err(Broken::Other)?;
        let begin = inbox.word(3) as usize;
        if inbox.word(2) != self.number || begin > len || !begin.is_multiple_of(CHUNK) {
            let text = "a chunk of a message has no place in it";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text).into());
        }
        Ok(chunk(begin / CHUNK, len))
    }
}
