//! How a rank reaches the others.

#[cfg(feature = "mpi")]
pub(crate) mod mpi;
pub(crate) mod tcp;
pub mod threads;

use crate::error::Result;
use crate::reduce::{First, Reducer};

/// What is sent.
#[derive(Clone, Copy)]
pub struct Outgoing<'a> {
    /// To whom.
    pub to: usize,
    /// Tells this message from others between the same ranks: both ends must name the same.
    pub tag: u64,
    /// What.
    pub bytes: &'a [u8],
}

/// What is received.
pub struct Incoming<'a> {
    /// From whom.
    pub from: usize,
    /// As the sender names it.
    pub tag: u64,
    /// Where it goes.
    pub sink: Sink<'a>,
}

/// Where the bytes of a message go: into memory, or into a reduction with what is there.
pub struct Sink<'a> {
    into: &'a mut [u8],
    reduce: Option<(Reducer, First)>,
}

impl<'a> Sink<'a> {
    /// Into this memory.
    pub fn store(into: &'a mut [u8]) -> Sink<'a> {
        Sink { into, reduce: None }
    }

    /// Into a reduction with this memory, which has whole elements.
    pub fn reduce(into: &'a mut [u8], reducer: Reducer, first: First) -> Sink<'a> {
        Sink {
            into,
            reduce: Some((reducer, first)),
        }
    }

    pub(crate) fn of(into: &'a mut [u8], reduce: Option<(Reducer, First)>) -> Sink<'a> {
        Sink { into, reduce }
    }

    /// The bytes that it takes.
    pub fn len(&self) -> usize {
        self.into.len()
    }

    /// Whether it takes none.
    pub fn is_empty(&self) -> bool {
        self.into.is_empty()
    }

    /// The bytes of an element that may not be cut; 1 where bytes are stored.
    pub fn element(&self) -> usize {
        self.reduce.map_or(1, |(reducer, _)| reducer.size())
    }

    /// The memory from `at` on, where bytes may be put as they come; none where they are reduced.
    pub fn room(&mut self, at: usize) -> Option<&mut [u8]> {
        match self.reduce {
            None => Some(&mut self.into[at..]),
            Some(_) => None,
        }
    }

    /// Takes bytes that belong at `at`. Of a reduction they are whole elements, in memory that is aligned for them.
    pub fn take(&mut self, at: usize, bytes: &[u8]) {
        let into = &mut self.into[at..at + bytes.len()];
        match self.reduce {
            None => into.copy_from_slice(bytes),
            Some((reducer, first)) => reducer.combine(into, bytes, first),
        }
    }
}

/// The connections of one rank with all others.
///
/// Messages between two ranks arrive in the order in which they were sent.
pub trait Links: Send {
    /// Which rank this is.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// Sends to one rank and receives from another at the same time: neither waits for the other.
    ///
    /// # Errors
    /// [`Lost`](crate::CollectiveError::Lost); [`Differs`](crate::CollectiveError::Differs) where the message that comes
    /// has another tag or another length.
    fn exchange(&mut self, send: Option<Outgoing<'_>>, receive: Option<Incoming<'_>>)
    -> Result<()>;

    /// Reduces the values of all ranks by what the links have for that, and then multiplies by the reducer's factor; false
    /// where they have nothing: the caller then takes an algorithm.
    ///
    /// # Errors
    /// As [`Links::exchange`].
    fn all_reduce(&mut self, data: &mut [u8], reducer: Reducer) -> Result<bool> {
        let _ = (data, reducer);
        Ok(false)
    }
}

/// Whether the message that comes is the one that is expected: tags, and bytes.
///
/// # Errors
/// [`CollectiveError::Differs`](crate::CollectiveError::Differs).
pub(crate) fn same(from: usize, comes: (u64, usize), expected: (u64, usize)) -> Result<()> {
    if comes == expected {
        return Ok(());
    }
    let say = |(tag, bytes): (u64, usize)| format!("a message {tag:x} of {bytes} bytes");
    Err(crate::CollectiveError::Differs {
        rank: from,
        theirs: say(comes),
        ours: say(expected),
    })
}
