//! Reads at an offset, with the checksum in the same pass.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::traits::Disk;

use crate::error::CheckpointError;

/// Size of the pieces that are read, and then checksummed while they are still in a core's cache,
/// in bytes.
const PIECE_BYTES: usize = 512 << 10;

/// A file opened for reading.
#[cfg(not(fuzzing))]
pub(crate) type ReadFile = File;
#[cfg(fuzzing)]
pub(crate) use super::memory::ReadFile;

/// `true` if a path exists.
pub(crate) fn exists(disk: &dyn Disk, path: &Path) -> bool {
    #[cfg(fuzzing)]
    if super::memory::find(path).is_some() {
        return true;
    }
    match disk.open(path) {
        Ok(_) => true,
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    }
}

/// Opens a regular file.
pub(crate) fn open(disk: &dyn Disk, path: &Path) -> io::Result<(ReadFile, u64)> {
    #[cfg(fuzzing)]
    if let Some(bytes) = super::memory::find(path) {
        let length = bytes.len() as u64;
        return Ok((ReadFile::Memory(bytes), length));
    }
    let (file, length) = open_file(disk, path)?;
    #[cfg(fuzzing)]
    let file = ReadFile::File(file);
    Ok((file, length))
}

fn open_file(disk: &dyn Disk, path: &Path) -> io::Result<(File, u64)> {
    let file = disk.open(path)?;
    let about = file.metadata()?;
    match about.is_file() {
        true => Ok((file, about.len())),
        false => Err(io::Error::other("it is no plain file")),
    }
}

/// Reads a whole regular file.
pub(crate) fn read_whole(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, CheckpointError> {
    #[cfg(fuzzing)]
    if let Some(bytes) = super::memory::find(path) {
        return Ok(bytes.to_vec());
    }
    let read = open_file(disk, path).and_then(|(mut file, length)| {
        let mut bytes = Vec::new();
        let room = usize::try_from(length).map_err(io::Error::other)?;
        bytes.try_reserve_exact(room).map_err(io::Error::other)?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    read.map_err(|e| CheckpointError::io(path, "read", &e))
}

/// Fills `bytes` from offset `at` of the file.
pub(crate) fn read_exact_at(file: &ReadFile, bytes: &mut [u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, at);
    #[cfg(windows)]
    {
        // Reads of several threads do not use the file's cursor.
        let (mut rest, mut at) = (bytes, at);
        while !rest.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(file, rest, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => (rest, at) = (&mut rest[n..], at + n as u64),
            }
        }
        Ok(())
    }
}

/// The size from which several threads read a tensor, in bytes: a single one spends most of its
/// time on page faults.
const PARALLEL_READ_BYTES: usize = 16 << 20;
/// The most threads that read one tensor.
const MAX_READ_THREADS: usize = 4;

/// Fills `bytes` from offset `at` of the file, and returns their CRC-32C.
pub(crate) fn read_with_crc(file: &ReadFile, bytes: &mut [u8], at: u64) -> io::Result<u32> {
    let threads = match bytes.len() >= PARALLEL_READ_BYTES {
        true => std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_READ_THREADS)),
        false => 1,
    };
    read_on(threads, file, bytes, at)
}

fn read_on(threads: usize, file: &ReadFile, bytes: &mut [u8], at: u64) -> io::Result<u32> {
    if threads < 2 || bytes.len() < threads * PIECE_BYTES {
        return read_part(file, bytes, at);
    }
    // Whole pieces for each thread.
    let part = bytes.len().div_ceil(threads).next_multiple_of(PIECE_BYTES);
    std::thread::scope(|scope| {
        let mut place = at;
        let parts = bytes.chunks_mut(part).map(|part| {
            let start = place;
            place += part.len() as u64;
            let length = part.len();
            let thread = std::thread::Builder::new();
            thread
                .spawn_scoped(scope, move || read_part(file, part, start))
                .map(|thread| (thread, length))
        });
        let parts = parts.collect::<io::Result<Vec<_>>>()?;
        parts.into_iter().try_fold(0, |sum, (thread, length)| {
            let own = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread that read it ended")))?;
            Ok(crc32c::crc32c_combine(sum, own, length))
        })
    })
}

fn read_part(file: &ReadFile, bytes: &mut [u8], at: u64) -> io::Result<u32> {
    let (mut crc, mut place) = (0, at);
    for piece in bytes.chunks_mut(PIECE_BYTES) {
        read_exact_at(file, piece, place)?;
        crc = crc32c::crc32c_append(crc, piece);
        place += piece.len() as u64;
    }
    Ok(crc)
}

#[cfg(test)]
mod tests {
    use super::{PIECE_BYTES, open, read_on};

    #[test]
    fn any_number_of_threads_reads_the_same() {
        let name = format!("thalweg-read-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let all: Vec<u8> = (0..5 * PIECE_BYTES + 77).map(|i| (i / 7) as u8).collect();
        std::fs::write(&path, &all).unwrap();
        let (file, _) = open(&crate::disk::SystemDisk, &path).unwrap();
        for threads in 1..6 {
            let mut bytes = vec![0; all.len() - 5];
            let sum = read_on(threads, &file, &mut bytes, 5).unwrap();
            assert!(bytes == all[5..], "{threads}");
            assert_eq!(sum, crc32c::crc32c(&all[5..]), "{threads}");
            // A truncated file.
            let mut more = vec![0; all.len() + PIECE_BYTES];
            assert!(read_on(threads, &file, &mut more, 0).is_err());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
