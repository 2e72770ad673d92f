//! Rows of a rank: of files, or made by a seed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thalweg_hvd::Hvd;
use thalweg_stats::{FileRows, RowBlocks, SeededRows};
use thalweg_tensor::DType;

use crate::failure::Failure;

/// Place of the number of the rank in a file name.
const RANK: &str = "{rank}";

/// Dtype of rows.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum RowType {
    F32,
    F64,
}

impl From<RowType> for DType {
    fn from(own: RowType) -> DType {
        match own {
            RowType::F32 => DType::F32,
            RowType::F64 => DType::F64,
        }
    }
}

/// The rows to fit.
#[derive(Args)]
pub(super) struct DataArgs {
    /// Files of rows: .csv, .npy, .tfrecord. Ranks share their rows, unless {rank} in a name stands for the number of the rank
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "rows")]
    data: Vec<String>,
    /// Make so many rows in place of files, shared by the ranks
    #[arg(long, value_name = "N", conflicts_with = "data")]
    rows: Option<u64>,
    /// Number of features of rows that are made
    #[arg(long, value_name = "P", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    columns: u32,
    /// Seed of rows that are made, and of the start of K-means
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(super) seed: u64,
    /// Dtype of the rows; by default that of a .npy file, f32 for records, f64 otherwise
    #[arg(long, value_name = "TYPE")]
    dtype: Option<RowType>,
    /// Read the files block by block in each pass, for rows that do not fit into memory
    #[arg(long)]
    stream: bool,
    /// Rows of a block; by default those of about 2 MiB of a file, and 32768 of rows that are made
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    block_rows: Option<u32>,
}

impl DataArgs {
    /// The rows of this rank; `made` is the kind of rows that are made.
    ///
    /// # Errors
    /// A file is not read, or there is no memory for its rows.
    pub(super) fn rows(
        &self,
        hvd: &Hvd,
        targets: usize,
        clusters: usize,
    ) -> Result<Box<dyn RowBlocks>, Failure> {
        if let Some(rows) = self.rows {
            let seeded = SeededRows {
                seed: self.seed,
                rows,
                features: self.columns as usize,
                targets,
                clusters,
                dtype: self.dtype.unwrap_or(RowType::F64).into(),
                block_rows: self.block_rows.unwrap_or(32_768) as usize,
                share: (hvd.rank(), hvd.size()),
            };
            return match self.stream {
                true => Ok(Box::new(seeded)),
                false => Ok(Box::new(seeded.made()?)),
            };
        }
        let number = hvd.rank().to_string();
        let own = self.data.iter().any(|name| name.contains(RANK));
        let paths = self
            .data
            .iter()
            .map(|name| PathBuf::from(name.replace(RANK, &number)));
        let mut files = FileRows::open(paths, targets)?;
        if let Some(rows) = self.block_rows {
            files = files.block_rows(rows as usize);
        }
        if !own {
            files = files.share(hvd.rank(), hvd.size());
        }
        if let Some(dtype) = self.dtype {
            files = files.dtype_of_rows(dtype.into());
        }
        match self.stream {
            true => Ok(Box::new(files)),
            false => Ok(Box::new(files.loaded()?)),
        }
    }
}
