//! What goes through shared memory.

use std::sync::atomic::Ordering;

use super::{PIECE, SMALL, SharedMemory};
use crate::channel::parts;
use crate::error::Result;
use crate::reduce::{First, Reducer};
use crate::watch::Phase;

impl SharedMemory {
    /// Reduces the values of all ranks, to all of them.
    ///
    /// # Errors
    /// What ended the job, ranks that do not come, and ranks that run something else.
    pub(crate) fn all_reduce(&mut self, tag: u64, data: &mut [u8], reducer: Reducer) -> Result<()> {
        let value = (tag, data.len());
        let piece = PIECE / reducer.size() * reducer.size();
        let mut first = true;
        for data in pieces(data, piece) {
            let k = self.post(value, data)?;
            match std::mem::take(&mut first) {
                true => self.meet(k, value)?,
                false => self.all(|c| &c.posted, k + 1)?,
            }
            if self.size() == 2 {
                self.reduce_pair(k, data, reducer);
            } else if data.len() <= SMALL {
                self.reduce(k, 0, data, reducer);
            } else {
                self.by_parts(k, data, reducer)?;
            }
            self.taken(k);
        }
        Ok(())
    }

    /// Reduces the posted pieces of two ranks, of which the own one is still in place.
    fn reduce_pair(&self, k: u64, into: &mut [u8], reducer: Reducer) {
        // SAFETY: all have posted piece k, and this rank has not taken it.
        let other = unsafe { self.posted(1 - self.place, k, 0, into.len()) };
        let first = match self.place {
            0 => First::There,
            _ => First::Comes,
        };
        self.watch.time(Phase::Reduce, || {
            reducer.combine(into, other, first);
            reducer.finish(into);
        });
    }

    /// Reduces bytes of the posted pieces from `at` on, in the order of ranks.
    fn reduce(&self, k: u64, at: usize, into: &mut [u8], reducer: Reducer) {
        let len = into.len();
        // SAFETY: all have posted piece k, and this rank has not taken it.
        let of = |place| unsafe { self.posted(place, k, at, len) };
        self.watch.time(Phase::Reduce, || {
            into.copy_from_slice(of(0));
            for place in 1..self.size() {
                reducer.combine(into, of(place), First::There);
            }
            reducer.finish(into);
        });
    }

    /// Reduces a part of a piece, and takes the others.
    fn by_parts(&self, k: u64, data: &mut [u8], reducer: Reducer) -> Result<()> {
        let parts = parts(data.len(), reducer.size(), self.size());
        let own = parts[self.place].clone();
        self.reduce(k, own.start, &mut data[own.clone()], reducer);
        // SAFETY: this part of the own slot is read by this rank alone until it is said to be reduced.
        let slot = unsafe { self.own(k, own.start, own.len()) };
        self.copy(slot, &data[own]);
        self.counters(self.place)
            .reduced
            .store(k + 1, Ordering::Release);
        for place in (0..self.size()).filter(|&p| p != self.place) {
            self.one(place, |c| &c.reduced, k + 1)?;
            let part = parts[place].clone();
            // SAFETY: the rank has reduced this part, and nobody writes there until this rank has taken the piece.
            let reduced = unsafe { self.posted(place, k, part.start, part.len()) };
            self.copy(&mut data[part], reduced);
        }
        Ok(())
    }

    /// Gives the value of one of them to all.
    ///
    /// # Errors
    /// As [`SharedMemory::all_reduce`].
    pub(crate) fn broadcast(&mut self, tag: u64, root: usize, data: &mut [u8]) -> Result<()> {
        let value = (tag, data.len());
        let mut first = true;
        for data in pieces(data, PIECE) {
            let own: &[u8] = if self.place == root { data } else { &[] };
            let k = self.post(value, own)?;
            if std::mem::take(&mut first) {
                self.meet(k, value)?;
            }
            self.one(root, |c| &c.posted, k + 1)?;
            if self.place != root {
                // SAFETY: the root has posted piece k, and this rank has not taken it.
                let posted = unsafe { self.posted(root, k, 0, data.len()) };
                self.copy(data, posted);
            }
            self.taken(k);
        }
        Ok(())
    }

    /// Puts the values of all ranks one after another: `lens` has the bytes of each.
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
            let there = |len: usize| at.min(len)..(at + PIECE).min(len);
            let k = self.post((tag, own.len()), &own[there(own.len())])?;
            let mut begin = 0;
            for (place, &len) in lens.iter().enumerate() {
                self.one(place, |c| &c.posted, k + 1)?;
                if at == 0 {
                    self.check(place, k, (tag, len))?;
                }
                let range = there(len);
                let to = &mut output[begin..begin + len][range.clone()];
                // SAFETY: the rank has posted piece k, and this rank has not taken it.
                let posted = unsafe { self.posted(place, k, 0, range.len()) };
                self.copy(to, posted);
                begin += len;
            }
            self.taken(k);
            at += PIECE;
            if at >= most {
                return Ok(());
            }
        }
    }

    /// Returns once all have called it.
    ///
    /// # Errors
    /// As [`SharedMemory::all_reduce`].
    pub(crate) fn barrier(&mut self, tag: u64) -> Result<()> {
        let k = self.post((tag, 0), &[])?;
        self.meet(k, (tag, 0))?;
        self.taken(k);
        Ok(())
    }
}

/// A value in pieces; an empty one is one empty piece, so that ranks meet.
fn pieces(data: &mut [u8], piece: usize) -> impl Iterator<Item = &mut [u8]> {
    let empty = if data.is_empty() {
        Some(&mut [][..])
    } else {
        None
    };
    data.chunks_mut(piece).chain(empty)
}
