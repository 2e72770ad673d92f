//! CacheFile: keeps the elements of an epoch in a file.

use std::io::Write;
use std::path::PathBuf;

use thalweg_checkpoint::disk::{AtomicFile, system};
use thalweg_tensor::Tensor;

use super::Stage;
use crate::cache_records;
use crate::error::DataError;
use crate::tfrecord::{RecordIndex, append_record};

/// Keeps the elements of epoch 0 in a file, and reads them from there.
pub struct CacheFile<S, const N: usize> {
    before: S,
    path: PathBuf,
    state: State,
    /// The record that is written.
    record: Vec<u8>,
}

enum State {
    /// There is no whole file, and elements were passed over.
    Passing,
    /// All elements since the start are written.
    Filling { file: AtomicFile, elements: u64 },
    /// The whole file, and the number of the next element.
    Complete { index: RecordIndex, next: u64 },
}

impl<S, const N: usize> CacheFile<S, N> {
    pub(super) fn new(before: S, path: PathBuf) -> CacheFile<S, N> {
        CacheFile {
            before,
            path,
            state: State::Passing,
            record: Vec::new(),
        }
    }

    fn error(&self, offset: u64, reason: String) -> DataError {
        DataError::Format {
            path: self.path.clone(),
            offset,
            reason,
        }
    }

    /// The index of the file, whose first and last records are checked.
    fn open(&self) -> Result<RecordIndex, DataError> {
        let index = RecordIndex::scan(&self.path)?;
        let last = index.len().saturating_sub(1);
        let whole = last > 0
            && index.read(0)? == cache_records::first(N as u8)
            && index.read(last)? == cache_records::last(last - 1);
        if !whole {
            let reason = format!(
                "this is no whole cache of elements of {N} tensors of this machine: delete it, and it is made anew"
            );
            return Err(self.error(0, reason));
        }
        Ok(index)
    }

    fn create(&self) -> Result<AtomicFile, DataError> {
        let mut file = AtomicFile::create(&system(), &self.path)?;
        let mut first = Vec::new();
        append_record(&mut first, |to| {
            to.extend_from_slice(&cache_records::first(N as u8))
        });
        self.write(&mut file, &first)?;
        Ok(file)
    }

    fn write(&self, file: &mut AtomicFile, bytes: &[u8]) -> Result<(), DataError> {
        file.write_all(bytes).map_err(|source| DataError::Io {
            path: self.path.clone(),
            source,
        })
    }

    /// Writes an element, if all before it are written.
    fn keep(&mut self, item: &[Tensor; N]) -> Result<(), DataError> {
        let State::Filling { mut file, elements } =
            std::mem::replace(&mut self.state, State::Passing)
        else {
            return Ok(());
        };
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let mut put = Ok(());
        append_record(&mut record, |to| {
            put = cache_records::append_element(to, item);
        });
        put.map_err(|reason| self.error(0, format!("element {elements}: {reason}")))?;
        self.write(&mut file, &record)?;
        self.record = record;
        self.state = State::Filling {
            file,
            elements: elements + 1,
        };
        Ok(())
    }

    /// Writes the end of the file, and puts it into its place.
    fn complete(&mut self) -> Result<(), DataError> {
        let State::Filling { mut file, elements } =
            std::mem::replace(&mut self.state, State::Passing)
        else {
            return Ok(());
        };
        let mut last = Vec::new();
        append_record(&mut last, |to| {
            to.extend_from_slice(&cache_records::last(elements))
        });
        self.write(&mut file, &last)?;
        file.finish()?;
        self.state = State::Complete {
            index: self.open()?,
            next: elements,
        };
        Ok(())
    }
}

impl<S: Stage<Item = [Tensor; N]>, const N: usize> Stage for CacheFile<S, N> {
    type Item = [Tensor; N];

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        if let State::Complete { next, .. } = &mut self.state {
            *next = 0;
            return Ok(());
        }
        // A file that is not complete is removed before another one is made.
        self.state = State::Passing;
        if self.path.exists() {
            let index = self.open()?;
            self.state = State::Complete { index, next: 0 };
            return Ok(());
        }
        self.state = State::Filling {
            file: self.create()?,
            elements: 0,
        };
        // The elements must not depend on the epoch in which a training resumes.
        self.before.start(0)
    }

    fn next(&mut self) -> Result<Option<[Tensor; N]>, DataError> {
        if let State::Complete { index, next } = &mut self.state {
            // The last record is no element.
            if *next + 2 >= index.len() {
                return Ok(None);
            }
            *next += 1;
            let (record, at) = (index.read(*next)?, index.offset(*next));
            let tensors = cache_records::element(&record, N).and_then(|all| all.try_into().ok());
            let wrong = || self.error(at, "a record is no tensors: delete the file".to_owned());
            return tensors.ok_or_else(wrong).map(Some);
        }
        let item = self.before.next()?;
        match &item {
            Some(item) => self.keep(item)?,
            None => self.complete()?,
        }
        Ok(item)
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        if let State::Complete { index, next } = &mut self.state {
            let left = (index.len() - 2).saturating_sub(*next);
            *next += count.min(left);
            return Ok(count.min(left));
        }
        if count > 0 {
            self.state = State::Passing;
        }
        self.before.pass(count)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        match &self.state {
            State::Complete { index, .. } => Ok(Some(index.len() - 2)),
            _ => self.before.length(),
        }
    }
}
