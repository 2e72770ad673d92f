//! Mapped segments of co-located tasks.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{Buffer, Tensor};
use tokio::runtime::Handle;

use super::socket::DescriptorClient;
use crate::transport::buffer_pool::{BufferPool, InFlightBytes};
use crate::transport::messages as wire;
use crate::transport::values::{ValueBuffer, ValueHeader};
use crate::transport::wire_error::WireError;

/// A task on this machine, whose segments this process maps.
#[derive(Debug)]
pub(crate) struct ColocatedTask {
    /// Incarnation of the task's process.
    pub(crate) incarnation: u64,
    link: DescriptorClient,
    maps: SegmentMaps,
}

impl ColocatedTask {
    /// Connects to the task with this address. `None` if it is not on this machine or of another user. Each wait
    /// takes `timeout` at most, now and later.
    pub(crate) async fn find(
        said: wire::Colocation,
        runtime: &Handle,
        timeout: Duration,
    ) -> Option<Arc<ColocatedTask>> {
        Some(Arc::new(ColocatedTask {
            incarnation: said.incarnation,
            link: DescriptorClient::connect(said, runtime, timeout).await?,
            maps: SegmentMaps::default(),
        }))
    }

    /// `true` if its process is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.link.is_closed()
    }

    /// Maps the first `len` bytes of a loan.
    ///
    /// # Errors
    /// The descriptor does not come, or is of another segment.
    pub(crate) async fn map(&self, loan: wire::Loan, len: usize) -> Result<Arc<Buffer>, WireError> {
        if let Some(buffer) = self.maps.get(loan.segment, len) {
            return Ok(buffer);
        }
        let file = self.link.descriptor(loan.token).await?;
        let new = Buffer::mapped(&file, loan.segment, len)?;
        Ok(self.maps.put(loan.segment, new))
    }

    /// Releases a buffer. `true` if no other user is left. A buffer that is still in use is not handed out again.
    pub(crate) fn release(&self, buffer: Arc<Buffer>) -> bool {
        self.maps.release(buffer)
    }

    /// Returns these loans, then drops the stream that has announced them.
    pub(crate) fn return_loans(&self, tokens: Vec<u64>, stream: Box<dyn Send>) {
        self.link.return_loans(tokens, stream);
    }
}

/// A value that a co-located task lends.
pub(crate) struct LentValue {
    header: wire::Value,
    described: ValueHeader,
    /// Mapped buffer of the value.
    pub(crate) buffer: Arc<Buffer>,
    limit: u64,
    pool: Arc<BufferPool>,
}

impl LentValue {
    /// Maps the value of this header.
    ///
    /// # Errors
    /// The header is invalid, the value has more than `limit` bytes, or the segment cannot be mapped.
    pub(crate) async fn new(
        from: &ColocatedTask,
        loan: wire::Loan,
        header: &wire::Value,
        limit: u64,
        pool: &Arc<BufferPool>,
    ) -> Result<LentValue, WireError> {
        let described = ValueHeader::new(header, limit).map_err(|e| pool.refused(e))?;
        let buffer = from.map(loan, described.bytes).await?;
        Ok(LentValue {
            header: header.clone(),
            described,
            buffer,
            limit,
            pool: pool.clone(),
        })
    }

    /// Returns the tensor, read in place. `None` if it has to be copied.
    ///
    /// # Errors
    /// Its bytes are not what the header says.
    pub(crate) fn in_place(&self) -> Result<Option<Tensor>, WireError> {
        let ValueHeader { dtype, dims, .. } = &self.described;
        if !dtype.is_float() {
            // A checked index must not change afterwards, whatever the sender does.
            return Ok(None);
        }
        let tensor = Tensor::from_buffer(*dtype, dims, self.buffer.clone())?;
        Ok(Some(tensor))
    }

    /// Copies the tensor. This copies megabytes: not to be called on the threads of the network.
    ///
    /// # Errors
    /// Its bytes are not what the header says.
    pub(crate) fn copied(&self) -> Result<Tensor, WireError> {
        let mut room = ValueBuffer::new(&self.header, self.limit, &self.pool)?;
        let mut flight = InFlightBytes::new(self.pool.clone());
        let mut rest = self.buffer.bytes();
        loop {
            match room.next() {
                [] => return room.finish(&self.pool),
                part => {
                    flight.more(part.len())?;
                    let (now, after) = rest.split_at_checked(part.len()).ok_or(WireError::Short)?;
                    part.copy_from_slice(now);
                    rest = after;
                }
            }
        }
    }
}

/// Limits of the mapped segments of one process: their number and their bytes.
const MAX_SEGMENTS: usize = 1024;
const MAX_MAPPED_BYTES: usize = 4 << 30;
/// A segment that was not used while all others were used this many times is unmapped: its owner has abandoned it.
const MAX_UNUSED_ROUNDS: u64 = 16;

/// Mapped segments of one process. They stay mapped over steps.
#[derive(Debug, Default)]
pub(super) struct SegmentMaps(Mutex<MapTable>);

#[derive(Debug, Default)]
struct MapTable {
    /// Number of uses of all segments.
    asked: u64,
    /// In order of the last use.
    all: Vec<MappedSegment>,
}

#[derive(Debug)]
struct MappedSegment {
    segment: u64,
    buffer: Arc<Buffer>,
    /// Number of uses of all segments at its last use.
    asked: u64,
}

impl MapTable {
    /// Returns a mapped segment, and notes its use.
    fn get(&mut self, segment: u64, len: usize) -> Option<Arc<Buffer>> {
        let is_it = |m: &MappedSegment| m.segment == segment && m.buffer.len() == len;
        let at = self.all.iter().position(is_it)?;
        let buffer = self.all.remove(at).buffer;
        Some(self.put(segment, buffer))
    }

    fn put(&mut self, segment: u64, buffer: Arc<Buffer>) -> Arc<Buffer> {
        self.asked += 1;
        self.all.push(MappedSegment {
            segment,
            buffer: buffer.clone(),
            asked: self.asked,
        });
        buffer
    }

    /// Removes outdated segments that are not in use, to make room for `len` bytes.
    fn outdated(&mut self, len: usize) -> Vec<MappedSegment> {
        let (now, count) = (self.asked, self.all.len() as u64);
        let mut bytes: usize = self.all.iter().map(|m| m.buffer.len()).sum();
        let mut left = self.all.len();
        let goes = |m: &mut MappedSegment| {
            let old = now - m.asked > MAX_UNUSED_ROUNDS * count;
            let full = left >= MAX_SEGMENTS || bytes.saturating_add(len) > MAX_MAPPED_BYTES;
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

impl SegmentMaps {
    fn mapped(&self) -> MutexGuard<'_, MapTable> {
        self.0.lock().unpoisoned()
    }

    /// Returns the first `len` bytes of a segment, if they are mapped.
    pub(super) fn get(&self, segment: u64, len: usize) -> Option<Arc<Buffer>> {
        self.mapped().get(segment, len)
    }

    /// Adds a new mapping. Returns the one of a concurrent call instead, if there is one.
    pub(super) fn put(&self, segment: u64, new: Buffer) -> Arc<Buffer> {
        let mut mapped = self.mapped();
        if let Some(buffer) = mapped.get(segment, new.len()) {
            return buffer;
        }
        let outdated = mapped.outdated(new.len());
        let buffer = mapped.put(segment, Arc::new(new));
        drop(mapped);
        drop(outdated);
        buffer
    }

    /// Releases a buffer. `true` if no other user is left; it stays mapped then. A buffer that is still in use is not
    /// handed out again.
    pub(super) fn release(&self, buffer: Arc<Buffer>) -> bool {
        let mut mapped = self.mapped();
        // One reference is the caller's, one may be in the table.
        let is_it = |m: &MappedSegment| Arc::ptr_eq(&m.buffer, &buffer);
        let known = mapped.all.iter().position(is_it);
        let free = Arc::strong_count(&buffer) == 1 + usize::from(known.is_some());
        // Reads of other threads happen before the release.
        fence(Ordering::Acquire);
        if let (Some(at), false) = (known, free) {
            mapped.all.remove(at);
        }
        free
    }
}
