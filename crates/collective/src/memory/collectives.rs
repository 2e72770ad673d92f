//! Collectives through shared memory.

use std::sync::atomic::Ordering;

use super::{PIECE, SMALL_BYTES, SharedMemory};
use crate::channel::parts;
use crate::error::Result;
use crate::phase_timer::Phase;
use crate::reduce::{OperandOrder, Reducer};

impl SharedMemory {
    /// Reduces the values of all ranks; each rank gets the result.
    ///
    /// # Errors
    /// The job has ended, a rank does not come in time, or runs another collective.
    pub(crate) fn all_reduce(&mut self, tag: u64, data: &mut [u8], reducer: Reducer) -> Result<()> {
        let value = (tag, data.len());
        let piece = PIECE / reducer.size() * reducer.size();
        let mut is_first = true;
        for data in pieces(data, piece) {
            let k = self.post(value, data)?;
            match std::mem::take(&mut is_first) {
                true => self.meet(k, value)?,
                false => self.all(|c| &c.posted, k + 1)?,
            }
            if self.size() == 2 {
                self.reduce_pair(k, data, reducer);
            } else if data.len() <= SMALL_BYTES {
                self.reduce(k, 0, data, reducer);
            } else {
                self.reduce_parts(k, data, reducer)?;
            }
            self.mark_taken(k);
        }
        Ok(())
    }

    /// Reduces the posted pieces of two ranks. `into` still holds the own piece.
    fn reduce_pair(&self, k: u64, into: &mut [u8], reducer: Reducer) {
        // SAFETY: all have posted piece k, and this rank has not taken it.
        let other = unsafe { self.posted(1 - self.place, k, 0, into.len()) };
        let order = match self.place {
            0 => OperandOrder::LocalFirst,
            _ => OperandOrder::RemoteFirst,
        };
        self.timer.time(Phase::Reduce, || {
            reducer.combine(into, other, order);
            reducer.finish(into);
        });
    }

    /// Reduces bytes of the posted pieces from `at` on, in the order of ranks.
    fn reduce(&self, k: u64, at: usize, into: &mut [u8], reducer: Reducer) {
        let len = into.len();
        // SAFETY: all have posted piece k, and this rank has not taken it.
        let of = |place| unsafe { self.posted(place, k, at, len) };
        self.timer.time(Phase::Reduce, || {
            into.copy_from_slice(of(0));
            for place in 1..self.size() {
                reducer.combine(into, of(place), OperandOrder::LocalFirst);
            }
            reducer.finish(into);
        });
    }

    /// Reduces a part of a piece, and takes the other parts from other ranks.
    fn reduce_parts(&self, k: u64, data: &mut [u8], reducer: Reducer) -> Result<()> {
        let parts = parts(data.len(), reducer.size(), self.size());
        let own = parts[self.place].clone();
        self.reduce(k, own.start, &mut data[own.clone()], reducer);
        // SAFETY: this rank alone reads this part of its slot until it is marked as reduced.
        let slot = unsafe { self.own(k, own.start, own.len()) };
        self.copy(slot, &data[own]);
        self.counters(self.place)
            .reduced
            .store(k + 1, Ordering::Release);
        for place in (0..self.size()).filter(|&p| p != self.place) {
            self.one(place, |c| &c.reduced, k + 1)?;
            let part = parts[place].clone();
            // SAFETY: the rank has reduced this part, and no rank writes there until this rank has taken the piece.
            let reduced = unsafe { self.posted(place, k, part.start, part.len()) };
            self.copy(&mut data[part], reduced);
        }
        Ok(())
    }

    /// Sends the value of the root to all ranks.
    ///
    /// # Errors
    /// As [`SharedMemory::all_reduce`].
    pub(crate) fn broadcast(&mut self, tag: u64, root: usize, data: &mut [u8]) -> Result<()> {
        let value = (tag, data.len());
        let mut is_first = true;
        for data in pieces(data, PIECE) {
            let own: &[u8] = if self.place == root { data } else { &[] };
            let k = self.post(value, own)?;
            if std::mem::take(&mut is_first) {
                self.meet(k, value)?;
            }
            self.one(root, |c| &c.posted, k + 1)?;
            if self.place != root {
                // SAFETY: the root has posted piece k, and this rank has not taken it.
                let posted = unsafe { self.posted(root, k, 0, data.len()) };
                self.copy(data, posted);
            }
            self.mark_taken(k);
        }
        Ok(())
    }

    /// Concatenates the values of all ranks; `lens` has the bytes of each.
    ///
    /// # Errors
    /// As [`SharedMemory::all_reduce`].
    pub(crate) fn all_gather(
        &mut self,
        tag: u64,
        own: &[u8],
        lens: &[usize],
        output: &mut [u8],
    ) -> Result<()> {
        let most = lens.iter().max().copied().unwrap_or(0);
        let mut at = 0;
        loop {
            let range_of = |len: usize| at.min(len)..(at + PIECE).min(len);
            let k = self.post((tag, own.len()), &own[range_of(own.len())])?;
            let mut begin = 0;
            for (place, &len) in lens.iter().enumerate() {
                self.one(place, |c| &c.posted, k + 1)?;
                if at == 0 {
                    self.check(place, k, (tag, len))?;
                }
                let range = range_of(len);
                let to = &mut output[begin..begin + len][range.clone()];
                // SAFETY: the rank has posted piece k, and this rank has not taken it.
                let posted = unsafe { self.posted(place, k, 0, range.len()) };
                self.copy(to, posted);
                begin += len;
            }
            self.mark_taken(k);
            at += PIECE;
            if at >= most {
                return Ok(());
            }
        }
    }

    /// Returns after all ranks have called it.
    ///
    /// # Errors
    /// As [`SharedMemory::all_reduce`].
    pub(crate) fn barrier(&mut self, tag: u64) -> Result<()> {
        let k = self.post((tag, 0), &[])?;
        self.meet(k, (tag, 0))?;
        self.mark_taken(k);
        Ok(())
    }
}

/// Splits a value into pieces; an empty value is one empty piece, so that ranks meet.
fn pieces(data: &mut [u8], piece: usize) -> impl Iterator<Item = &mut [u8]> {
    let empty = if data.is_empty() {
        Some(&mut [][..])
    } else {
        None
    };
    data.chunks_mut(piece).chain(empty)
}
