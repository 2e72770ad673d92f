//! What this process reads from others.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_graph::tensor::{Buffer, SegmentName};

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

/// Segments of one process that are mapped: they are mapped once, and not anew in each step.
#[derive(Debug, Default)]
pub(crate) struct Maps(Mutex<Vec<(u64, Arc<Buffer>)>>);

impl Maps {
    fn all(&self) -> MutexGuard<'_, Vec<(u64, Arc<Buffer>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first `len` bytes of a segment; none where it can not be mapped.
    pub(crate) fn get(
        &self,
        near: Near,
        segment: wire::Segment,
        len: usize,
    ) -> Option<Arc<Buffer>> {
        let mut all = self.all();
        let is_it = |(inode, b): &(u64, Arc<Buffer>)| *inode == segment.inode && b.len() == len;
        let known = match all.iter().position(is_it) {
            Some(at) => all.remove(at),
            None => {
                let name = SegmentName {
                    descriptor: segment.descriptor,
                    inode: segment.inode,
                };
                let buffer = Buffer::mapped(near.process, name, len).ok()?;
                let mut bytes: usize = all.iter().map(|(_, b)| b.len()).sum();
                // Those go first that were not used for longest, and that nobody has.
                while all.len() >= MOST || bytes.saturating_add(len) > MOST_BYTES {
                    let free = |(_, b): &(u64, Arc<Buffer>)| Arc::strong_count(b) == 1;
                    let Some(at) = all.iter().position(free) else {
                        break;
                    };
                    bytes -= all.remove(at).1.len();
                }
                (segment.inode, Arc::new(buffer))
            }
        };
        let buffer = known.1.clone();
        all.push(known);
        Some(buffer)
    }

    /// Gives up one that was had here; true where nobody has it any more, and it stays mapped. Where
    /// somebody has it, it is not given again.
    pub(crate) fn give(&self, buffer: Arc<Buffer>) -> bool {
        let mut all = self.all();
        // One is the caller's, one may be here.
        let known = all.iter().position(|(_, b)| Arc::ptr_eq(b, &buffer));
        let free = Arc::strong_count(&buffer) == 1 + usize::from(known.is_some());
        // What others read there comes before what follows.
        fence(Ordering::Acquire);
        if let (Some(at), false) = (known, free) {
            all.remove(at);
        }
        free
    }

    /// Gives up all.
    pub(crate) fn clear(&self) {
        self.all().clear();
    }
}
