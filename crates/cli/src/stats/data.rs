//! Rows of a rank: of files, or made by a seed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thalweg_dist::limits::Machine;
use thalweg_hvd::Hvd;
use thalweg_stats::{FileRows, RowBlocks, Rows, SeededRows};
use thalweg_tensor::DType;

use crate::failure::Failure;

/// Place of the number of the rank in a file name.
const RANK: &str = "{rank}";

/// Part of the memory that the rows of all ranks of a host may have: loading takes up to three times their bytes.
const PART_OF_MEMORY: u64 = 4;

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
    /// Read the files block by block in each pass, even if their rows fit into memory
    #[arg(long)]
    stream: bool,
    /// Bytes of rows that a rank keeps in memory; it reads more than that block by block in each pass. By default, the ranks of
    /// a host keep a quarter of the memory of the machine or of the control group
    #[arg(long, value_name = "BYTES", conflicts_with = "stream")]
    memory: Option<u64>,
    /// Rows of a block; by default those of about 2 MiB of a file, and 32768 of rows that are made
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    block_rows: Option<u32>,
}

/// Rows of a rank.
pub(super) struct RankRows {
    pub(super) blocks: Box<dyn RowBlocks>,
    /// `true` if each pass reads or makes them anew.
    pub(super) streamed: bool,
}

impl RankRows {
    /// Rows in memory; without them, those that each pass reads or makes.
    fn new(loaded: Option<Rows>, streamed: impl RowBlocks + 'static) -> RankRows {
        RankRows {
            streamed: loaded.is_none(),
            blocks: match loaded {
                Some(rows) => Box::new(rows),
                None => Box::new(streamed),
            },
        }
    }
}

impl DataArgs {
    /// Bytes of rows that this rank keeps in memory.
    fn kept_bytes(&self, hvd: &Hvd) -> u64 {
        let share = || Machine::here().memory / PART_OF_MEMORY / hvd.local_size().max(1) as u64;
        self.memory.unwrap_or_else(share)
    }

    /// The rows of this rank. Those that are made have so many targets, and lie in so many clusters.
    ///
    /// # Errors
    /// A file is not read, or there is no memory for its rows.
    pub(super) fn rows(
        &self,
        hvd: &Hvd,
        targets: usize,
        clusters: usize,
    ) -> Result<RankRows, Failure> {
        let kept = self.kept_bytes(hvd);
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
            let fits = !self.stream && seeded.bytes() <= kept;
            let made = fits.then(|| seeded.made()).transpose()?;
            return Ok(RankRows::new(made, seeded));
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
        let loaded = match self.stream {
            true => None,
            false => files.loaded_within(kept)?,
        };
        Ok(RankRows::new(loaded, files))
    }
}
