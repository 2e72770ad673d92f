//! Pages of an LMDB file: meta pages, branches, leaves.

use crate::error::DataError;
use crate::positioned::PositionedFile;

/// Bytes of a page before its content.
pub(super) const HEADER_BYTES: usize = 16;
/// Bytes of a node before its key.
pub(super) const NODE_BYTES: usize = 8;
/// Bytes of the record of a database.
pub(super) const DATABASE_BYTES: usize = 48;
/// Magic number of a meta page.
pub(super) const MAGIC: u32 = 0xbeef_c0de;
/// Root of an empty database.
pub(super) const NO_PAGE: u64 = u64::MAX;
/// Page flags.
pub(super) const BRANCH: u16 = 1;
pub(super) const LEAF: u16 = 2;
pub(super) const OVERFLOW: u16 = 4;
pub(super) const META: u16 = 8;
/// Node flag: the value is in overflow pages, whose number the node has.
pub(super) const BIG_DATA: u16 = 1;
/// Node flag: the value is the record of a named database.
pub(super) const SUB_DATABASE: u16 = 2;
/// Flag of a page that a transaction has changed. It has no meaning in a file.
const DIRTY: u16 = 0x10;
/// Largest depth of a tree: that of LMDB's cursors.
const MAX_DEPTH: u16 = 32;

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    number(bytes, at, 2) as u16
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    number(bytes, at, 4) as u32
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at, 8)
}

/// A little-endian number of bytes that were checked to be there; missing ones count as zero.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes
        .iter()
        .rev()
        .fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// A database: a tree of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Database {
    pub(super) depth: u16,
    pub(super) entries: u64,
    pub(super) root: u64,
}

impl Database {
    /// Reads a record of [`DATABASE_BYTES`] at a position of the file.
    pub(super) fn parse(
        file: &PositionedFile,
        at: u64,
        record: &[u8],
    ) -> Result<Database, DataError> {
        let flags = u16_at(record, 4);
        let database = Database {
            depth: u16_at(record, 6),
            entries: u64_at(record, 32),
            root: u64_at(record, 40),
        };
        if flags != 0 {
            let reason = format!(
                "the database has the flags {flags:#x}: only keys in the order of bytes, with one value each, are read"
            );
            return Err(file.error(at + 4, reason));
        }
        if database.depth > MAX_DEPTH {
            let reason = format!(
                "a tree of depth {} is deeper than LMDB makes one",
                database.depth
            );
            return Err(file.error(at + 6, reason));
        }
        // A key takes a node and its offset.
        if database.entries > file.len() / (NODE_BYTES as u64 + 2) {
            let reason = format!("the file is too short for {} keys", database.entries);
            return Err(file.error(at + 32, reason));
        }
        Ok(database)
    }
}

/// The content of the newer meta page.
pub(super) struct Meta {
    pub(super) page_bytes: u64,
    pub(super) main: Database,
}

impl Meta {
    pub(super) fn read(file: &PositionedFile) -> Result<Meta, DataError> {
        const META_BYTES: u64 = HEADER_BYTES as u64 + 136;
        let first = file.bytes(0, META_BYTES)?;
        if u32_at(&first, HEADER_BYTES) != MAGIC {
            return Err(file.error(
                16,
                "the file is none of LMDB, or of a machine of another kind",
            ));
        }
        let page_bytes = u64::from(u32_at(&first, HEADER_BYTES + 24));
        if !page_bytes.is_power_of_two() || !(512..=1 << 16).contains(&page_bytes) {
            return Err(file.error(40, format!("there are no pages of {page_bytes} bytes")));
        }
        let second = file.bytes(page_bytes, META_BYTES)?;
        let valid = |page: &[u8]| {
            let version = u32_at(page, HEADER_BYTES + 4);
            u32_at(page, HEADER_BYTES) == MAGIC && version == 1
        };
        let transaction = |page: &[u8]| u64_at(page, HEADER_BYTES + 128);
        let (at, page) = match (valid(&first), valid(&second)) {
            (true, true) if transaction(&second) > transaction(&first) => (page_bytes, second),
            (true, _) => (0, first),
            (false, true) => (page_bytes, second),
            (false, false) => return Err(file.error(20, "only version 1 of LMDB's format is read")),
        };
        let main = HEADER_BYTES + 24 + DATABASE_BYTES;
        let main = Database::parse(file, at + main as u64, &page[main..])?;
        Ok(Meta { page_bytes, main })
    }
}

/// A branch or a leaf. Its header is checked; its nodes are, as they are read.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// Position in the file.
    at: u64,
    bytes: Vec<u8>,
    leaf: bool,
}

/// A key of a page, with the bytes after it.
pub(super) struct Node<'a> {
    pub(super) key: &'a [u8],
    pub(super) flags: u16,
    /// The first two fields: a length, or the low bits of a page's number.
    pub(super) low: u32,
    /// All bytes of the page after the key.
    pub(super) rest: &'a [u8],
    /// Position in the file.
    pub(super) at: u64,
}

impl Page {
    pub(super) fn read(
        file: &PositionedFile,
        page_bytes: u64,
        number: u64,
    ) -> Result<Page, DataError> {
        let at = number.checked_mul(page_bytes).filter(|at| *at < file.len());
        let missing = || file.error(0, format!("page {number} is not in the file: get it again"));
        let at = at.ok_or_else(missing)?;
        let bytes = file.bytes(at, page_bytes)?;
        let flags = u16_at(&bytes, 10) & !DIRTY;
        let lower = usize::from(u16_at(&bytes, 12));
        if u64_at(&bytes, 0) != number || !(flags == BRANCH || flags == LEAF) {
            return Err(file.error(at, format!("page {number} is no branch and no leaf")));
        }
        if lower < HEADER_BYTES || lower > bytes.len() {
            return Err(file.error(at + 12, format!("page {number} has no list of keys")));
        }
        let leaf = flags == LEAF;
        Ok(Page { at, bytes, leaf })
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.leaf
    }

    /// Number of keys.
    pub(super) fn len(&self) -> usize {
        (usize::from(u16_at(&self.bytes, 12)) - HEADER_BYTES) / 2
    }

    /// A node, whose header and key are inside of the page.
    pub(super) fn node(&self, file: &PositionedFile, number: usize) -> Result<Node<'_>, DataError> {
        let start = usize::from(u16_at(&self.bytes, HEADER_BYTES + 2 * number));
        let at = self.at + start as u64;
        let node = self.bytes.get(start..).and_then(|node| {
            let (head, after) = node.split_at_checked(NODE_BYTES)?;
            let (key, rest) = after.split_at_checked(usize::from(u16_at(head, 6)))?;
            Some(Node {
                key,
                flags: u16_at(head, 4),
                low: u32_at(head, 0),
                rest,
                at,
            })
        });
        node.ok_or_else(|| file.error(at, format!("node {number} of a page is cut off")))
    }

    /// The page of a child of a branch.
    pub(super) fn child(&self, file: &PositionedFile, number: usize) -> Result<u64, DataError> {
        let node = self.node(file, number)?;
        Ok(u64::from(node.low) | u64::from(node.flags) << 32)
    }

    /// Number of the first node whose key is not below `key`, from node `first` on; the number of nodes if all are.
    pub(super) fn search(
        &self,
        file: &PositionedFile,
        key: &[u8],
        first: usize,
    ) -> Result<usize, DataError> {
        let (mut low, mut high) = (first, self.len().max(first));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.node(file, middle)?.key < key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }
}
