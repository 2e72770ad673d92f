//! Assembly of a tensor from the slices that a checkpoint stores of a partitioned variable.

use std::path::Path;
use std::sync::Arc;

use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{Buffer, DType, Tensor};

use crate::bundle::SliceSpec;
use crate::bundle::block::{FilledSet, SharedBlock};
use crate::bundle::dtype::EntryType;
use crate::error::CheckpointError;

/// The error of a variable with missing parts.
pub(in crate::bundle) fn missing_slices(index: &Path, name: &str) -> CheckpointError {
    CheckpointError::corrupt_entry(
        index,
        name,
        "lacks slices: not all of its elements were saved",
    )
}

/// The error of a variable with overlapping parts.
pub(in crate::bundle) fn overlapping_slices(index: &Path, name: &str) -> CheckpointError {
    CheckpointError::corrupt_entry(
        index,
        name,
        "has slices that overlap: which one holds is not known",
    )
}

/// The starts and lengths of the intersection of two slices of one tensor.
pub(in crate::bundle) fn intersection(
    a: &SliceSpec,
    b: &SliceSpec,
) -> Option<(Vec<usize>, Vec<usize>)> {
    let mut starts = Vec::new();
    let mut lengths = Vec::new();
    for ((start, length), (other, other_length)) in a.ranges().zip(b.ranges()) {
        let first = start.max(other);
        let end = (start + length).min(other + other_length);
        lengths.push(end.checked_sub(first).filter(|&n| n > 0)?);
        starts.push(first);
    }
    Some((starts, lengths))
}

/// A tensor under assembly from slices.
pub(in crate::bundle) struct Assembly<'a> {
    file: &'a Path,
    name: &'a str,
    dtype: DType,
    wanted: &'a SliceSpec,
    dims: Vec<usize>,
    bytes: Buffer,
    strings: Vec<Vec<u8>>,
    filled: FilledSet,
}

impl<'a> Assembly<'a> {
    pub(in crate::bundle) fn new(
        file: &'a Path,
        name: &'a str,
        dtype: EntryType,
        wanted: &'a SliceSpec,
    ) -> Result<Assembly<'a>, CheckpointError> {
        let dims = wanted.dims();
        let elements = checked_elements(&dims);
        let known = dtype.known();
        let room = elements.zip(known).and_then(|(n, dtype)| {
            let buffer = Buffer::try_zeroed(n.checked_mul(dtype.size())?)?;
            Some((n, dtype, buffer))
        });
        let (elements, dtype, bytes) = room.ok_or_else(|| {
            let what = format!("of {dtype} cannot be put together");
            CheckpointError::unsupported(file, Some(name), what)
        })?;
        let strings = match dtype {
            DType::String => vec![Vec::new(); elements],
            _ => Vec::new(),
        };
        Ok(Assembly {
            file,
            name,
            dtype,
            wanted,
            dims,
            bytes,
            strings,
            filled: FilledSet::none_of(elements),
        })
    }

    /// Copies the part of a slice that lies in the requested part.
    pub(in crate::bundle) fn add(
        &mut self,
        slice: &SliceSpec,
        tensor: &Tensor,
    ) -> Result<(), CheckpointError> {
        let Some((starts, lengths)) = intersection(slice, self.wanted) else {
            return Ok(());
        };
        let beside = |of: &SliceSpec| -> Vec<usize> {
            let ranges = starts.iter().zip(of.ranges());
            ranges.map(|(start, (first, _))| start - first).collect()
        };
        let block = SharedBlock {
            lengths: &lengths,
            from_dims: tensor.dims(),
            from: &beside(slice),
            to_dims: &self.dims,
            to: &beside(self.wanted),
        };
        let size = self.dtype.size();
        let from = tensor.bytes();
        let from_strings = tensor.as_strings().unwrap_or_default();
        let to = self.bytes.bytes_mut();
        let mut alone = true;
        block.for_each_run(|a, b, n| {
            alone &= self.filled.add(b, n);
            match self.dtype {
                DType::String => {
                    for (to, from) in self.strings[b..b + n]
                        .iter_mut()
                        .zip(from_strings.range(a..a + n))
                    {
                        *to = from.to_vec();
                    }
                }
                _ => to[b * size..][..n * size].copy_from_slice(&from[a * size..][..n * size]),
            }
        });
        match alone {
            true => Ok(()),
            false => Err(overlapping_slices(self.file, self.name)),
        }
    }

    pub(in crate::bundle) fn finish(self) -> Result<Tensor, CheckpointError> {
        if !self.filled.is_full() {
            return Err(missing_slices(self.file, self.name));
        }
        let made = match self.dtype {
            DType::String => Tensor::strings(&self.dims, &self.strings),
            dtype => Tensor::from_buffer(dtype, &self.dims, Arc::new(self.bytes)),
        };
        made.map_err(|e| CheckpointError::tensor(self.file, self.name, e))
    }
}
