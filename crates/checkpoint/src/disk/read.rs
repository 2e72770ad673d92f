//! Reading at a place in a file, with the checksum in the same pass.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::error::CheckpointError;

/// Bytes that are read, and then summed while they are still in a core's cache.
const PIECE: usize = 512 << 10;

/// Opens a plain file. Others (a pipe, a device, a folder) could hold the reader for ever.
pub(crate) fn open(path: &Path) -> io::Result<(File, u64)> {
    let about = fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

/// All of a plain file.
pub(crate) fn read_whole(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let read = open(path).and_then(|(mut file, length)| {
        let mut bytes = Vec::new();
        let room = usize::try_from(length).map_err(io::Error::other)?;
        bytes.try_reserve_exact(room).map_err(io::Error::other)?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    read.map_err(|e| CheckpointError::io(path, "read", &e))
}

/// Fills `bytes` from this place in the file.
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, at);
    #[cfg(not(unix))]
    {
        use std::io::{Seek, SeekFrom};
        // A file of its own: the place of a shared one would move under other readers.
        let mut file = file.try_clone()?;
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(bytes)
    }
}

/// Fills `bytes` from this place in the file, and gives their CRC-32C, continued from `crc`.
pub(crate) fn read_with_crc(
    file: &File,
    bytes: &mut [u8],
    at: u64,
    mut crc: u32,
) -> io::Result<u32> {
    let mut place = at;
    for piece in bytes.chunks_mut(PIECE) {
        read_exact_at(file, piece, place)?;
        crc = crc32c::crc32c_append(crc, piece);
        place += piece.len() as u64;
    }
    Ok(crc)
}
