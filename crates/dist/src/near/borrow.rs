//! What this process reads from others.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_tensor::{Buffer, SegmentName};

use super::{Near, read};
use crate::wire::WireError;
use crate::wire::messages as wire;

/// Bytes that this process reads from another.
pub(crate) struct Borrowed {
    from: Near,
    loan: wire::Loan,
    read: u64,
}

impl Borrowed {
    pub(crate) fn new(from: Near, loan: wire::Loan) -> Borrowed {
        Borrowed {
            from,
            loan,
            read: 0,
        }
    }

    /// Reads on.
    ///
    /// # Errors
    /// The process is gone, or does not have the bytes.
    pub(crate) fn fill(&mut self, into: &mut [u8]) -> Result<(), WireError> {
        let at = self.loan.at.checked_add(self.read);
        let at = at.ok_or(WireError::Expected("an address"))?;
        read(self.from.process, at, into)?;
        self.read += into.len() as u64;
        Ok(())
    }

    /// Looks whether what was read was lent all the while.
    ///
    /// # Errors
    /// It was not.
    pub(crate) fn end(self) -> Result<(), WireError> {
        fence(Ordering::SeqCst);
        let mut mark = [0; 8];
        read(self.from.process, self.loan.mark, &mut mark)?;
        match u64::from_ne_bytes(mark) == self.loan.token {
            true => Ok(()),
            false => Err(WireError::Broken(
                "a value was taken back before it was read: this process stood still for longer than \
                 others wait for it. Run the step again"
                    .to_owned(),
            )),
        }
    }
}

/// The most segments of one process that stay mapped, and their bytes.
const MOST: usize = 1024;
const MOST_BYTES: usize = 4 << 30;
/// One that was not asked for while the others were so many times goes: its owner has given it up.
const ROUNDS: u64 = 16;

/// Segments of one process that are mapped: they are mapped once, and not anew in each step.
#[derive(Debug, Default)]
pub(crate) struct Maps(Mutex<Mapped>);

#[derive(Debug, Default)]
struct Mapped {
    /// How often one was asked for.
    asked: u64,
    /// What was not asked for the longest comes first.
    all: Vec<Map>,
}

#[derive(Debug)]
struct Map {
    inode: u64,
    buffer: Arc<Buffer>,
    /// When it was asked for last.
    asked: u64,
}

impl Mapped {
    fn take(&mut self, inode: u64, len: usize) -> Option<Arc<Buffer>> {
        let is_it = |m: &Map| m.inode == inode && m.buffer.len() == len;
        let at = self.all.iter().position(is_it)?;
        Some(self.all.remove(at).buffer)
    }

    /// Notes that one was asked for.
    fn put(&mut self, inode: u64, buffer: Arc<Buffer>) -> Arc<Buffer> {
        self.asked += 1;
        self.all.push(Map {
            inode,
            buffer: buffer.clone(),
            asked: self.asked,
        });
        buffer
    }

    /// Takes out what has to go, for one more of `len` bytes: of what nobody has.
    fn outdated(&mut self, len: usize) -> Vec<Map> {
        let (now, count) = (self.asked, self.all.len() as u64);
        let mut bytes: usize = self.all.iter().map(|m| m.buffer.len()).sum();
        let mut left = self.all.len();
        let goes = |m: &mut Map| {
            let old = now - m.asked > ROUNDS * count;
            let full = left >= MOST || bytes.saturating_add(len) > MOST_BYTES;
            let goes = (old || full) && Arc::strong_count(&m.buffer) == 1;
            if goes {
                bytes -= m.buffer.len();
                left -= 1;
            }
            goes
        };
        self.all.extract_if(.., goes).collect()
    }
}

impl Maps {
    fn mapped(&self) -> MutexGuard<'_, Mapped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first `len` bytes of a segment; none where it can not be mapped.
    pub(crate) fn get(
        &self,
        near: Near,
        segment: wire::Segment,
        len: usize,
    ) -> Option<Arc<Buffer>> {
        let inode = segment.inode;
        let known = |mapped: &mut Mapped| {
            let buffer = mapped.take(inode, len)?;
            Some(mapped.put(inode, buffer))
        };
        if let Some(buffer) = known(&mut self.mapped()) {
            return Some(buffer);
        }
        let name = SegmentName {
            descriptor: segment.descriptor,
            inode,
        };
        let new = Buffer::mapped(near.process, name, len).ok()?;
        let mut mapped = self.mapped();
        if let Some(buffer) = known(&mut mapped) {
            // Somebody else was faster.
            return Some(buffer);
        }
        let outdated = mapped.outdated(len);
        let buffer = mapped.put(inode, Arc::new(new));
        drop(mapped);
        drop(outdated);
        Some(buffer)
    }

    /// Gives up one that was had here; true where nobody has it any more, and it stays mapped. Where
    /// somebody has it, it is not given again.
    pub(crate) fn give(&self, buffer: Arc<Buffer>) -> bool {
        let mut mapped = self.mapped();
        // One is the caller's, one may be here.
        let is_it = |m: &Map| Arc::ptr_eq(&m.buffer, &buffer);
        let known = mapped.all.iter().position(is_it);
        let free = Arc::strong_count(&buffer) == 1 + usize::from(known.is_some());
        // What others read there comes before what follows.
        fence(Ordering::Acquire);
        if let (Some(at), false) = (known, free) {
            mapped.all.remove(at);
        }
        free
    }

    /// Gives up all.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut self.mapped().all);
        drop(all);
    }
}
