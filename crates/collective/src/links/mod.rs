//! Links of a rank to the others: the trait, and messages.

#[cfg(feature = "mpi")]
pub(crate) mod mpi;
pub(crate) mod tcp;
pub mod threads;

use crate::error::Result;
use crate::reduce::{OperandOrder, Reducer};

/// Message to send.
#[derive(Clone, Copy)]
pub struct Outgoing<'a> {
    /// Receiver.
    pub to: usize,
    /// Identifies the message among those between the same ranks: both ends must use the same tag.
    pub tag: u64,
    /// Content.
    pub bytes: &'a [u8],
}

/// Message to receive.
pub struct Incoming<'a> {
    /// Sender.
    pub from: usize,
    /// Tag of the sender.
    pub tag: u64,
    /// Destination of the content.
    pub sink: Sink<'a>,
}

/// Destination of the bytes of a message: memory, or a reduction with the content of memory.
pub struct Sink<'a> {
    into: &'a mut [u8],
    reduce: Option<(Reducer, OperandOrder)>,
}

impl<'a> Sink<'a> {
    /// Stores into this memory.
    pub fn store(into: &'a mut [u8]) -> Sink<'a> {
        Sink { into, reduce: None }
    }

    /// Reduces into this memory, which has whole elements.
    pub fn reduce(into: &'a mut [u8], reducer: Reducer, first: OperandOrder) -> Sink<'a> {
        Sink {
            into,
            reduce: Some((reducer, first)),
        }
    }

    pub(crate) fn of(into: &'a mut [u8], reduce: Option<(Reducer, OperandOrder)>) -> Sink<'a> {
        Sink { into, reduce }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.into.len()
    }

    /// `true` if the length is 0.
    pub fn is_empty(&self) -> bool {
        self.into.is_empty()
    }

    /// Bytes of an element, which must not be split; 1 if bytes are stored.
    pub fn element(&self) -> usize {
        self.reduce.map_or(1, |(reducer, _)| reducer.size())
    }

    /// Memory from `at` on, for bytes as they arrive; `None` if they are reduced.
    pub fn room(&mut self, at: usize) -> Option<&mut [u8]> {
        match self.reduce {
            None => Some(&mut self.into[at..]),
            Some(_) => None,
        }
    }

    /// Takes bytes for the position `at`. Bytes of a reduction are whole elements, in aligned memory.
    pub fn take(&mut self, at: usize, bytes: &[u8]) {
        let into = &mut self.into[at..at + bytes.len()];
        match self.reduce {
            None => into.copy_from_slice(bytes),
            Some((reducer, first)) => reducer.combine(into, bytes, first),
        }
    }
}

/// Connections of one rank to all others.
///
/// Messages between two ranks arrive in the order in which they were sent.
pub trait Links: Send {
    /// This rank.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn size(&self) -> usize;

    /// Sends to one rank and receives from another at the same time, so that neither waits for the other.
    ///
    /// # Errors
    /// [`Lost`](crate::CollectiveError::Lost); [`Differs`](crate::CollectiveError::Differs) if the message has another tag or
    /// another length.
    fn exchange(&mut self, send: Option<Outgoing<'_>>, receive: Option<Incoming<'_>>)
    -> Result<()>;

    /// Reduces the values of all ranks by an operation of the links, and applies the reducer's factor; `false` if the links
    /// have none, so that the caller uses an algorithm.
    ///
    /// # Errors
    /// As [`Links::exchange`].
    fn all_reduce(&mut self, data: &mut [u8], reducer: Reducer) -> Result<bool> {
        let _ = (data, reducer);
        Ok(false)
    }
}

/// Checks that the tag and the length of a message are the expected ones.
///
/// # Errors
/// [`CollectiveError::Differs`](crate::CollectiveError::Differs).
pub(crate) fn check_message(
    from: usize,
    received: (u64, usize),
    expected: (u64, usize),
) -> Result<()> {
    if received == expected {
        return Ok(());
    }
    let text = |(tag, bytes): (u64, usize)| format!("a message {tag:x} of {bytes} bytes");
    Err(crate::CollectiveError::Differs {
        rank: from,
        theirs: text(received),
        ours: text(expected),
    })
}
