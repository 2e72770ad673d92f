//! Reader of LMDB files.

use std::path::Path;
use std::sync::Arc;

use super::page::{
    BIG_DATA, DATABASE_BYTES, Database, HEADER_BYTES, Meta, NO_PAGE, Node, OVERFLOW, Page,
    SUB_DATABASE, u16_at, u32_at, u64_at,
};
use crate::error::DataError;
use crate::positioned::PositionedFile;

/// Name of the file in its folder.
const FILE_NAME: &str = "data.mdb";

/// A key and its value.
pub type LmdbEntry = (Vec<u8>, Vec<u8>);

/// A database of an LMDB file: keys in the order of their bytes, with a value each. Several threads may read it.
///
/// ```
/// use thalweg_data::{LmdbReader, LmdbWriter};
///
/// # fn main() -> Result<(), thalweg_data::DataError> {
/// let folder = std::env::temp_dir().join(format!("thalweg-lmdb-doc-{}", std::process::id()));
/// let mut writer = LmdbWriter::create(&folder)?;
/// writer.add(b"00000000_cat.jpg", b"an image")?;
/// writer.add(b"00000001_dog.jpg", &[7; 100_000])?;
/// writer.finish()?;
///
/// let file = LmdbReader::open(&folder)?;
/// assert_eq!(file.len(), 2);
/// assert_eq!(file.get(b"00000000_cat.jpg")?.as_deref(), Some(&b"an image"[..]));
/// let mut cursor = file.cursor();
/// while let Some((key, value)) = cursor.next()? {
///     println!("{}: {} bytes", String::from_utf8_lossy(&key), value.len());
/// }
/// # let _ = std::fs::remove_dir_all(folder);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LmdbReader {
    file: Arc<PositionedFile>,
    page_bytes: u64,
    database: Database,
}

impl LmdbReader {
    /// Opens the file `data.mdb` of a folder, or a file.
    ///
    /// # Errors
    /// [`DataError::Io`]. [`DataError::Format`]: it is no file of LMDB, is cut off, or has keys in another order.
    pub fn open(path: impl AsRef<Path>) -> Result<LmdbReader, DataError> {
        let path = path.as_ref();
        let file = match path.is_dir() {
            true => PositionedFile::open(&path.join(FILE_NAME)),
            false => PositionedFile::open(path),
        };
        LmdbReader::of(file?)
    }

    /// A file in memory; errors call it `name`.
    ///
    /// # Errors
    /// [`DataError::Format`], as [`LmdbReader::open`].
    pub fn of_bytes(bytes: Vec<u8>, name: impl AsRef<Path>) -> Result<LmdbReader, DataError> {
        LmdbReader::of(PositionedFile::of_bytes(bytes, name.as_ref()))
    }

    fn of(file: PositionedFile) -> Result<LmdbReader, DataError> {
        let meta = Meta::read(&file)?;
        Ok(LmdbReader {
            file: Arc::new(file),
            page_bytes: meta.page_bytes,
            database: meta.main,
        })
    }

    /// A named database of the file; `None` if there is none of this name.
    ///
    /// # Errors
    /// [`DataError::Format`].
    pub fn named(&self, name: &str) -> Result<Option<LmdbReader>, DataError> {
        let Some((page, number)) = self.find(name.as_bytes())? else {
            return Ok(None);
        };
        let node = page.node(&self.file, number)?;
        let record = node.rest.get(..DATABASE_BYTES);
        let Some(record) = record.filter(|_| node.flags & SUB_DATABASE != 0) else {
            return Err(self.file.error(node.at, format!("`{name}` is no database")));
        };
        let database = Database::parse(&self.file, node.at, record)?;
        Ok(Some(LmdbReader {
            database,
            ..self.clone()
        }))
    }

    /// Number of keys.
    pub fn len(&self) -> u64 {
        self.database.entries
    }

    /// `true` if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`DataError::Io`], [`DataError::Format`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DataError> {
        let Some((page, number)) = self.find(key)? else {
            return Ok(None);
        };
        self.value(&page.node(&self.file, number)?).map(Some)
    }

    /// A cursor before the first key.
    pub fn cursor(&self) -> LmdbCursor {
        LmdbCursor::new(self.clone())
    }

    /// The leaf and the node of a key.
    fn find(&self, key: &[u8]) -> Result<Option<(Page, usize)>, DataError> {
        if self.database.root == NO_PAGE {
            return Ok(None);
        }
        let mut page = self.page(self.database.root, 1)?;
        for depth in 2.. {
            if page.is_leaf() {
                break;
            }
            // The key of the first child is left out: it is below all others.
            let after = page.search(&self.file, key, 1)?;
            let equal = after < page.len() && page.node(&self.file, after)?.key == key;
            let child = after - usize::from(!equal);
            page = self.page(page.child(&self.file, child)?, depth)?;
        }
        let at = page.search(&self.file, key, 0)?;
        let found = at < page.len() && page.node(&self.file, at)?.key == key;
        Ok(found.then_some((page, at)))
    }

    /// A page at a depth, from 1 for the root. Leaves are at the depth of the tree.
    fn page(&self, number: u64, depth: u16) -> Result<Page, DataError> {
        let page = Page::read(&self.file, self.page_bytes, number)?;
        if page.is_leaf() != (depth == self.database.depth) {
            let reason = format!(
                "page {number} is at depth {depth} of a tree of depth {}",
                self.database.depth
            );
            return Err(self.file.error(page.at(), reason));
        }
        if !page.is_leaf() && page.len() == 0 {
            return Err(self
                .file
                .error(page.at(), format!("branch {number} has no children")));
        }
        Ok(page)
    }

    /// The value of a node of a leaf.
    fn value(&self, node: &Node<'_>) -> Result<Vec<u8>, DataError> {
        let length = u64::from(node.low);
        let wrong = |reason: String| self.file.error(node.at, reason);
        match node.flags {
            0 => {
                let value = usize::try_from(length)
                    .ok()
                    .and_then(|n| node.rest.get(..n));
                let cut = || wrong(format!("a value of {length} bytes is cut off by its page"));
                value.map(<[u8]>::to_vec).ok_or_else(cut)
            }
            BIG_DATA if node.rest.len() >= 8 => {
                let number = u64_at(node.rest, 0);
                let at = number.checked_mul(self.page_bytes);
                let at = at.filter(|at| *at < self.file.len());
                let missing = || wrong(format!("overflow page {number} is not in the file"));
                let at = at.ok_or_else(missing)?;
                let header = self.file.bytes(at, HEADER_BYTES as u64)?;
                let room = u64::from(u32_at(&header, 12)) * self.page_bytes;
                let whole = u64_at(&header, 0) == number
                    && u16_at(&header, 10) & OVERFLOW != 0
                    && length + HEADER_BYTES as u64 <= room;
                if !whole {
                    let reason = format!("page {number} has no value of {length} bytes");
                    return Err(self.file.error(at, reason));
                }
                self.file.bytes(at + HEADER_BYTES as u64, length)
            }
            SUB_DATABASE => Err(wrong(
                "the value is a named database: read it with LmdbReader::named".to_owned(),
            )),
            flags => Err(wrong(format!("a node has the flags {flags:#x}"))),
        }
    }
}

/// A place in the order of the keys. Made by [`LmdbReader::cursor`].
#[derive(Debug)]
pub struct LmdbCursor {
    reader: LmdbReader,
    /// The pages from the root on, each with the number of the next node.
    path: Vec<(Page, usize)>,
    /// Number of keys and of pages that were met. A tree that has more than the file is damaged: its pages are in a
    /// circle.
    keys: u64,
    pages: u64,
    started: bool,
}

impl LmdbCursor {
    fn new(reader: LmdbReader) -> LmdbCursor {
        LmdbCursor {
            reader,
            path: Vec::new(),
            keys: 0,
            pages: 0,
            started: false,
        }
    }

    /// The next key and its value.
    ///
    /// # Errors
    /// [`DataError::Io`], [`DataError::Format`].
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator of errors would not end"
    )]
    pub fn next(&mut self) -> Result<Option<LmdbEntry>, DataError> {
        if !self.find_leaf()? {
            return Ok(None);
        }
        self.count(1)?;
        let Some((leaf, number)) = self.path.last_mut() else {
            return Ok(None);
        };
        let node = leaf.node(&self.reader.file, *number)?;
        *number += 1;
        Ok(Some((node.key.to_vec(), self.reader.value(&node)?)))
    }

    /// Passes over so many keys, and returns how many there were. Values in overflow pages are not read.
    ///
    /// # Errors
    /// As [`LmdbCursor::next`].
    pub fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let mut passed = 0;
        while passed < count && self.find_leaf()? {
            let Some((leaf, number)) = self.path.last_mut() else {
                break;
            };
            let own = (count - passed).min((leaf.len() - *number) as u64);
            *number += own as usize;
            passed += own;
            self.count(own)?;
        }
        Ok(passed)
    }

    fn count(&mut self, keys: u64) -> Result<(), DataError> {
        self.keys += keys;
        match self.keys > self.reader.len() {
            true => Err(self.wrong_count()),
            false => Ok(()),
        }
    }

    fn wrong_count(&self) -> DataError {
        let reason = format!(
            "the tree does not have the {} keys of its record",
            self.reader.len()
        );
        self.reader.file.error(0, reason)
    }

    /// Moves to a leaf with a key that was not met; `false` at the end.
    fn find_leaf(&mut self) -> Result<bool, DataError> {
        if !std::mem::replace(&mut self.started, true) && self.reader.database.root != NO_PAGE {
            self.push(self.reader.database.root)?;
        }
        while let Some((page, next)) = self.path.last_mut() {
            if *next == page.len() {
                self.path.pop();
            } else if page.is_leaf() {
                return Ok(true);
            } else {
                let child = page.child(&self.reader.file, *next)?;
                *next += 1;
                self.push(child)?;
            }
        }
        match self.keys == self.reader.len() {
            true => Ok(false),
            false => Err(self.wrong_count()),
        }
    }

    fn push(&mut self, number: u64) -> Result<(), DataError> {
        self.pages += 1;
        let reader = &self.reader;
        if self.pages > reader.file.len() / reader.page_bytes {
            let reason = format!("page {number} is in a circle");
            return Err(reader
                .file
                .error(number.saturating_mul(reader.page_bytes), reason));
        }
        let page = reader.page(number, self.path.len() as u16 + 1)?;
        self.path.push((page, 0));
        Ok(())
    }
}
