//! LMDB: files of sorted keys and values, as Caffe's tools write them.
//!
//! | module | holds |
//! | --- | --- |
//! | `page` | meta pages, branches and leaves, all of them checked |
//! | `reader` | [`LmdbReader`]: `len`, `get`, a scan in the order of the keys |
//! | `writer` | [`LmdbWriter`]: a new file, from sorted keys |
//! | `source` | [`lmdb`]: a source of a pipeline |
//!
//! A reader takes no lock and maps no memory: it reads pages by position. Nobody may write the file meanwhile. The
//! layout is that of a machine with 64 bits, little-endian. Source: LMDB 0.9, `mdb.c`.

mod page;
mod reader;
mod source;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{LmdbCursor, LmdbEntry, LmdbReader};
pub use source::{Lmdb, lmdb};
pub use writer::LmdbWriter;
