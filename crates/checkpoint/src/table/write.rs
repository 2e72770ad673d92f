//! Writer of sorted string tables.

use std::io::{self, Write};

use super::block::Builder;
use super::{FOOTER, Handle, MAGIC, PLAIN, SNAPPY};
use crate::crc;

/// The size from which a block is written, in bytes. Source: `core/lib/io/table_options.h`.
const BLOCK_BYTES: usize = 262_144;
/// Keys between two restarts.
const RESTART_INTERVAL: usize = 16;

/// A table under construction, key after key.
pub(crate) struct TableWriter<W> {
    to: W,
    offset: u64,
    data: Builder,
    index: Builder,
    last: Vec<u8>,
    /// The last written block: its index entry waits for the next key.
    pending: Option<Handle>,
    block: usize,
    snappy: bool,
}

impl<W: Write> TableWriter<W> {
    pub(crate) fn new(to: W) -> TableWriter<W> {
        TableWriter {
            to,
            offset: 0,
            data: Builder::new(RESTART_INTERVAL),
            index: Builder::new(1),
            last: Vec::new(),
            pending: None,
            block: BLOCK_BYTES,
            snappy: false,
        }
    }

    /// A writer with another block size, compressed by Snappy: TensorFlow reads such tables, and
    /// writes none.
    #[cfg(test)]
    pub(crate) fn compressed(to: W, block: usize) -> TableWriter<W> {
        let mut table = TableWriter::new(to);
        (table.block, table.snappy) = (block, true);
        table
    }

    /// Adds a key that comes after all others in the order of bytes.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if key.len() + value.len() >= 2 * self.block {
            self.flush()?;
        }
        if let Some(handle) = self.pending.take() {
            let between = separator(&self.last, key);
            self.add_to_index(&between, handle);
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.data.add(key, value);
        if self.data.size() >= self.block {
            self.flush()?;
        }
        Ok(())
    }

    fn add_to_index(&mut self, key: &[u8], handle: Handle) {
        let mut value = Vec::with_capacity(20);
        handle.put(&mut value);
        self.index.add(key, &value);
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.data.is_empty() {
            let block = self.data.take();
            self.pending = Some(self.put_block(block)?);
        }
        Ok(())
    }

    fn put_block(&mut self, block: Vec<u8>) -> io::Result<Handle> {
        let (mut bytes, kind) = match self.snappy {
            false => (block, PLAIN),
            true => {
                let packed = snap::raw::Encoder::new().compress_vec(&block);
                (packed.map_err(io::Error::other)?, SNAPPY)
            }
        };
        let handle = Handle {
            offset: self.offset,
            size: bytes.len() as u64,
        };
        bytes.push(kind);
        let sum = crc::masked(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        self.to.write_all(&bytes)?;
        self.offset += bytes.len() as u64;
        Ok(handle)
    }

    /// Writes the rest, and returns the underlying writer.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        let meta = self.put_block(Builder::new(RESTART_INTERVAL).take())?;
        if let Some(handle) = self.pending.take() {
            let after = successor(&self.last);
            self.add_to_index(&after, handle);
        }
        let block = self.index.take();
        let index = self.put_block(block)?;
        let mut footer = Vec::with_capacity(FOOTER);
        meta.put(&mut footer);
        index.put(&mut footer);
        footer.resize(FOOTER - 8, 0);
        footer.extend_from_slice(&MAGIC.to_le_bytes());
        self.to.write_all(&footer)?;
        Ok(self.to)
    }
}

/// A short key that is at least `last` and below `next`.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let same = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    if let (Some(&byte), Some(&limit)) = (last.get(same), next.get(same))
        && byte < limit
        && byte + 1 < limit
    {
        let mut short = last[..=same].to_vec();
        short[same] += 1;
        return short;
    }
    last.to_vec()
}

/// A short key that is at least `last`.
fn successor(last: &[u8]) -> Vec<u8> {
    match last.iter().position(|&byte| byte != 0xff) {
        Some(at) => {
            let mut short = last[..=at].to_vec();
            short[at] += 1;
            short
        }
        None => last.to_vec(),
    }
}
