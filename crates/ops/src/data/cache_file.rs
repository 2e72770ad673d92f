//! Cache in a file: the first whole pass writes the elements, and later ones read them.
//!
//! The file is that of `thalweg-data`'s pipelines, not TensorFlow's, which is two files of other names. It appears as a whole.

use std::io::Write;
use std::sync::Arc;

use thalweg_checkpoint::disk::AtomicFile;
use thalweg_data::{Compression, MAX_RECORD_BYTES, append_record, cache_records};
use thalweg_device::{KernelError, TensorCx};

use super::dataset::{Cardinality, Dataset, DatasetValue, Row, Rows};
use crate::files::disk;
use crate::files::record_files::{Format, Record, Records};
use crate::flow::rows::slice_elements;
use crate::support::tensors::reserved;

/// A dataset whose elements are kept in a file.
pub(super) struct FileCache {
    pub(super) before: Arc<DatasetValue>,
    /// Name of the file in the graph.
    pub(super) name: Arc<[u8]>,
    /// Number of tensors of an element.
    pub(super) components: u8,
}

impl FileCache {
    fn wrong(name: &[u8], why: impl std::fmt::Display) -> KernelError {
        KernelError::Storage(format!("{}: {why}", String::from_utf8_lossy(name)))
    }
}

impl Dataset for FileCache {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        let format = Format::TfRecord(Compression::None);
        let file = match format.open(cx, &self.name, 0) {
            Ok(file) => return Ok(Box::new(ReadRows::new(cx, self, file)?)),
            Err(KernelError::NotFound(_)) => {
                let files = cx.environment().files();
                AtomicFile::create(&disk(files), &files.resolve(&self.name)?)
            }
            Err(error) => return Err(error),
        };
        let mut rows = WriteRows {
            before: self.before.dataset.rows(cx)?,
            name: self.name.clone(),
            file: Some(file.map_err(|e| FileCache::wrong(&self.name, e))?),
            elements: 0,
        };
        rows.write(&cache_records::first(self.components))?;
        Ok(Box::new(rows))
    }

    fn cardinality(&self) -> Cardinality {
        self.before.dataset.cardinality()
    }
}

/// A pass that writes its elements.
struct WriteRows {
    before: Box<dyn Rows>,
    name: Arc<[u8]>,
    /// `None` once it is whole, or if an element could not be written.
    file: Option<AtomicFile>,
    elements: u64,
}

impl WriteRows {
    fn write(&mut self, data: &[u8]) -> Result<(), KernelError> {
        let Some(mut file) = self.file.take() else {
            return Ok(());
        };
        let mut record = Vec::new();
        append_record(&mut record, |to| to.extend_from_slice(data));
        let written = file.write_all(&record);
        written.map_err(|e| FileCache::wrong(&self.name, e))?;
        self.file = Some(file);
        Ok(())
    }
}

impl Rows for WriteRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let Some(row) = self.before.next(cx)? else {
            self.write(&cache_records::last(self.elements))?;
            if let Some(file) = self.file.take() {
                let finished = file.finish();
                finished.map_err(|e| FileCache::wrong(&self.name, e))?;
            }
            return Ok(None);
        };
        if self.file.is_some() {
            let size = row.iter().map(|tensor| match tensor.as_strings() {
                Ok(strings) => strings.iter().map(|s| s.len() + 8).sum(),
                Err(_) => tensor.len() * tensor.dtype().size(),
            });
            // The element, and its record.
            let _held = reserved(2 * size.sum::<usize>(), Some(cx.memory()))?;
            let mut data = Vec::new();
            let mut kept = cache_records::append_element(&mut data, &row);
            if data.len() > MAX_RECORD_BYTES {
                kept = Err("it takes more than 2 GiB".to_owned());
            }
            if let Err(e) = kept {
                self.file = None;
                let why = format!("element {} cannot be kept: {e}", self.elements);
                return Err(FileCache::wrong(&self.name, why));
            }
            self.write(&data)?;
            self.elements += 1;
        }
        Ok(Some(row))
    }
}

/// A pass over the elements of a whole file.
struct ReadRows {
    file: Records,
    name: Arc<[u8]>,
    components: u8,
    /// The record that was read last: the last one of all is no element.
    ahead: Option<Record>,
    elements: u64,
}

impl ReadRows {
    fn new(
        cx: &TensorCx<'_>,
        cache: &FileCache,
        mut file: Records,
    ) -> Result<ReadRows, KernelError> {
        let first = file.next(cx.memory())?;
        let mut rows = ReadRows {
            file,
            name: cache.name.clone(),
            components: cache.components,
            ahead: None,
            elements: 0,
        };
        if first.is_none_or(|first| first.data != cache_records::first(rows.components)) {
            return Err(rows.damaged());
        }
        rows.ahead = rows.file.next(cx.memory())?;
        match rows.ahead {
            Some(_) => Ok(rows),
            None => Err(rows.damaged()),
        }
    }

    fn damaged(&self) -> KernelError {
        let why = format!(
            "this is no whole cache of elements of {} tensors of this machine: delete it, and it is made anew",
            self.components
        );
        FileCache::wrong(&self.name, why)
    }
}

impl Rows for ReadRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let Some(here) = &self.ahead else {
            return Ok(None);
        };
        let next = self.file.next(cx.memory())?;
        if next.is_none() {
            let whole = here.data == cache_records::last(self.elements);
            self.ahead = None;
            return if whole { Ok(None) } else { Err(self.damaged()) };
        }
        let row = cache_records::element(&here.data, self.components.into());
        let row = row.ok_or_else(|| self.damaged())?;
        let counted = row
            .iter()
            .map(|t| slice_elements(cx.memory(), t, 0, t.dims()));
        let counted = counted.collect::<Result<Row, KernelError>>()?;
        self.ahead = next;
        self.elements += 1;
        Ok(Some(counted))
    }
}
