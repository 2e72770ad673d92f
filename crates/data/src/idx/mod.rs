//! IDX files: arrays of bytes with a header, gzipped or not.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

#[cfg(feature = "gzip")]
use flate2::bufread::MultiGzDecoder;

use thalweg_tensor::Tensor;

use crate::error::DataError;

#[cfg(test)]
pub(super) mod tests;

/// Largest number of elements that is read from one file: 1 GiB, twenty times MNIST.
///
/// It bounds the unpacked size of a small gzip file.
pub const MAX_BYTES: u64 = 1 << 30;

/// Size of the first allocation; each later one doubles the buffer.
///
/// Memory grows with the bytes that arrive, so a wrong header costs nothing.
const FIRST_STEP: usize = 1 << 20;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Content of an IDX file: an array of bytes with `R` dimensions.
///
/// The format: two zero bytes, the element type, the number of dimensions, each
/// dimension as a big-endian `u32`, then the elements in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx<const R: usize> {
    /// The size of each dimension, outermost first; any may be zero.
    pub dims: [usize; R],
    /// The elements; their number is the product of `dims`.
    pub data: Vec<u8>,
}

impl<const R: usize> Idx<R> {
    /// Reads the file at `path`, gzipped or not: its first bytes decide, not its name.
    ///
    /// # Errors
    /// [`DataError::Io`] when the file cannot be opened; else as [`Idx::read`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| DataError::Io {
            path: path.to_path_buf(),
            source,
        })?;
        Self::read(file, path)
    }

    /// Reads an IDX stream to its end, gzipped or not; errors call it `name`.
    ///
    /// # Errors
    /// [`DataError::Magic`], [`DataError::Gzip`], [`DataError::UnsupportedElement`],
    /// [`DataError::UnknownElement`], [`DataError::Rank`], [`DataError::TooLarge`],
    /// [`DataError::Truncated`] and [`DataError::Trailing`] for a stream that is not
    /// exactly one array of bytes with `R` dimensions; [`DataError::Io`] when
    /// `reader` fails.
    pub fn read(reader: impl Read, name: impl Into<PathBuf>) -> Result<Self, DataError> {
        let path = name.into();
        let io_error = |source| DataError::Io {
            path: path.clone(),
            source,
        };
        let mut reader = BufReader::new(reader);
        let mut magic = [0; 2];
        let peeked = fill(&mut reader, &mut magic).map_err(|(_, e)| io_error(e))?;
        let whole = magic[..peeked].chain(reader);
        if peeked == magic.len() && magic == GZIP {
            #[cfg(feature = "gzip")]
            return Stream::new(MultiGzDecoder::new(whole), path, true).array();
            #[cfg(not(feature = "gzip"))]
            return Err(DataError::WithoutGzip { path });
        } else {
            Stream::new(whole, path, false).array()
        }
    }
}

/// The array of an IDX file as a tensor of `u8`, of one to four dimensions. For a pipeline, see
/// [`from_tensors`](crate::pipeline::from_tensors).
///
/// # Errors
/// As [`Idx::open`]; [`DataError::Tensor`] where there is no memory.
pub fn idx_tensor(path: impl AsRef<Path>) -> Result<Tensor, DataError> {
    let path = path.as_ref();
    let read = match Idx::<1>::open(path) {
        Err(DataError::Rank { found: 2, .. }) => return tensor(Idx::<2>::open(path)?),
        Err(DataError::Rank { found: 3, .. }) => return tensor(Idx::<3>::open(path)?),
        Err(DataError::Rank { found: 4, .. }) => return tensor(Idx::<4>::open(path)?),
        other => other?,
    };
    tensor(read)
}

fn tensor<const R: usize>(array: Idx<R>) -> Result<Tensor, DataError> {
    Ok(Tensor::new(&array.dims, &array.data)?)
}

/// A stream of unpacked bytes that counts the bytes read.
struct Stream<S> {
    source: S,
    path: PathBuf,
    gzipped: bool,
    offset: u64,
}

impl<S: Read> Stream<S> {
    fn new(source: S, path: PathBuf, gzipped: bool) -> Self {
        Stream {
            source,
            path,
            gzipped,
            offset: 0,
        }
    }

    fn array<const R: usize>(mut self) -> Result<Idx<R>, DataError> {
        let mut head = [0; 4];
        self.exact(&mut head, 4)?;
        let [zero, zero_too, element, rank] = head;
        if [zero, zero_too] != [0, 0] {
            return Err(DataError::Magic {
                path: self.path,
                found: [zero, zero_too],
            });
        }
        check_element(element, &self.path)?;
        if usize::from(rank) != R {
            return Err(DataError::Rank {
                path: self.path,
                expected: R,
                found: usize::from(rank),
            });
        }

        let start = 4 + 4 * R as u64;
        let mut sizes = [0u32; R];
        for size in &mut sizes {
            let mut word = [0; 4];
            self.exact(&mut word, start)?;
            *size = u32::from_be_bytes(word);
        }
        let count = element_count(&sizes).ok_or_else(|| DataError::TooLarge {
            path: self.path.clone(),
            dims: sizes.to_vec(),
            limit: MAX_BYTES,
        })?;

        let mut data = Vec::new();
        while data.len() < count {
            let read = data.len();
            let step = read.max(FIRST_STEP).min(count - read);
            data.reserve_exact(step);
            data.resize(read + step, 0);
            self.exact(&mut data[read..], start + count as u64)?;
        }
        self.end()?;
        Ok(Idx {
            dims: sizes.map(|size| size as usize),
            data,
        })
    }

    /// Fills `into`; `expected` is the length that the whole file must have.
    fn exact(&mut self, into: &mut [u8], expected: u64) -> Result<(), DataError> {
        let (read, failure) = match fill(&mut self.source, into) {
            Ok(read) => (read, None),
            Err((read, source)) => (read, Some(source)),
        };
        self.offset += read as u64;
        match failure {
            // A truncated gzip stream gives the same error as a truncated plain file.
            Some(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
                Err(self.failure(source))
            }
            None if read == into.len() => Ok(()),
            _ => Err(DataError::Truncated {
                path: self.path.clone(),
                expected,
                found: self.offset,
            }),
        }
    }

    /// Checks that nothing follows; this also verifies gzip's checksum and length.
    fn end(&mut self) -> Result<(), DataError> {
        match fill(&mut self.source, &mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(DataError::Trailing {
                path: self.path.clone(),
                expected: self.offset,
            }),
            Err((_, source)) => Err(self.failure(source)),
        }
    }

    fn failure(&self, source: io::Error) -> DataError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        let path = self.path.clone();
        if self.gzipped && matches!(source.kind(), InvalidData | InvalidInput | UnexpectedEof) {
            let offset = self.offset;
            DataError::Gzip {
                path,
                offset,
                source,
            }
        } else {
            DataError::Io { path, source }
        }
    }
}

/// Reads until `into` is full or the source ends, and returns the number of bytes; an error carries the number before
/// it.
fn fill(source: &mut impl Read, into: &mut [u8]) -> Result<usize, (usize, io::Error)> {
    let mut read = 0;
    while read < into.len() {
        match source.read(&mut into[read..]) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err((read, e)),
        }
    }
    Ok(read)
}

/// The product of `sizes`; `None` above [`MAX_BYTES`].
fn element_count(sizes: &[u32]) -> Option<usize> {
    // One zero makes the array empty, however large the other sizes are.
    if sizes.contains(&0) {
        return Some(0);
    }
    let mut count = 1u64;
    for &size in sizes {
        count = count.checked_mul(u64::from(size))?;
    }
    if count > MAX_BYTES {
        return None;
    }
    usize::try_from(count).ok()
}

fn check_element(found: u8, path: &Path) -> Result<(), DataError> {
    let path = || path.to_path_buf();
    let name = match found {
        0x08 => return Ok(()),
        0x09 => "i8",
        0x0b => "i16",
        0x0c => "i32",
        0x0d => "f32",
        0x0e => "f64",
        _ => {
            return Err(DataError::UnknownElement {
                path: path(),
                found,
            });
        }
    };
    Err(DataError::UnsupportedElement {
        path: path(),
        found,
        name,
    })
}
