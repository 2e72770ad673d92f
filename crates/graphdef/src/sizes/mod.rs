//! How much memory a message takes once it is decoded, told from its bytes without decoding it.
//!
//! An empty `NodeDef` takes two bytes in a file and 168 in memory, and the first entry of a map takes
//! kilobytes. So the size of a message on the wire bounds nothing. A reader that takes bytes from strangers
//! asks here first, and then decodes what fits.
//!
//! The estimate is an upper bound of the bytes that the decoded message asks the allocator for, with the
//! growth of lists and the allocator's own overhead. The copy of a list while it grows is not counted, nor is
//! the copy of a field of bytes that the decoder makes where it reads from a slice in place of `Bytes`.
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

/// The most fields that a message has here.
pub const MOST_FIELDS: usize = 40;
/// How deep messages may lie in each other. The decoder stops at 100, so it never gets as far.
const DEEPEST: usize = 128;
/// What an allocation costs beyond its bytes, about.
const OVERHEAD: u64 = 16;
/// How many entries a node of a `BTreeMap` has room for, and the fewest that one which was split has.
const MAP_NODE: (u64, u64) = (11, 5);
/// What a node of a `BTreeMap` has beside its entries: the pointers to its children.
const MAP_LINKS: u64 = 112 + OVERHEAD;

/// The fields of a message that its decoder knows.
pub struct Table {
    /// The size of the message's struct, in bytes.
    pub bytes: usize,
    /// Each field: its number, and what it takes beside the struct.
    pub fields: &'static [(u32, Field)],
}

/// What a field takes beside the struct that it is in.
pub enum Field {
    /// Nothing: a number.
    Number,
    /// A string or bytes.
    Bytes,
    /// A list of strings or bytes.
    BytesList,
    /// A list of numbers, each of so many bytes, packed or not.
    Numbers(usize, Packed),
    /// A message that lies in the struct.
    Message(&'static Table),
    /// A list of messages.
    Messages(&'static Table),
    /// A map, whose entries are messages of a key and a value.
    Map(&'static Table),
}

/// How the numbers of a packed list are written.
#[derive(Clone, Copy)]
pub enum Packed {
    /// With as many bytes as each needs.
    Varint,
    /// With four bytes each.
    Four,
    /// With eight bytes each.
    Eight,
}

/// A message whose decoded size can be told from its bytes.
pub trait Measured {
    /// The fields of the message.
    const TABLE: &'static Table;
}

/// A message takes more memory than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the message takes more than {limit} bytes of memory once it is decoded")]
pub struct TooLarge {
    /// The limit, in bytes.
    pub limit: u64,
}

/// The most memory that a message takes once it is decoded, in bytes. Where the bytes are no such message,
/// it is what the decoder takes until it notices.
///
/// # Errors
/// It is more than `limit`.
pub fn decoded_bytes<M: Measured>(wire: &[u8], limit: u64) -> Result<u64, TooLarge> {
    let mut scan = Scan {
        wire,
        at: 0,
        sum: M::TABLE.bytes as u64,
        limit,
    };
    match scan.message(M::TABLE, wire.len(), 0) {
        Err(Stop::Limit) => Err(TooLarge { limit }),
        Ok(()) | Err(Stop::Malformed) if scan.sum > limit => Err(TooLarge { limit }),
        Ok(()) | Err(Stop::Malformed) => Ok(scan.sum),
    }
}

enum Stop {
    Limit,
    /// The decoder fails here, and says what is wrong.
    Malformed,
}

struct Scan<'a> {
    wire: &'a [u8],
    at: usize,
    sum: u64,
    limit: u64,
}

impl Scan<'_> {
    fn take(&mut self, bytes: u64) -> Result<(), Stop> {
        self.sum = self.sum.saturating_add(bytes);
        match self.sum > self.limit {
            true => Err(Stop::Limit),
            false => Ok(()),
        }
    }

    /// Goes over the fields of a message up to `end`. A message may say that it ends after the one that it lies
    /// in: the decoder notices that afterwards, so this does too.
    fn message(&mut self, table: &Table, end: usize, depth: usize) -> Result<(), Stop> {
        if depth > DEEPEST {
            return Err(Stop::Malformed);
        }
        let mut counts = [0u64; MOST_FIELDS];
        while self.at < end {
            let key = self.varint()?;
            let number = u32::try_from(key >> 3).map_err(|_| Stop::Malformed)?;
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
            false => Err(Stop::Malformed),
        }
    }

    fn field(
        &mut self,
        field: &Field,
        key: u64,
        count: &mut u64,
        depth: usize,
    ) -> Result<(), Stop> {
        const DELIMITED: u64 = 2;
        if key & 7 != DELIMITED {
            if let Field::Numbers(size, _) = field {
                self.grow(count, 1, *size as u64)?;
            }
            return self.skip(key, depth);
        }
        let length = self.length()?;
        let end = self.at + length;
        match field {
            Field::Number => return Err(Stop::Malformed),
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

    /// Counts items that are pushed on a list. It has room for four at first, and doubles when it is full. The same
    /// list may go on in another piece of its message, so each piece counts as one that may just have doubled.
    fn grow(&mut self, count: &mut u64, more: u64, size: u64) -> Result<(), Stop> {
        let least = if size == 1 { 8 } else { 4 };
        let room = |n: u64| if n == 0 { 0 } else { (2 * n).max(least) };
        let before = room(*count);
        let first = if *count == 0 { OVERHEAD } else { 0 };
        *count += more;
        self.take((room(*count) - before).saturating_mul(size) + first)
    }

    /// Counts an entry of a map. Its first one takes a node with room for eleven.
    fn insert(&mut self, count: &mut u64, size: u64) -> Result<(), Stop> {
        let (room, least) = MAP_NODE;
        *count += 1;
        let node = room * size + MAP_LINKS;
        match *count {
            1 => self.take(node),
            n if n <= room => Ok(()),
            _ => self.take(node.div_ceil(least)),
        }
    }

    fn varint(&mut self) -> Result<u64, Stop> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.wire.get(self.at).ok_or(Stop::Malformed)?;
            self.at += 1;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(Stop::Malformed)
    }

    /// A length that the bytes which are left have.
    fn length(&mut self) -> Result<usize, Stop> {
        let length = usize::try_from(self.varint()?).map_err(|_| Stop::Malformed)?;
        match length <= self.wire.len() - self.at {
            true => Ok(length),
            false => Err(Stop::Malformed),
        }
    }

    /// Passes over a field of this key: the decoder keeps nothing of it.
    fn skip(&mut self, key: u64, depth: usize) -> Result<(), Stop> {
        if depth > DEEPEST {
            return Err(Stop::Malformed);
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
                    4 => return Err(Stop::Malformed),
                    _ => self.skip(inner, depth + 1)?,
                }
            },
            5 => 4,
            _ => return Err(Stop::Malformed),
        };
        if length > self.wire.len() - self.at {
            return Err(Stop::Malformed);
        }
        self.at += length;
        Ok(())
    }
}
