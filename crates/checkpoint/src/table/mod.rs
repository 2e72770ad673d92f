//! Sorted string tables, the format of a checkpoint's index: LevelDB's format, as TensorFlow writes
//! it. Source: TensorFlow's `core/lib/io/table_format.txt`.

pub(crate) mod block;
pub(crate) mod read;
pub(crate) mod varint;
pub(crate) mod write;

/// The magic number at the end of a table.
pub(crate) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// Bytes of the footer: two handles, zeros, the magic number.
pub(crate) const FOOTER: usize = 48;
/// Bytes after each block: its compression, and a checksum.
pub(crate) const TRAILER: usize = 5;
/// An uncompressed block.
pub(crate) const PLAIN: u8 = 0;
/// A block that Snappy compressed.
pub(crate) const SNAPPY: u8 = 1;

/// The location of a block: its offset and its length without the trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Handle {
    pub(crate) fn put(self, to: &mut Vec<u8>) {
        varint::put(to, self.offset);
        varint::put(to, self.size);
    }

    pub(crate) fn take(from: &mut &[u8]) -> Option<Handle> {
        let offset = varint::take(from)?;
        let size = varint::take(from)?;
        Some(Handle { offset, size })
    }
}

#[cfg(test)]
mod tests;
