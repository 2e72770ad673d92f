//! Memory estimates of decoded messages, computed from their bytes without decoding.
//!
//! An empty `NodeDef` takes two bytes in a file and 168 in memory, and the first entry of a map
//! takes kilobytes. So the size of a message on the wire bounds nothing. A reader of untrusted
//! bytes asks here first, and then decodes a message that fits.
//!
//! The estimate is an upper bound of the bytes that the decoded message allocates, with the growth
//! of lists and the allocator's own overhead. The copy of a list while it grows is not counted, nor
//! is the copy of a field of bytes that the decoder makes if it reads from a slice in place of
//! `Bytes`.
//!
//! ```
//! use thalweg_graphdef::messages::{GraphDef, NodeDef};
//! use thalweg_graphdef::{file, sizes};
//!
//! let def = GraphDef { node: vec![NodeDef::default(); 1000], ..GraphDef::default() };
//! let bytes = file::encode(&def);
//! assert_eq!(bytes.len(), 2000);
//! let decoded = sizes::decoded_bytes::<GraphDef>(&bytes, 1 << 20)?;
//! assert!(decoded > 100_000);
//! // A limit in bytes.
//! assert!(sizes::decoded_bytes::<GraphDef>(&bytes, 10_000).is_err());
//! # Ok::<(), thalweg_graphdef::sizes::TooLarge>(())
//! ```

#[rustfmt::skip]
mod tables;

use thiserror::Error;

/// The most fields of a message here.
pub const MAX_FIELDS: usize = 40;
/// The deepest nesting of messages. The decoder stops at 100, so it never gets as far.
const MAX_DEPTH: usize = 128;
/// The approximate overhead of an allocation, in bytes.
const OVERHEAD: u64 = 16;
/// The capacity of a node of a `BTreeMap`, and the fewest entries of one after a split.
const MAP_NODE_CAPACITY: (u64, u64) = (11, 5);
/// The size of a node of a `BTreeMap` without its entries: the pointers to its children.
const MAP_LINKS: u64 = 112 + OVERHEAD;

/// The fields of a message that its decoder knows.
pub struct Table {
    /// The size of the message's struct, in bytes.
    pub bytes: usize,
    /// Each field: its number, and its memory beside the struct.
    pub fields: &'static [(u32, Field)],
}

/// The memory of a field beside the struct that contains it.
pub enum Field {
    /// None: a number.
    Number,
    /// A string or bytes.
    Bytes,
    /// A list of strings or bytes.
    BytesList,
    /// A list of numbers, each of this many bytes, packed or not.
    Numbers(usize, Packed),
    /// A message inside the struct.
    Message(&'static Table),
    /// A list of messages.
    Messages(&'static Table),
    /// A map, whose entries are messages of a key and a value.
    Map(&'static Table),
}

/// The encoding of the numbers of a packed list.
#[derive(Clone, Copy)]
pub enum Packed {
    /// As varints.
    Varint,
    /// With four bytes each.
    Four,
    /// With eight bytes each.
    Eight,
}

/// A message whose decoded size can be estimated from its bytes.
pub trait Measured {
    /// The fields of the message.
    const TABLE: &'static Table;
}

/// The error of a message that exceeds its memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the message takes more than {limit} bytes of memory once it is decoded")]
pub struct TooLarge {
    /// The limit, in bytes.
    pub limit: u64,
}

/// An upper bound of the memory of a decoded message, in bytes. For malformed bytes, it is the
/// memory that the decoder takes until it fails.
///
/// # Errors
/// [`TooLarge`] if it exceeds `limit`.
pub fn decoded_bytes<M: Measured>(wire: &[u8], limit: u64) -> Result<u64, TooLarge> {
    let mut scan = Scan {
        wire,
        at: 0,
        sum: M::TABLE.bytes as u64,
        limit,
    };
    match scan.message(M::TABLE, wire.len(), 0) {
        Err(ScanError::Limit) => Err(TooLarge { limit }),
        Ok(()) | Err(ScanError::Malformed) if scan.sum > limit => Err(TooLarge { limit }),
        Ok(()) | Err(ScanError::Malformed) => Ok(scan.sum),
    }
}

enum ScanError {
    Limit,
    /// The decoder fails here with an error.
    Malformed,
}

struct Scan<'a> {
    wire: &'a [u8],
    at: usize,
    sum: u64,
    limit: u64,
}

impl Scan<'_> {
    fn take(&mut self, bytes: u64) -> Result<(), ScanError> {
        self.sum = self.sum.saturating_add(bytes);
        match self.sum > self.limit {
            true => Err(ScanError::Limit),
            false => Ok(()),
        }
    }

    /// Scans the fields of a message up to `end`. A message may claim to end after the one that
    /// contains it: the decoder notices that afterwards, so this does too.
    fn message(&mut self, table: &Table, end: usize, depth: usize) -> Result<(), ScanError> {
        if depth > MAX_DEPTH {
            return Err(ScanError::Malformed);
        }
        let mut counts = [0u64; MAX_FIELDS];
        while self.at < end {
            let key = self.varint()?;
            let number = u32::try_from(key >> 3).map_err(|_| ScanError::Malformed)?;
            let known = table.fields.iter().zip(&mut counts);
            let Some(((_, field), count)) = known.into_iter().find(|((n, _), _)| *n == number)
            else {
                self.skip(key, depth)?;
                continue;
            };
            self.field(field, key, count, depth)?;
        }
        match self.at == end {
            true => Ok(()),
            false => Err(ScanError::Malformed),
        }
    }

    fn field(
        &mut self,
        field: &Field,
        key: u64,
        count: &mut u64,
        depth: usize,
    ) -> Result<(), ScanError> {
        const DELIMITED: u64 = 2;
        // The decoder reads an entry of a map whatever form its key says.
        if key & 7 != DELIMITED && !matches!(field, Field::Map(_)) {
            if let Field::Numbers(size, _) = field {
                self.grow(count, 1, *size as u64)?;
            }
            return self.skip(key, depth);
        }
        let length = self.length()?;
        let end = self.at + length;
        match field {
            Field::Number => return Err(ScanError::Malformed),
            Field::Bytes => {
                self.take((length as u64).max(8) + OVERHEAD)?;
                self.at = end;
            }
            Field::BytesList => {
                self.grow(count, 1, size_of::<Vec<u8>>() as u64)?;
                self.take((length as u64).max(8) + OVERHEAD)?;
                self.at = end;
            }
            Field::Numbers(size, packed) => {
                let values = match packed {
                    Packed::Four => length.div_ceil(4),
                    Packed::Eight => length.div_ceil(8),
                    // The last byte of each is below 128.
                    Packed::Varint => {
                        let last = self.wire[self.at..end].iter().filter(|b| **b < 128);
                        last.count() + 1
                    }
                };
                self.grow(count, values as u64, *size as u64)?;
                self.at = end;
            }
            Field::Message(table) => self.message(table, end, depth + 1)?,
            Field::Messages(table) => {
                self.grow(count, 1, table.bytes as u64)?;
                self.message(table, end, depth + 1)?;
            }
            Field::Map(entry) => {
                self.insert(count, entry.bytes as u64)?;
                self.message(entry, end, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Counts items pushed on a list. It has room for four at first, and doubles when it is full.
    /// The same list may continue in another piece of its message, so each piece counts as one that
    /// may just have doubled.
    fn grow(&mut self, count: &mut u64, more: u64, size: u64) -> Result<(), ScanError> {
        let least = if size == 1 { 8 } else { 4 };
        let room = |n: u64| if n == 0 { 0 } else { (2 * n).max(least) };
        let before = room(*count);
        let first = if *count == 0 { OVERHEAD } else { 0 };
        *count += more;
        self.take((room(*count) - before).saturating_mul(size) + first)
    }

    /// Counts an entry of a map. Its first one takes a node with room for eleven. The twelfth one
    /// splits that node, below a new root. Each node but the root keeps five entries or more.
    fn insert(&mut self, count: &mut u64, size: u64) -> Result<(), ScanError> {
        let (room, least) = MAP_NODE_CAPACITY;
        *count += 1;
        let node = room * size + MAP_LINKS;
        match *count {
            1 => self.take(node),
            n if n <= room => Ok(()),
            n if n == room + 1 => self.take(node * room.div_ceil(least)),
            _ => self.take(node.div_ceil(least)),
        }
    }

    fn varint(&mut self) -> Result<u64, ScanError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.wire.get(self.at).ok_or(ScanError::Malformed)?;
            self.at += 1;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(ScanError::Malformed)
    }

    /// Reads a length that does not exceed the remaining bytes.
    fn length(&mut self) -> Result<usize, ScanError> {
        let length = usize::try_from(self.varint()?).map_err(|_| ScanError::Malformed)?;
        match length <= self.wire.len() - self.at {
            true => Ok(length),
            false => Err(ScanError::Malformed),
        }
    }

    /// Skips a field of this key: the decoder keeps nothing of it.
    fn skip(&mut self, key: u64, depth: usize) -> Result<(), ScanError> {
        if depth > MAX_DEPTH {
            return Err(ScanError::Malformed);
        }
        let length = match key & 7 {
            0 => self.varint().map(|_| 0)?,
            1 => 8,
            2 => self.length()?,
            // A group: fields up to the key that ends it.
            3 => loop {
                let inner = self.varint()?;
                match inner & 7 {
                    4 if inner >> 3 == key >> 3 => break 0,
                    4 => return Err(ScanError::Malformed),
                    _ => self.skip(inner, depth + 1)?,
                }
            },
            5 => 4,
            _ => return Err(ScanError::Malformed),
        };
        if length > self.wire.len() - self.at {
            return Err(ScanError::Malformed);
        }
        self.at += length;
        Ok(())
    }
}
