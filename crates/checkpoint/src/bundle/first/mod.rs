//! Checkpoints of TensorFlow's first format: one table in a file, or in several, with tensors as slices. They are read,
//! and not written. Source: TensorFlow's `core/util/tensor_slice_reader.cc`.

mod proto;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message;
use thalweg_tensor::Tensor;
use thalweg_tensor::shape::checked_elements;

use self::proto::{Meta, Saved};
use super::dtype::EntryType;
use super::keys::slice_key;
use super::read::assembly::{Assembly, intersection, missing_slices};
use super::slice::SliceSpec;
use crate::disk::{self, Disk};
use crate::error::CheckpointError;
use crate::table;

/// An open checkpoint of the first format. Its files are in memory.
///
/// ```
/// use thalweg_checkpoint::{CheckpointError, FirstReader, disk};
///
/// let missing = FirstReader::open_on(&*disk::system(), &["/nowhere/model.ckpt".into()]);
/// assert!(matches!(missing, Err(CheckpointError::Io { .. })));
/// ```
#[derive(Debug)]
pub struct FirstReader {
    files: Vec<(PathBuf, Vec<u8>)>,
    tensors: BTreeMap<String, Stored>,
}

/// A tensor, and where its slices are.
#[derive(Debug)]
struct Stored {
    dtype: EntryType,
    dims: Vec<usize>,
    /// Each slice with the number of its file.
    slices: Vec<(usize, SliceSpec)>,
}

impl FirstReader {
    /// Opens a checkpoint of these files.
    ///
    /// # Errors
    /// [`CheckpointError::Io`], and [`CheckpointError::Corrupt`] for a file that is no such table.
    pub fn open_on(disk: &dyn Disk, paths: &[PathBuf]) -> Result<FirstReader, CheckpointError> {
        let mut reader = FirstReader {
            files: Vec::new(),
            tensors: BTreeMap::new(),
        };
        for (file, path) in paths.iter().enumerate() {
            let bytes = disk::read_whole(disk, path)?;
            let meta = meta(path, &bytes)?;
            reader.add(file, path, meta)?;
            reader.files.push((path.clone(), bytes));
        }
        Ok(reader)
    }

    fn add(&mut self, file: usize, path: &Path, meta: Meta) -> Result<(), CheckpointError> {
        for found in meta.tensor {
            let broken = |what: &str| CheckpointError::corrupt_entry(path, &found.name, what);
            let dims = found.shape.as_ref().map_or(Some(Vec::new()), |s| s.dims());
            let dims =
                dims.ok_or_else(|| broken("has a shape with unknown or negative dimensions"))?;
            checked_elements(&dims).ok_or_else(|| broken("has more elements than memory has"))?;
            let dtype = EntryType::from_number(found.dtype);
            let stored = self.tensors.entry(found.name.clone());
            let stored = stored.or_insert_with(|| Stored {
                dtype,
                dims: dims.clone(),
                slices: Vec::new(),
            });
            if (stored.dtype, &stored.dims) != (dtype, &dims) {
                return Err(broken("has another dtype or shape in another file"));
            }
            for slice in &found.slice {
                let slice = SliceSpec::from_proto(&dims, slice);
                let slice =
                    slice.ok_or_else(|| broken("has a slice that is no part of its shape"))?;
                stored.slices.push((file, slice));
            }
        }
        Ok(())
    }

    /// The dtype of a tensor, if there is one of this name.
    pub fn dtype(&self, name: &str) -> Option<EntryType> {
        self.tensors.get(name).map(|stored| stored.dtype)
    }

    /// Names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Tensors, or slices of them: as many as are asked for. The files are gone through once.
    ///
    /// # Errors
    /// [`CheckpointError::NoEntry`] for an unknown name, [`CheckpointError::Slice`] if the full dimensions differ, and
    /// [`CheckpointError::Corrupt`] for slices that are damaged, or not there.
    pub fn parts(
        &self,
        wanted: &[(String, Option<SliceSpec>)],
    ) -> Result<Vec<Tensor>, CheckpointError> {
        let parts = wanted
            .iter()
            .map(|(name, slice)| self.part(name, slice.as_ref()));
        let parts: Vec<Part<'_>> = parts.collect::<Result<_, _>>()?;
        let mut found: Vec<Vec<(&SliceSpec, Tensor)>> = vec![Vec::new(); parts.len()];
        for (file, (path, bytes)) in self.files.iter().enumerate() {
            let mut keys: BTreeMap<Vec<u8>, Vec<(usize, &SliceSpec)>> = BTreeMap::new();
            for (number, part) in parts.iter().enumerate() {
                for slice in part.slices(file) {
                    let users = keys.entry(slice_key(part.name, slice)).or_default();
                    users.push((number, slice));
                }
            }
            let read = table::read::for_each(bytes, |key, value| {
                for &(number, slice) in keys.get(key).into_iter().flatten() {
                    let tensor = parts[number].decode(slice, value)?;
                    found[number].push((slice, tensor));
                }
                Ok(())
            });
            read.map_err(|what| CheckpointError::corrupt(path, what))?;
        }
        let all = parts.iter().zip(found);
        all.map(|(part, found)| part.assembled(&self.files[0].0, &found))
            .collect()
    }

    fn part<'a>(
        &'a self,
        name: &'a str,
        slice: Option<&SliceSpec>,
    ) -> Result<Part<'a>, CheckpointError> {
        let file = self.files.first().map(|(path, _)| path.clone());
        let file = file.unwrap_or_default();
        let Some(stored) = self.tensors.get(name) else {
            return Err(CheckpointError::NoEntry {
                name: name.to_owned(),
                file,
                hint: format!(", which has {} others", self.tensors.len()),
            });
        };
        let wanted = match slice {
            Some(slice) if slice.full_dims() != stored.dims => {
                return Err(CheckpointError::Slice {
                    slice: slice.to_string(),
                    what: format!(
                        " of {name} in {}, whose dimensions are {:?}: give those as the full ones",
                        file.display(),
                        stored.dims
                    ),
                });
            }
            Some(slice) => slice.clone(),
            None => SliceSpec::whole(&stored.dims),
        };
        Ok(Part {
            name,
            stored,
            wanted,
        })
    }
}

/// A part of a tensor that is asked for.
struct Part<'a> {
    name: &'a str,
    stored: &'a Stored,
    wanted: SliceSpec,
}

impl<'a> Part<'a> {
    /// The slices in a file that the part needs.
    fn slices(&self, file: usize) -> impl Iterator<Item = &'a SliceSpec> {
        let own = self.stored.slices.iter().filter(move |(f, _)| *f == file);
        let own = own.map(|(_, slice)| slice);
        own.filter(|slice| intersection(slice, &self.wanted).is_some())
    }

    fn decode(&self, slice: &SliceSpec, value: &[u8]) -> Result<Tensor, String> {
        let damaged = || format!("has a damaged slice of {}", self.name);
        let saved = Saved::decode(value).map_err(|_| damaged())?;
        let values = saved
            .data
            .and_then(|slice| slice.data)
            .ok_or_else(damaged)?;
        let EntryType::Known(dtype) = self.stored.dtype else {
            return Err(format!(
                "has {} of {}, which is not read",
                self.name, self.stored.dtype
            ));
        };
        let tensor = values.tensor(dtype, &slice.dims());
        tensor.map_err(|what| format!("has a slice of {} that {what}", self.name))
    }

    fn assembled(
        &self,
        file: &Path,
        found: &[(&SliceSpec, Tensor)],
    ) -> Result<Tensor, CheckpointError> {
        if let [(slice, tensor)] = found
            && (*slice == &self.wanted
                || tensor.dims() == self.stored.dims && self.wanted.is_whole())
        {
            return Ok(tensor.clone());
        }
        // Memory is allocated only for elements that the files hold.
        let elements: usize = found.iter().map(|(_, tensor)| tensor.len()).sum();
        if checked_elements(&self.wanted.dims()).is_none_or(|needed| needed > elements) {
            return Err(missing_slices(file, self.name));
        }
        let mut target = Assembly::new(file, self.name, self.stored.dtype, &self.wanted)?;
        for (slice, tensor) in found {
            target.add(slice, tensor)?;
        }
        target.finish()
    }
}

/// The description of a file's tensors.
fn meta(path: &Path, bytes: &[u8]) -> Result<Meta, CheckpointError> {
    let mut meta = None;
    let read = table::read::for_each(bytes, |key, value| {
        if key.is_empty() {
            let saved =
                Saved::decode(value).map_err(|_| "has a damaged description of its tensors")?;
            meta = saved.meta;
        }
        Ok(())
    });
    read.map_err(|what| CheckpointError::corrupt(path, what))?;
    meta.ok_or_else(|| CheckpointError::corrupt(path, "has no description of its tensors"))
}
