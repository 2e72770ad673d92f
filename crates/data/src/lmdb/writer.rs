//! Writer of LMDB files.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::page::{
    BIG_DATA, BRANCH, DATABASE_BYTES, HEADER_BYTES, LEAF, MAGIC, META, NO_PAGE, NODE_BYTES,
    OVERFLOW,
};
use crate::error::DataError;

const PAGE_BYTES: usize = 4096;
/// Largest length of a key.
const MAX_KEY_BYTES: usize = 511;
/// Largest length of a node in a leaf: two of them fit into a page. Larger values go to overflow pages.
const MAX_NODE_BYTES: usize = (PAGE_BYTES - HEADER_BYTES) / 2 - 2;
/// Flags of the database of free pages: its keys are integers.
const INTEGER_KEYS: u16 = 8;

/// Writes a new LMDB file, from keys in the order of their bytes, in one transaction.
///
/// The meta pages are written last: a file that is not finished is no file of LMDB.
pub struct LmdbWriter {
    path: PathBuf,
    file: BufWriter<File>,
    leaf: PageBuilder,
    /// First key and number of each leaf.
    leaves: Vec<(Vec<u8>, u64)>,
    /// The first key of the running leaf, and the last key of all.
    first: Vec<u8>,
    last: Vec<u8>,
    next_page: u64,
    entries: u64,
    overflow_pages: u64,
}

impl LmdbWriter {
    /// Makes a folder with the file `data.mdb`.
    ///
    /// # Errors
    /// [`DataError::Io`]: it cannot be made, or is there.
    pub fn create(folder: impl AsRef<Path>) -> Result<LmdbWriter, DataError> {
        let path = folder.as_ref().join("data.mdb");
        let wrong = |source| DataError::Io {
            path: path.clone(),
            source,
        };
        std::fs::create_dir_all(folder.as_ref()).map_err(wrong)?;
        let mut file = BufWriter::with_capacity(1 << 18, File::create_new(&path).map_err(wrong)?);
        let meta_pages = [0; 2 * PAGE_BYTES];
        file.write_all(&meta_pages).map_err(wrong)?;
        Ok(LmdbWriter {
            path,
            file,
            leaf: PageBuilder::new(),
            leaves: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            next_page: 2,
            entries: 0,
            overflow_pages: 0,
        })
    }

    /// Adds a key, which is above all keys before it, with its value.
    ///
    /// # Errors
    /// [`DataError::Options`]: the key is not above the last one, empty or longer than 511 bytes; the value has 4 GiB or
    /// more. [`DataError::Io`].
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        if key.is_empty()
            || key.len() > MAX_KEY_BYTES
            || (self.entries > 0 && key <= &self.last[..])
        {
            return Err(DataError::Options(format!(
                "the key {:?} after {:?}: LMDB takes keys of 1 to {MAX_KEY_BYTES} bytes, here in order",
                String::from_utf8_lossy(key),
                String::from_utf8_lossy(&self.last)
            )));
        }
        let Ok(length) = u32::try_from(value.len()) else {
            let reason = format!(
                "a value of {} bytes: LMDB takes less than 4 GiB",
                value.len()
            );
            return Err(DataError::Options(reason));
        };
        let big = NODE_BYTES + key.len() + value.len() > MAX_NODE_BYTES;
        let written = match big {
            true => self.write_overflow(value)?.to_le_bytes().to_vec(),
            false => Vec::new(),
        };
        let (flags, data) = match big {
            true => (BIG_DATA, &written[..]),
            false => (0, value),
        };
        if !self.leaf.fits(key, data) {
            self.end_leaf()?;
        }
        if self.leaf.is_empty() {
            self.first = key.to_vec();
        }
        self.leaf.push(length, flags, key, data);
        self.last.clear();
        self.last.extend_from_slice(key);
        self.entries += 1;
        Ok(())
    }

    /// Writes the branches and the meta pages.
    ///
    /// # Errors
    /// [`DataError::Io`].
    pub fn finish(mut self) -> Result<(), DataError> {
        if !self.leaf.is_empty() {
            self.end_leaf()?;
        }
        let leaf_pages = self.leaves.len() as u64;
        let mut level = std::mem::take(&mut self.leaves);
        let (mut depth, mut branch_pages) = (u16::from(leaf_pages > 0), 0);
        while level.len() > 1 {
            level = self.write_branches(&level)?;
            branch_pages += level.len() as u64;
            depth += 1;
        }
        let root = level.first().map_or(NO_PAGE, |(_, page)| *page);
        let counts = [branch_pages, leaf_pages, self.overflow_pages];
        let empty = database(PAGE_BYTES as u32, 0, 0, [0; 3], 0, NO_PAGE);
        let main = database(0, 0, depth, counts, self.entries, root);
        self.write_metas(&empty, &main)
            .map_err(|source| DataError::Io {
                path: self.path,
                source,
            })
    }

    /// Writes the page of a transaction before the first, with an empty database, and that of the first.
    fn write_metas(&mut self, empty: &[u8], main: &[u8]) -> io::Result<()> {
        let free = database(PAGE_BYTES as u32, INTEGER_KEYS, 0, [0; 3], 0, NO_PAGE);
        let size = self.next_page * PAGE_BYTES as u64;
        self.file.seek(SeekFrom::Start(0))?;
        for (number, main) in [(0u64, empty), (1, main)] {
            let last_page = if number == 0 { 1 } else { self.next_page - 1 };
            let mut page = header(number, META, 0, 0);
            page.extend_from_slice(&MAGIC.to_le_bytes());
            page.extend_from_slice(&1u32.to_le_bytes());
            page.extend_from_slice(&0u64.to_le_bytes());
            page.extend_from_slice(&size.to_le_bytes());
            page.extend_from_slice(&free);
            // The page size stands in the record of the free pages alone.
            page.extend_from_slice(&[0; 4]);
            page.extend_from_slice(&main[4..]);
            page.extend_from_slice(&last_page.to_le_bytes());
            page.extend_from_slice(&number.to_le_bytes());
            page.resize(PAGE_BYTES, 0);
            self.file.write_all(&page)?;
        }
        self.file.flush()?;
        self.file.get_ref().sync_all()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.file.write_all(bytes).map_err(|source| DataError::Io {
            path: self.path.clone(),
            source,
        })
    }

    /// Writes a value into pages of its own, and returns the number of the first.
    fn write_overflow(&mut self, value: &[u8]) -> Result<u64, DataError> {
        let bytes = HEADER_BYTES + value.len();
        let pages = bytes.div_ceil(PAGE_BYTES);
        let number = self.next_page;
        // The number of pages stands where other pages have two positions.
        let count = pages as u32;
        self.write(&header(
            number,
            OVERFLOW,
            count as u16,
            (count >> 16) as u16,
        ))?;
        self.write(value)?;
        self.write(&vec![0; pages * PAGE_BYTES - bytes])?;
        self.next_page += pages as u64;
        self.overflow_pages += pages as u64;
        Ok(number)
    }

    fn end_leaf(&mut self) -> Result<(), DataError> {
        let number = self.next_page;
        let page = self.leaf.finish(number, LEAF);
        self.write(&page)?;
        self.leaves.push((std::mem::take(&mut self.first), number));
        self.next_page += 1;
        Ok(())
    }

    /// Writes branches over these pages, and returns the first key and the number of each.
    fn write_branches(
        &mut self,
        below: &[(Vec<u8>, u64)],
    ) -> Result<Vec<(Vec<u8>, u64)>, DataError> {
        let mut level = Vec::new();
        let mut rest = below;
        while let Some((first, _)) = rest.first() {
            let mut count = branch_size(rest);
            // LMDB has no branch with one child.
            count -= usize::from(rest.len() == count + 1);
            let mut page = PageBuilder::new();
            for (number, (key, child)) in rest[..count].iter().enumerate() {
                // The first key of a branch is left out: it is below all others.
                let key = if number == 0 { &[][..] } else { key };
                page.push(*child as u32, (*child >> 32) as u16, key, &[]);
            }
            let number = self.next_page;
            self.write(&page.finish(number, BRANCH))?;
            self.next_page += 1;
            level.push((first.clone(), number));
            rest = &rest[count..];
        }
        Ok(level)
    }
}

/// Number of children that fit into a branch. There are several, because keys are short.
fn branch_size(children: &[(Vec<u8>, u64)]) -> usize {
    let mut free = PAGE_BYTES - HEADER_BYTES;
    let fits = |(key, _): &&(Vec<u8>, u64)| {
        let bytes = 2 + PageBuilder::node_bytes(key, &[]);
        let fits = bytes <= free;
        free = free.saturating_sub(bytes);
        fits
    };
    children.iter().take_while(fits).count()
}

/// The record of a database.
fn database(
    page_bytes: u32,
    flags: u16,
    depth: u16,
    pages: [u64; 3],
    entries: u64,
    root: u64,
) -> Vec<u8> {
    let mut record = Vec::with_capacity(DATABASE_BYTES);
    record.extend_from_slice(&page_bytes.to_le_bytes());
    record.extend_from_slice(&flags.to_le_bytes());
    record.extend_from_slice(&depth.to_le_bytes());
    for number in [pages[0], pages[1], pages[2], entries, root] {
        record.extend_from_slice(&number.to_le_bytes());
    }
    record
}

fn header(number: u64, flags: u16, lower: u16, upper: u16) -> Vec<u8> {
    let mut header = number.to_le_bytes().to_vec();
    for part in [0, flags, lower, upper] {
        header.extend_from_slice(&part.to_le_bytes());
    }
    header
}

/// A page that is filled: positions from its start on, nodes from its end on.
struct PageBuilder {
    positions: Vec<u16>,
    bytes: Vec<u8>,
    upper: usize,
}

impl PageBuilder {
    fn new() -> PageBuilder {
        PageBuilder {
            positions: Vec::new(),
            bytes: vec![0; PAGE_BYTES],
            upper: PAGE_BYTES,
        }
    }

    fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Nodes start at even positions.
    fn node_bytes(key: &[u8], data: &[u8]) -> usize {
        (NODE_BYTES + key.len() + data.len()).next_multiple_of(2)
    }

    fn fits(&self, key: &[u8], data: &[u8]) -> bool {
        let lower = HEADER_BYTES + 2 * (self.positions.len() + 1);
        lower + PageBuilder::node_bytes(key, data) <= self.upper
    }

    /// Adds a node that fits.
    fn push(&mut self, low: u32, flags: u16, key: &[u8], data: &[u8]) {
        self.upper -= PageBuilder::node_bytes(key, data);
        let mut node = low.to_le_bytes().to_vec();
        node.extend_from_slice(&flags.to_le_bytes());
        node.extend_from_slice(&(key.len() as u16).to_le_bytes());
        node.extend_from_slice(key);
        node.extend_from_slice(data);
        self.bytes[self.upper..][..node.len()].copy_from_slice(&node);
        self.positions.push(self.upper as u16);
    }

    /// The page. The builder is empty then.
    fn finish(&mut self, number: u64, flags: u16) -> Vec<u8> {
        let done = std::mem::replace(self, PageBuilder::new());
        let mut page = done.bytes;
        let lower = HEADER_BYTES + 2 * done.positions.len();
        let header = header(number, flags, lower as u16, done.upper as u16);
        page[..HEADER_BYTES].copy_from_slice(&header);
        for (position, to) in done
            .positions
            .iter()
            .zip(page[HEADER_BYTES..].chunks_exact_mut(2))
        {
            to.copy_from_slice(&position.to_le_bytes());
        }
        page
    }
}
