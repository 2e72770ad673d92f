//! `BundleReader`: reads tensors and slices of an open checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{Buffer, DType, Tensor, TensorError};

use super::assembly::{Assembly, intersection, missing_slices, overlapping_slices};
use crate::bundle::dtype::EntryType;
use crate::bundle::entry::{Entry, EntryInfo};
use crate::bundle::slice::SliceSpec;
use crate::bundle::{keys, strings};
use crate::crc;
use crate::disk;
use crate::error::CheckpointError;

/// An open checkpoint. It keeps its files open, so they may be deleted meanwhile.
///
/// A tensor's bytes are read into the tensor's own memory, and every checksum is checked. Sizes in
/// a file are trusted only up to the file's length.
///
/// ```
/// use thalweg_checkpoint::{BundleReader, BundleWriter, SliceSpec};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = std::env::temp_dir().join(format!("thalweg-reader-{}", std::process::id()));
/// let mut writer = BundleWriter::create(&folder.join("m"))?;
/// writer.add("w", &Tensor::from([[1i32, 2], [3, 4], [5, 6]]))?;
/// writer.finish()?;
///
/// let reader = BundleReader::open(&folder.join("m"))?;
/// reader.verify()?;
/// assert!(reader.contains("w"));
/// let rows = reader.slice("w", &SliceSpec::parse("3 2 1,2:-")?)?;
/// assert_eq!(rows.to_vec::<i32>()?, [3, 4, 5, 6]);
/// let said = reader.tensor("v").unwrap_err().to_string();
/// assert!(said.starts_with("Key v not found in checkpoint"));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
pub struct BundleReader {
    pub(super) prefix: PathBuf,
    pub(super) index: PathBuf,
    /// Finds the newest usable checkpoint beside this one, for errors of damaged files.
    pub(crate) find_newest: FindNewest,
    pub(super) shards: BTreeMap<usize, Shard>,
    /// Tensors, by name.
    pub(super) entries: BTreeMap<String, Entry>,
    /// Slices of partitioned variables, by key.
    pub(super) parts: BTreeMap<Vec<u8>, Entry>,
}

/// Finds a checkpoint to suggest in place of a damaged one.
type FindNewest = fn(&Path) -> Option<PathBuf>;

pub(super) struct Shard {
    pub(super) path: PathBuf,
    pub(super) file: disk::ReadFile,
}

impl std::fmt::Debug for BundleReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BundleReader")
            .field("prefix", &self.prefix)
            .field("tensors", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl BundleReader {
    /// The prefix that was opened.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The tensors, by name. A partitioned variable is one.
    pub fn entries(&self) -> impl Iterator<Item = EntryInfo> + '_ {
        let all = self.entries.iter();
        all.map(|(name, entry)| self.info_of(name, entry))
    }

    /// The names of the tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The description of a tensor; `None` if there is none of this name.
    pub fn info(&self, name: &str) -> Option<EntryInfo> {
        let entry = self.entries.get(name)?;
        Some(self.info_of(name, entry))
    }

    fn info_of(&self, name: &str, entry: &Entry) -> EntryInfo {
        let parts = entry.slices.iter();
        let parts = parts.filter_map(|s| self.parts.get(&keys::slice_key(name, s)));
        let sizes = parts.fold(0u64, |sum, part| sum.saturating_add(part.size));
        EntryInfo {
            name: name.to_owned(),
            dtype: entry.dtype,
            dims: entry.dims.clone(),
            slices: entry.slices.clone(),
            shard: entry.slices.is_empty().then_some(entry.shard),
            bytes: entry.size.saturating_add(sizes),
        }
    }

    /// `true` if there is a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    fn entry(&self, name: &str) -> Result<&Entry, CheckpointError> {
        self.entries.get(name).ok_or_else(|| {
            let alike = self
                .entries
                .keys()
                .find(|k| k.ends_with(&format!("/{name}")) || name.ends_with(&format!("/{k}")));
            CheckpointError::NoEntry {
                name: name.to_owned(),
                file: self.prefix.clone(),
                hint: match alike {
                    Some(alike) => format!("; it has {alike}"),
                    None => format!(", which has {} others", self.entries.len()),
                },
            }
        })
    }

    /// A tensor, assembled from its slices if it is partitioned.
    ///
    /// # Errors
    /// [`CheckpointError::NoEntry`]; [`CheckpointError::Corrupt`] if a checksum does not match or
    /// slices are missing; [`CheckpointError::Unsupported`] for a dtype that this engine does not
    /// have; and [`CheckpointError::Io`].
    pub fn tensor(&self, name: &str) -> Result<Tensor, CheckpointError> {
        let entry = self.entry(name)?;
        let read = match entry.slices.is_empty() {
            true => self.read(name, entry),
            false => self.assembled(name, entry, &SliceSpec::whole(&entry.dims)),
        };
        read.map_err(|e| with_newest(e, &self.prefix, self.find_newest))
    }

    /// A part of a tensor, whether the tensor was stored whole or in other slices.
    ///
    /// # Errors
    /// As [`BundleReader::tensor`], and [`CheckpointError::Slice`] if the full dimensions differ.
    pub fn slice(&self, name: &str, slice: &SliceSpec) -> Result<Tensor, CheckpointError> {
        let entry = self.entry(name)?;
        if slice.full_dims() != entry.dims {
            return Err(CheckpointError::Slice {
                slice: slice.to_string(),
                what: format!(
                    " of {name} in {}, whose dimensions are {:?}: give those as the full ones",
                    self.prefix.display(),
                    entry.dims
                ),
            });
        }
        if slice.is_whole() {
            return self.tensor(name);
        }
        let read = match entry.slices.is_empty() {
            true => self.read(name, entry).and_then(|whole| {
                let mut cut = Assembly::new(&self.index, name, entry.dtype, slice)?;
                cut.add(&SliceSpec::whole(&entry.dims), &whole)?;
                cut.finish()
            }),
            false => self.assembled(name, entry, slice),
        };
        read.map_err(|e| with_newest(e, &self.prefix, self.find_newest))
    }

    /// A tensor, or a slice of it if `slice` is given.
    ///
    /// # Errors
    /// As [`BundleReader::tensor`] and [`BundleReader::slice`].
    pub fn part(&self, name: &str, slice: Option<&SliceSpec>) -> Result<Tensor, CheckpointError> {
        match slice {
            None => self.tensor(name),
            Some(slice) => self.slice(name, slice),
        }
    }

    /// Reads everything and checks every checksum.
    ///
    /// # Errors
    /// The error of the first tensor that cannot be read. Dtypes that this engine does not have are
    /// skipped.
    pub fn verify(&self) -> Result<(), CheckpointError> {
        for (name, entry) in &self.entries {
            if entry.dtype.known().is_some() {
                self.tensor(name)?;
            }
        }
        Ok(())
    }

    /// Reads a contiguous entry of one file.
    fn read(&self, name: &str, entry: &Entry) -> Result<Tensor, CheckpointError> {
        let shard = self.shards.get(&entry.shard).ok_or_else(|| {
            CheckpointError::corrupt_entry(&self.index, name, "lies in a shard that there is not")
        })?;
        let EntryType::Known(dtype) = entry.dtype else {
            return Err(CheckpointError::unsupported(
                &self.index,
                Some(name),
                format!(
                    "is of {}, which no tensor of this engine holds",
                    entry.dtype
                ),
            ));
        };
        let failed = |e: TensorError| CheckpointError::tensor(&shard.path, name, e);
        let too_large = || {
            failed(TensorError::TooLarge {
                dtype,
                dims: entry.dims.as_slice().into(),
            })
        };
        let size = usize::try_from(entry.size).map_err(|_| too_large())?;
        let mut buffer = Buffer::try_zeroed(size).ok_or_else(too_large)?;
        let sum = disk::read_with_crc(&shard.file, buffer.bytes_mut(), entry.offset)
            .map_err(|e| CheckpointError::io(&shard.path, "read", &e))?;
        if dtype == DType::String {
            return strings::parse(&shard.path, name, &entry.dims, buffer.bytes(), entry.crc);
        }
        if crc::mask(sum) != entry.crc {
            return Err(CheckpointError::corrupt_entry(
                &shard.path,
                name,
                "is damaged: its checksum does not fit",
            ));
        }
        Tensor::from_buffer(dtype, &entry.dims, Arc::new(buffer)).map_err(failed)
    }

    /// A part of a partitioned variable.
    fn assembled(
        &self,
        name: &str,
        entry: &Entry,
        wanted: &SliceSpec,
    ) -> Result<Tensor, CheckpointError> {
        let mut parts = Vec::new();
        let mut elements = 0usize;
        let mut seen = BTreeSet::new();
        for slice in entry
            .slices
            .iter()
            .filter(|s| intersection(s, wanted).is_some())
        {
            // A slice that is listed repeatedly would be given memory each time.
            if !seen.insert(slice) {
                return Err(overlapping_slices(&self.index, name));
            }
            let part = self.parts.get(&keys::slice_key(name, slice));
            let part = part.filter(|p| p.dims == slice.dims() && p.dtype == entry.dtype);
            let part = part.ok_or_else(|| {
                let what = format!("lacks its slice {slice}");
                CheckpointError::corrupt_entry(&self.index, name, what)
            })?;
            elements = elements.saturating_add(checked_elements(&part.dims).unwrap_or(usize::MAX));
            parts.push((slice, part));
        }
        // Memory is allocated only for elements that the files hold.
        if checked_elements(&wanted.dims()).is_none_or(|needed| needed > elements) {
            return Err(missing_slices(&self.index, name));
        }
        let mut target = Assembly::new(&self.index, name, entry.dtype, wanted)?;
        for (slice, part) in parts {
            target.add(slice, &self.read(name, part)?)?;
        }
        target.finish()
    }
}

/// Adds the newest readable checkpoint to the error, if files are damaged.
pub(crate) fn with_newest(
    error: CheckpointError,
    prefix: &Path,
    find_newest: FindNewest,
) -> CheckpointError {
    match error {
        CheckpointError::Corrupt {
            file,
            entry,
            what,
            newest: None,
        } => CheckpointError::Corrupt {
            file,
            entry,
            what,
            newest: find_newest(prefix),
        },
        other => other,
    }
}
