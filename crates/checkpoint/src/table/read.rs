//! Table reader: checks each block's checksum, Snappy, and the order of keys.

use super::{FOOTER, Handle, MAGIC, PLAIN, SNAPPY, TRAILER, block};
use crate::crc;

/// The largest expansion of Snappy, in bytes for each compressed byte: it copies at most 64 bytes
/// by 3.
const MAX_EXPANSION: usize = 22;

/// Calls `each` with each key and value of a table, in order.
///
/// # Errors
/// The defect of the table, as a predicate, or the error of `each`.
pub(crate) fn for_each(
    table: &[u8],
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let broken = || "has a damaged footer: it is no index of a checkpoint, or only a part of one";
    let (rest, footer) = table
        .split_last_chunk::<FOOTER>()
        .ok_or("is too short to be an index: it was not written to its end")?;
    let (mut handles, magic) = footer.split_at(FOOTER - 8);
    if magic != MAGIC.to_le_bytes() {
        return Err(broken().to_owned());
    }
    Handle::take(&mut handles).ok_or_else(broken)?;
    let index = Handle::take(&mut handles).ok_or_else(broken)?;
    let index = block_at(rest, index)?;

    let mut last: Option<Vec<u8>> = None;
    // Blocks must follow one another: otherwise one could be read again and again.
    let mut end = 0;
    block::for_each(&index, |_, mut value| {
        let handle = Handle::take(&mut value).ok_or("has a damaged index of blocks")?;
        if handle.offset < end {
            return Err("has blocks in the wrong order in its index".to_owned());
        }
        let block = block_at(rest, handle)?;
        end = handle.offset.saturating_add(handle.size);
        block::for_each(&block, |key, value| {
            if last.as_deref().is_some_and(|last| last >= key) {
                return Err("has keys in the wrong order in its index".to_owned());
            }
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            each(key, value)
        })
    })
}

/// A block, checked and decompressed.
fn block_at(table: &[u8], handle: Handle) -> Result<std::borrow::Cow<'_, [u8]>, String> {
    let cut =
        || "ends in the middle of its index: it was not written to its end, or cut".to_owned();
    let start = usize::try_from(handle.offset).map_err(|_| cut())?;
    let size = usize::try_from(handle.size).map_err(|_| cut())?;
    let end = start.checked_add(size).ok_or_else(cut)?;
    let all = end.checked_add(TRAILER).ok_or_else(cut)?;
    let with_trailer = table.get(start..all).ok_or_else(cut)?;
    let (bytes, sum) = with_trailer.split_last_chunk::<4>().ok_or_else(cut)?;
    if crc::masked(bytes) != u32::from_le_bytes(*sum) {
        return Err("is damaged: a checksum of its index does not fit".to_owned());
    }
    let (&kind, block) = bytes.split_last().ok_or_else(cut)?;
    match kind {
        PLAIN => Ok(block.into()),
        SNAPPY => unpacked(block).map(Into::into),
        other => Err(format!(
            "has an index that is compressed in an unknown way ({other}): only Snappy is known"
        )),
    }
}

fn unpacked(block: &[u8]) -> Result<Vec<u8>, String> {
    let broken = |_| "has a block that Snappy cannot unpack in its index".to_owned();
    let length = snap::raw::decompress_len(block).map_err(broken)?;
    // The header may claim any length, and memory is allocated for it.
    if length > block.len().saturating_mul(MAX_EXPANSION) {
        return Err("has a block that is shorter than it says in its index".to_owned());
    }
    snap::raw::Decoder::new()
        .decompress_vec(block)
        .map_err(broken)
}
