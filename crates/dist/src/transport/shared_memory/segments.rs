//! What this process reads in segments of others.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use thalweg_tensor::{Buffer, Tensor};
use tokio::runtime::Handle;

use super::socket::DescriptorClient;
use crate::runtime::lock::locked;
use crate::transport::buffer_pool::{BufferPool, InFlightBytes};
use crate::transport::messages as wire;
use crate::transport::values::{ValueBuffer, ValueHeader};
use crate::transport::wire_error::WireError;

/// A task of this machine, whose segments this process maps.
#[derive(Debug)]
pub(crate) struct ColocatedTask {
    /// As the task tells it from those before it.
    pub(crate) incarnation: u64,
    link: DescriptorClient,
    maps: SegmentMaps,
}

impl ColocatedTask {
    /// The task that has said this, if it is on this machine and of the same user; it is waited for no
    /// longer than `timeout`, now and later.
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

    /// Whether it has gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.link.is_closed()
    }

    /// The first `len` bytes of what it lends by this token.
    ///
    /// # Errors
    /// It does not give the descriptor, or gives another one.
    pub(crate) async fn map(&self, loan: wire::Loan, len: usize) -> Result<Arc<Buffer>, WireError> {
        if let Some(buffer) = self.maps.get(loan.segment, len) {
            return Ok(buffer);
        }
        let file = self.link.descriptor(loan.token).await?;
        let new = Buffer::mapped(&file, loan.segment, len)?;
        Ok(self.maps.put(loan.segment, new))
    }

    /// Ends the use of a buffer; true where nobody has it any more. Where somebody has it, it is not
    /// given again.
    pub(crate) fn give(&self, buffer: Arc<Buffer>) -> bool {
        self.maps.give(buffer)
    }

    /// Gives back what is lent by these tokens, and then drops the stream that tells of it.
    pub(crate) fn back(&self, tokens: Vec<u64>, stream: Box<dyn Send>) {
        self.link.back(tokens, stream);
    }
}

/// A value that another task lends.
pub(crate) struct LentValue {
    header: wire::Value,
    described: ValueHeader,
    /// What it lies in.
    pub(crate) buffer: Arc<Buffer>,
    limit: u64,
    pool: Arc<BufferPool>,
}

impl LentValue {
    /// The value of this header, which this task lends.
    ///
    /// # Errors
    /// The header is none of a value, or of one of more than `limit` bytes, or the segment can not be
    /// mapped.
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

    /// The tensor, read in place; none where it has to be copied.
    ///
    /// # Errors
    /// Its bytes are not what the header says.
    pub(crate) fn in_place(&self) -> Result<Option<Tensor>, WireError> {
        let ValueHeader { dtype, dims, .. } = &self.described;
        if !dtype.is_float() {
            // An index that was looked at must not become another one, whatever the sender does.
            return Ok(None);
        }
        let tensor = Tensor::from_buffer(*dtype, dims, self.buffer.clone())?;
        Ok(Some(tensor))
    }

    /// A copy of the tensor, megabytes: not to be made on the threads of the network.
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

/// The most segments of one process that stay mapped, and their bytes.
const MAX_SEGMENTS: usize = 1024;
const MAX_MAPPED_BYTES: usize = 4 << 30;
/// One that was not asked for while the others were so many times goes: its owner has given it up.
const MAX_UNUSED_ROUNDS: u64 = 16;

/// Segments of one process that are mapped: they are mapped once, and not anew in each step.
#[derive(Debug, Default)]
pub(super) struct SegmentMaps(Mutex<MapTable>);

#[derive(Debug, Default)]
struct MapTable {
    /// How often one was asked for.
    asked: u64,
    /// What was not asked for the longest comes first.
    all: Vec<MappedSegment>,
}

#[derive(Debug)]
struct MappedSegment {
    segment: u64,
    buffer: Arc<Buffer>,
    /// When it was asked for last.
    asked: u64,
}

impl MapTable {
    /// One that is known, and notes that it was asked for.
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

    /// Takes out what has to go, for one more of `len` bytes: of what nobody has.
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
        locked(&self.0)
    }

    /// The first `len` bytes of a segment, if they are mapped.
    pub(super) fn get(&self, segment: u64, len: usize) -> Option<Arc<Buffer>> {
        self.mapped().get(segment, len)
    }

    /// Keeps one that was mapped now; gives the one that somebody else has mapped meanwhile, if there is
    /// one.
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

    /// Ends the use of one; true where nobody has it any more, and it stays mapped. Where somebody has it,
    /// it is not given again.
    pub(super) fn give(&self, buffer: Arc<Buffer>) -> bool {
        let mut mapped = self.mapped();
        // One is the caller's, one may be here.
        let is_it = |m: &MappedSegment| Arc::ptr_eq(&m.buffer, &buffer);
        let known = mapped.all.iter().position(is_it);
        let free = Arc::strong_count(&buffer) == 1 + usize::from(known.is_some());
        // What others read there comes before what follows.
        fence(Ordering::Acquire);
        if let (Some(at), false) = (known, free) {
            mapped.all.remove(at);
        }
        free
    }
}
