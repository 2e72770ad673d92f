//! Tensors of strings in a data file: the lengths, their checksum, the bytes.

use std::path::Path;

use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{Strings, Tensor};

use crate::crc;
use crate::error::CheckpointError;
use crate::table::varint;

/// Extends a checksum by a length, which counts as a number of fixed size.
fn checksum_length(sum: u32, length: usize) -> u32 {
    match u32::try_from(length) {
        Ok(length) => crc32c::crc32c_append(sum, &length.to_le_bytes()),
        Err(_) => crc32c::crc32c_append(sum, &(length as u64).to_le_bytes()),
    }
}

/// The bytes before the strings' own bytes, and the checksum up to there.
pub(super) fn head(all: Strings<'_>) -> (Vec<u8>, u32) {
    let mut head = Vec::with_capacity(all.len() + 4);
    let mut sum = 0;
    for string in all {
        varint::put(&mut head, string.len() as u64);
        sum = checksum_length(sum, string.len());
    }
    let masked = crc::mask(sum).to_le_bytes();
    head.extend_from_slice(&masked);
    (head, crc32c::crc32c_append(sum, &masked))
}

/// Parses a tensor of strings whose entry has the (masked) checksum `expected`.
pub(super) fn parse(
    file: &Path,
    name: &str,
    dims: &[usize],
    bytes: &[u8],
    expected: u32,
) -> Result<Tensor, CheckpointError> {
    let broken = |what: &str| CheckpointError::corrupt_entry(file, name, what);
    let cut = || broken("has strings that do not fit into its bytes");
    let elements = checked_elements(dims).ok_or_else(cut)?;
    if elements > bytes.len() {
        return Err(cut());
    }
    let mut rest = bytes;
    let mut lengths = Vec::with_capacity(elements);
    let mut sum = 0;
    for _ in 0..elements {
        let length = varint::take_len(&mut rest).ok_or_else(cut)?;
        sum = checksum_length(sum, length);
        lengths.push(length);
    }
    let (masked, mut rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    if crc::mask(sum) != u32::from_le_bytes(*masked) {
        return Err(broken(
            "is damaged: the checksum of its strings' lengths does not fit",
        ));
    }
    sum = crc32c::crc32c_append(sum, masked);
    sum = crc32c::crc32c_append(sum, rest);
    if crc::mask(sum) != expected {
        return Err(broken("is damaged: its checksum does not fit"));
    }
    let mut strings = Vec::with_capacity(elements);
    for length in lengths {
        let (string, behind) = rest.split_at_checked(length).ok_or_else(cut)?;
        strings.push(string);
        rest = behind;
    }
    if !rest.is_empty() {
        return Err(cut());
    }
    Tensor::strings(dims, &strings).map_err(|e| CheckpointError::tensor(file, name, e))
}
