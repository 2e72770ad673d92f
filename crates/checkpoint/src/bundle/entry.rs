//! Entries of a checkpoint's index: dtype, dimensions and place of a tensor, checked against the data files.

use std::path::Path;

use thalweg_tensor::DType;
use thalweg_tensor::shape::checked_elements;

use super::dtype::EntryType;
use super::proto;
use super::slice::SliceSpec;
use crate::error::CheckpointError;

/// The description of a tensor in a checkpoint.
///
/// ```
/// use thalweg_checkpoint::{BundleReader, BundleWriter, EntryType};
/// use thalweg_tensor::{DType, Tensor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = std::env::temp_dir().join(format!("thalweg-entry-{}", std::process::id()));
/// let mut writer = BundleWriter::create(&folder.join("m"))?;
/// writer.add("w", &Tensor::vector(&[1i32, 2]))?;
/// writer.finish()?;
/// let reader = BundleReader::open(&folder.join("m"))?;
/// let w = reader.info("w").ok_or("no w")?;
/// assert_eq!((w.dtype, w.dims, w.bytes), (EntryType::Known(DType::I32), vec![2], 8));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryInfo {
    /// The tensor's name.
    pub name: String,
    /// Its dtype.
    pub dtype: EntryType,
    /// Its dimensions; for a partitioned variable, those of the whole.
    pub dims: Vec<usize>,
    /// The stored slices of a partitioned variable; empty for a tensor that is stored whole.
    pub slices: Vec<SliceSpec>,
    /// The shard that holds it; `None` for a partitioned variable, whose slices have one each.
    pub shard: Option<usize>,
    /// Bytes in the data files.
    pub bytes: u64,
}

/// An entry of the index.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) dtype: EntryType,
    pub(super) dims: Vec<usize>,
    pub(super) shard: usize,
    pub(super) offset: u64,
    pub(super) size: u64,
    /// The masked checksum.
    pub(super) crc: u32,
    pub(super) slices: Vec<SliceSpec>,
}

impl Entry {
    /// Checks the entry of a tensor, except against the lengths of the data files.
    pub(super) fn checked(
        index: &Path,
        name: &str,
        found: &proto::EntryProto,
        shards: usize,
    ) -> Result<Entry, CheckpointError> {
        let broken = |what: &str| CheckpointError::corrupt_entry(index, name, what);
        let dims = match &found.shape {
            None => Vec::new(),
            Some(shape) => shape
                .dims()
                .ok_or_else(|| broken("has a shape with unknown or negative dimensions"))?,
        };
        let elements =
            checked_elements(&dims).ok_or_else(|| broken("has more elements than memory has"))?;
        let slices = found.slices.iter().map(|s| SliceSpec::from_proto(&dims, s));
        let slices = slices
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| broken("has a slice that is no part of its shape"))?;
        let shard = usize::try_from(found.shard_id).ok();
        let shard = shard.filter(|&s| s < shards || !slices.is_empty());
        let entry = Entry {
            dtype: EntryType::from_number(found.dtype),
            dims,
            shard: shard.ok_or_else(|| broken("lies in a shard that there is not"))?,
            offset: u64::try_from(found.offset).map_err(|_| broken("lies before its file"))?,
            size: u64::try_from(found.size).map_err(|_| broken("has a negative size"))?,
            crc: found.crc32c,
            slices,
        };
        let fits = match entry.dtype {
            _ if !entry.slices.is_empty() => true,
            EntryType::Other(_) => true,
            // Each string takes at least its length prefix.
            EntryType::Known(DType::String) => elements as u64 <= entry.size,
            EntryType::Known(dtype) => {
                elements.checked_mul(dtype.size()).map(|b| b as u64) == Some(entry.size)
            }
        };
        match fits {
            true => Ok(entry),
            false => Err(broken("has another size than its shape needs")),
        }
    }
}
