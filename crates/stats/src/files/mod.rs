//! Rows of files, block by block: CSV, NumPy's arrays, TFRecords of examples.

#[cfg(feature = "csv")]
mod csv;
mod npy;
mod part;
mod records;

use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use thalweg_tensor::{DType, Tensor};

use part::{Matrix, Part, Share};

use crate::error::StatsError;
use crate::rows::{Block, RowBlocks, Rows};

/// Bytes of a block, where nothing else is asked for: it stays in a cache from its reading to its sums.
const BLOCK_BYTES: usize = 2 << 20;
/// The fewest and the most rows of such a block.
const BLOCK_ROWS: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 15;

/// Rows of files. The last columns are the targets.
///
/// A rank takes all rows of the files, or its share of them. A pass reads the files from the beginning, so that rows need
/// not fit into memory; [`FileRows::loaded`] keeps them there, and [`FileRows::loaded_within`] those that fit.
///
/// | file | rows |
/// | --- | --- |
/// | `.csv` | numbers, separated by commas; a first line that has none is a header |
/// | `.npy` | an array of f32 or f64, `[n, columns]` |
/// | `.tfrecord`, `.tfrecords`, `.tfrecord.gz` | examples with a list of floats `x`, and `y` where there are targets |
///
/// ```
/// use thalweg_data::write_npy;
/// use thalweg_stats::{FileRows, RowBlocks};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("rows-{}.npy", std::process::id()));
/// write_npy(&path, &Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 9.0]]))?;
/// let rows = FileRows::open([&path], 1)?;
/// assert_eq!(rows.columns(), (2, 1));
/// rows.for_each(&mut |block| {
///     assert_eq!(block.y, Tensor::from([[3.0f32], [9.0]]));
///     Ok(())
/// })?;
/// # let _ = std::fs::remove_file(path);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FileRows {
    paths: Vec<PathBuf>,
    targets: usize,
    width: usize,
    dtype: DType,
    block_rows: usize,
    share: Share,
}

/// The format of a file, by its name.
#[derive(Clone, Copy)]
enum Format {
    #[cfg(feature = "csv")]
    Csv,
    Npy,
    Records,
}

impl Format {
    fn of(path: &Path) -> Result<Format, StatsError> {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        #[cfg(feature = "csv")]
        if name.ends_with(".csv") {
            return Ok(Format::Csv);
        }
        match () {
            () if name.ends_with(".npy") => Ok(Format::Npy),
            () if name.contains(".tfrecord") => Ok(Format::Records),
            () => Err(StatsError::invalid(format!(
                "{}: no format of rows has this name: give .csv, .npy or .tfrecord",
                path.display()
            ))),
        }
    }
}

impl FileRows {
    /// All rows of these files, in f64 (`.npy`: as they are). The last `targets` columns are targets.
    ///
    /// # Errors
    /// No files, a file that is not read, or one with fewer columns than targets.
    pub fn open(
        paths: impl IntoIterator<Item = impl Into<PathBuf>>,
        targets: usize,
    ) -> Result<FileRows, StatsError> {
        let paths: Vec<PathBuf> = paths.into_iter().map(Into::into).collect();
        let first = paths
            .first()
            .ok_or_else(|| StatsError::invalid("no files are given"))?;
        let (width, dtype) = match Format::of(first)? {
            #[cfg(feature = "csv")]
            Format::Csv => (csv::width(first)?, DType::F64),
            Format::Npy => npy::width(first)?,
            Format::Records => (records::width(first, targets)?, DType::F32),
        };
        if width <= targets {
            return Err(StatsError::invalid(format!(
                "{}: it has {width} columns, and {targets} of them are targets: none is left for features",
                first.display()
            )));
        }
        let share = Share { rank: 0, ranks: 1 };
        let rows = BLOCK_BYTES / width.saturating_mul(dtype.size());
        Ok(FileRows {
            paths,
            targets,
            width,
            dtype,
            block_rows: rows.clamp(*BLOCK_ROWS.start(), *BLOCK_ROWS.end()),
            share,
        })
    }

    /// The same, of which this rank takes one row of so many: row `rank`, then each `ranks`-th after it. Of `.npy` files it
    /// takes consecutive rows.
    pub fn share(self, rank: usize, ranks: usize) -> FileRows {
        FileRows {
            share: Share {
                rank,
                ranks: ranks.max(1),
            },
            ..self
        }
    }

    /// The same, converted to `f32` or `f64`.
    pub fn dtype_of_rows(self, dtype: DType) -> FileRows {
        FileRows { dtype, ..self }
    }

    /// The same in blocks of so many rows; by default, of about 2 MiB.
    pub fn block_rows(self, rows: usize) -> FileRows {
        FileRows {
            block_rows: rows.max(1),
            ..self
        }
    }

    /// All rows, in memory.
    ///
    /// # Errors
    /// A file that is not read.
    pub fn loaded(&self) -> Result<Rows, StatsError> {
        self.load(u64::MAX)
    }

    /// All rows, in memory; `None` if they have more than so many bytes. Loading takes up to three times their bytes for a
    /// moment.
    ///
    /// # Errors
    /// A file that is not read.
    pub fn loaded_within(&self, bytes: u64) -> Result<Option<Rows>, StatsError> {
        match self.load(bytes) {
            Ok(rows) => Ok(Some(rows)),
            Err(StatsError::Ended) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All rows; [`StatsError::Ended`] where they have more bytes.
    fn load(&self, bytes: u64) -> Result<Rows, StatsError> {
        let (mut x, mut y, mut rows) = (Vec::new(), Vec::new(), 0);
        self.for_each(&mut |block| {
            let all = [&x, &y].map(Vec::len).into_iter().sum::<usize>()
                + block.x.bytes().len()
                + block.y.bytes().len();
            if all as u64 > bytes {
                return Err(StatsError::Ended);
            }
            rows += block.x.dims().first().copied().unwrap_or(0);
            x.extend_from_slice(block.x.bytes());
            y.extend_from_slice(block.y.bytes());
            Ok(())
        })?;
        let (features, targets) = self.columns();
        let all = Rows::new(Tensor::from_bytes(self.dtype, &[rows, features], &x)?);
        Ok(all.targets(Tensor::from_bytes(self.dtype, &[rows, targets], &y)?))
    }

    /// Reads the files into blocks, and gives them to `take`, which returns `false` to stop.
    fn read(&self, take: &mut dyn FnMut(Matrix) -> bool) -> Result<(), StatsError> {
        for path in &self.paths {
            let part = Part {
                path,
                width: self.width,
                block_rows: self.block_rows,
                share: self.share,
            };
            match Format::of(path)? {
                #[cfg(feature = "csv")]
                Format::Csv => csv::read(&part, take)?,
                Format::Npy => npy::read(&part, take)?,
                Format::Records => records::read(&part, self.targets, take)?,
            }
        }
        Ok(())
    }

    /// A block of rows, with features and targets apart.
    fn split(&self, matrix: &Matrix) -> Result<Block, StatsError> {
        let weights = Tensor::zeros(self.dtype, &[0])?;
        let rows = matrix.dims().first().copied().unwrap_or(0);
        if self.targets == 0 && matrix.dtype() == self.dtype {
            return Ok(Block {
                x: matrix.clone(),
                y: Tensor::zeros(self.dtype, &[rows, 0])?,
                weights,
            });
        }
        let features = self.width - self.targets;
        let (x, y) = match (matrix.dtype(), self.dtype) {
            (DType::F32, DType::F32) => {
                columns(matrix.as_slice::<f32>()?, self.width, features, |x| x)?
            }
            (DType::F32, _) => columns(matrix.as_slice::<f32>()?, self.width, features, f64::from)?,
            (_, DType::F32) => columns(matrix.as_slice::<f64>()?, self.width, features, |x| {
                x as f32
            })?,
            _ => columns(matrix.as_slice::<f64>()?, self.width, features, |x| x)?,
        };
        Ok(Block { x, y, weights })
    }
}

/// The first columns of rows, and the others.
fn columns<A: Copy, B: thalweg_tensor::Element>(
    from: &[A],
    width: usize,
    features: usize,
    convert: impl Fn(A) -> B + Copy,
) -> Result<(Tensor, Tensor), StatsError> {
    let rows = from.len() / width.max(1);
    let of = |at: std::ops::Range<usize>| -> Result<Tensor, StatsError> {
        let mut part = Tensor::zeros(B::DTYPE, &[rows, at.len()])?;
        let to = part.as_mut_slice::<B>()?.chunks_exact_mut(at.len().max(1));
        for (to, row) in to.zip(from.chunks_exact(width.max(1))) {
            for (to, x) in to.iter_mut().zip(&row[at.clone()]) {
                *to = convert(*x);
            }
        }
        Ok(part)
    };
    Ok((of(0..features)?, of(features..width)?))
}

impl RowBlocks for FileRows {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn columns(&self) -> (usize, usize) {
        (self.width - self.targets, self.targets)
    }

    fn for_each(
        &self,
        take: &mut dyn FnMut(Block) -> Result<(), StatsError>,
    ) -> Result<(), StatsError> {
        // A thread reads the next block while `take` uses this one.
        std::thread::scope(|threads| {
            let (sender, blocks) = sync_channel(1);
            let reader = threads
                .spawn(move || self.read(&mut |matrix| sender.send(self.split(&matrix)).is_ok()));
            let taken = blocks.iter().try_for_each(|block| take(block?));
            // A reader that waits for room ends with its receiver.
            drop(blocks);
            let read = reader.join().unwrap_or_else(|_| {
                Err(StatsError::invalid(
                    "the thread that reads rows has panicked",
                ))
            });
            taken.and(read)
        })
    }
}
