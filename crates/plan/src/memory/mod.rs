//! Arena planning: offsets of values from their lifetimes, and the instructions to wait for when memory is reused.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Range;

use smallvec::SmallVec;

/// Maximum number of free pieces that are examined for memory whose last use is done.
const MAX_EXAMINED_PIECES: usize = 64;

/// A part of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArenaBlock {
    pub(super) offset: usize,
    pub(super) len: usize,
}

/// The last use of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct LastUse {
    /// The instructions that the next user of the memory waits for.
    pub(super) instructions: SmallVec<[u32; 4]>,
    /// Estimated time in nanoseconds at which they are done; see
    /// [`ListSchedule`](thalweg_estimate::ListSchedule).
    pub(super) done: u64,
}

/// Lays blocks out while a sequence is walked.
///
/// Memory that is given back remembers its last use: an instruction that takes it again waits for that, whatever order
/// threads run them in. So that independent instructions do not wait for each other, memory whose last use is done in
/// time comes first, and the arena grows by up to `spare` bytes before it gives out any other. Taking and giving take
/// logarithmic time, and up to [`MAX_EXAMINED_PIECES`] pieces are examined.
pub(super) struct Arena {
    /// Offsets are multiples of this.
    alignment: usize,
    /// Number of bytes by which the arena may still grow only to keep instructions from waiting.
    spare: usize,
    /// Free memory that hangs together: offset to length.
    holes: BTreeMap<usize, usize>,
    /// The same by length, to find the smallest that is large enough.
    by_len: BTreeSet<(usize, usize)>,
    /// Free memory as it was given back: offset to length and last use.
    pieces: BTreeMap<usize, (usize, LastUse)>,
    len: usize,
}

impl Arena {
    /// An arena whose blocks begin at multiples of `alignment`. It grows by up to `spare` bytes
    /// only so that instructions need not wait.
    pub(super) fn new(alignment: usize, spare: usize) -> Arena {
        Arena {
            alignment,
            spare,
            holes: BTreeMap::new(),
            by_len: BTreeSet::new(),
            pieces: BTreeMap::new(),
            len: 0,
        }
    }

    /// Returns the bytes that the arena needs.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes a block of at least `bytes` for an instruction that begins at `start`; the last users of its memory are
    /// added to `waits_for`.
    pub(super) fn allocate(
        &mut self,
        bytes: usize,
        start: u64,
        waits_for: &mut Vec<u32>,
    ) -> ArenaBlock {
        let len = bytes.max(1).next_multiple_of(self.alignment);
        // The smallest hole that is large enough; of equal ones the first.
        let fitting = || {
            let holes = self.by_len.range((len, 0)..);
            holes.map(|&(hole, at)| at..at + hole)
        };
        let offset = match self.in_time(fitting(), len, start) {
            Some(offset) => offset,
            None => {
                let first = fitting().next().map(|hole| hole.start);
                self.grown_or_waited_for(first, len, start)
            }
        };
        self.take_out(offset, len);
        self.take_pieces(offset, offset + len, waits_for);
        self.len = self.len.max(offset + len);
        ArenaBlock { offset, len }
    }

    /// Returns the offset of a block that fits nowhere in time: behind all memory in use, as long as there are bytes to
    /// spare, or in the hole that fits, whose last users are then waited for.
    fn grown_or_waited_for(&mut self, fits: Option<usize>, len: usize, start: u64) -> usize {
        let end = self.end();
        let waited_for = fits.unwrap_or(end);
        let tail = self.in_time(iter::once(end..self.len), self.len - end, start);
        let grown = tail.unwrap_or(self.len);
        let more = (grown + len).saturating_sub(self.len.max(waited_for + len));
        if more > self.spare {
            return waited_for;
        }
        self.spare -= more;
        grown
    }

    /// Takes a block out of the hole that it begins in, if it begins in one.
    fn take_out(&mut self, offset: usize, len: usize) {
        let hole = self.holes.range(..=offset).next_back();
        let hole = hole.map(|(&o, &l)| (o, l)).filter(|(o, l)| offset < o + l);
        if let Some((before, l)) = hole {
            self.remove_hole(before, l);
            if before < offset {
                self.add_hole(before, offset - before);
            }
            if offset + len < before + l {
                self.add_hole(offset + len, before + l - offset - len);
            }
        }
    }

    /// Returns the offset that the arena can grow from: its last hole, if that reaches its end.
    fn end(&self) -> usize {
        match self.holes.last_key_value() {
            Some((&o, &l)) if o + l == self.len => o,
            _ => self.len,
        }
    }

    /// Returns the offset in these holes of so many contiguous bytes whose last use is done by `start`.
    fn in_time(
        &self,
        holes: impl Iterator<Item = Range<usize>>,
        len: usize,
        start: u64,
    ) -> Option<usize> {
        let pieces = holes.flat_map(|hole| {
            let first = hole.start;
            self.pieces.range(hole).map(move |piece| (first, piece))
        });
        let mut from = 0;
        for (first, (&offset, (piece, last))) in pieces.take(MAX_EXAMINED_PIECES) {
            if offset == first {
                from = first;
            }
            if last.done > start {
                from = offset + piece;
            } else if offset + piece - from >= len {
                return Some(from);
            }
        }
        None
    }

    /// Gives a block back.
    pub(super) fn free(&mut self, block: ArenaBlock, last: LastUse) {
        let (mut offset, mut len) = (block.offset, block.len);
        self.pieces.insert(offset, (len, last));
        if let Some((&o, &l)) = self.holes.range(..offset).next_back()
            && o + l == offset
        {
            self.remove_hole(o, l);
            (offset, len) = (o, l + len);
        }
        if let Some(&l) = self.holes.get(&(offset + len)) {
            self.remove_hole(offset + len, l);
            len += l;
        }
        self.add_hole(offset, len);
    }

    fn add_hole(&mut self, offset: usize, len: usize) {
        self.holes.insert(offset, len);
        self.by_len.insert((len, offset));
    }

    fn remove_hole(&mut self, offset: usize, len: usize) {
        self.holes.remove(&offset);
        self.by_len.remove(&(len, offset));
    }

    /// Takes the pieces between two offsets, the first of which begins one.
    fn take_pieces(&mut self, mut at: usize, end: usize, waits_for: &mut Vec<u32>) {
        while at < end {
            let Some((len, last)) = self.pieces.remove(&at) else {
                return;
            };
            waits_for.extend(&last.instructions);
            if at + len > end {
                self.pieces.insert(end, (at + len - end, last));
            }
            at += len;
        }
    }
}

#[cfg(test)]
mod tests;
