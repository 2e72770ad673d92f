//! Channel: the messages of one collective among some ranks.

use std::ops::Range;

use crate::error::Result;
use crate::links::{Incoming, Links, Outgoing, Sink};
use crate::reduce::{OperandOrder, Reducer};

/// Channel of one collective: the links of this rank, and the ranks that take part. Ranks are numbered by their places
/// among those that take part.
pub struct Channel<'a> {
    links: &'a mut dyn Links,
    members: &'a [usize],
    rank: usize,
    tag: u64,
}

impl<'a> Channel<'a> {
    /// Channel among `members`, which include this rank; `tag` identifies the collective.
    ///
    /// # Errors
    /// [`Argument`](crate::CollectiveError::Argument): this rank is not among them.
    pub fn new(links: &'a mut dyn Links, members: &'a [usize], tag: u64) -> Result<Channel<'a>> {
        let own = links.rank();
        let place = members.iter().position(|&m| m == own);
        let rank = place.ok_or_else(|| {
            let text = format!("rank {own} is not among the ranks {members:?} of a collective");
            crate::CollectiveError::Argument(text)
        })?;
        Ok(Channel {
            links,
            members,
            rank,
            tag,
        })
    }

    /// Place of this rank among the members.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Rank that is so many places ahead in a ring.
    pub(crate) fn after(&self, places: usize) -> usize {
        (self.rank + places) % self.size()
    }

    /// Rank that is so many places behind in a ring.
    pub(crate) fn before(&self, places: usize) -> usize {
        (self.rank + self.size() - places % self.size()) % self.size()
    }

    /// Sends to one rank and receives from another.
    pub(crate) fn exchange(
        &mut self,
        send: Option<(usize, &[u8])>,
        receive: Option<(usize, Sink<'_>)>,
    ) -> Result<()> {
        let tag = self.tag;
        let send = send.map(|(to, bytes)| Outgoing {
            to: self.members[to],
            tag,
            bytes,
        });
        let receive = receive.map(|(from, sink)| Incoming {
            from: self.members[from],
            tag,
            sink,
        });
        self.links.exchange(send, receive)
    }

    pub(crate) fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()> {
        self.exchange(Some((to, bytes)), None)
    }

    pub(crate) fn receive(&mut self, from: usize, sink: Sink<'_>) -> Result<()> {
        self.exchange(None, Some((from, sink)))
    }

    /// Sends one part of the data and receives another one, which is stored or reduced.
    pub(crate) fn swap(
        &mut self,
        data: &mut [u8],
        (to, sent): (usize, Range<usize>),
        (from, received): (usize, Range<usize>),
        reduce: Option<(Reducer, OperandOrder)>,
    ) -> Result<()> {
        let (sent, received) = split(data, sent, received);
        self.exchange(Some((to, sent)), Some((from, Sink::of(received, reduce))))
    }
}

/// Borrows two ranges that do not overlap.
fn split(data: &mut [u8], a: Range<usize>, b: Range<usize>) -> (&[u8], &mut [u8]) {
    if a.end <= b.start {
        let (first, second) = data.split_at_mut(b.start);
        (&first[a], &mut second[..b.end - b.start])
    } else {
        let (first, second) = data.split_at_mut(a.start);
        (&second[..a.end - a.start], &mut first[b])
    }
}

/// Splits `bytes` into parts for so many ranks, as equal as whole elements allow: the first parts may have one more element.
pub(crate) fn parts(bytes: usize, element: usize, ranks: usize) -> Vec<Range<usize>> {
    let elements = bytes / element;
    let (each, more) = (elements / ranks, elements % ranks);
    let mut begin = 0;
    let part = |rank| {
        let len = (each + usize::from(rank < more)) * element;
        let part = begin..begin + len;
        begin += len;
        part
    };
    (0..ranks).map(part).collect()
}
