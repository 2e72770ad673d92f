//! Arguments of `thalweg data convert`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thalweg_data::Compression;

use super::picture::PictureOptions;
use crate::data::record_files::threads;
use crate::failure::Failure;

/// Convert a folder of pictures, IDX, CIFAR or CSV files to TFRecord files of tf.Example, or to LMDB
///
/// A folder has a folder of pictures for each class. IDX is a file of images and one of labels, as MNIST has them; the
/// second is found if it has MNIST's name. CIFAR is the binary form: its .bin files, or the folder of its training
/// files. CSV is one file with a header.
///
/// Pictures get ImageNet's keys: image/encoded, image/format, image/colorspace, image/channels, image/height,
/// image/width, image/filename, image/class/label, image/class/text, and image/class/synset for a class folder named
/// like n01440764. Images of IDX and CIFAR files become PNG files. The label of the first class, in the order of the
/// names, is 1, as in ImageNet's records: tf_cnn_benchmarks keeps 0 for the background. labels.txt has the names of the
/// classes, the first on the first line.
///
/// A table gets a feature for each column: integers or floats where all values are such numbers, else texts. A value
/// that is missing gets no feature. A table is held in memory.
///
/// With --format lmdb a set is a folder NAME.lmdb of Caffe's Datum messages that hold the picture's file. Keys are numbers
/// with the names of the files, and the label of the first class is 0.
///
/// Examples are shuffled by the seed. Files appear under their names once all are complete.
#[derive(Args)]
pub(crate) struct Convert {
    /// A folder, one or two IDX files, CIFAR files, or a CSV file
    #[arg(required = true)]
    pub(super) source: Vec<PathBuf>,
    /// The folder of the files NAME-00000-of-00004 and so on, or a single file of the ending .tfrecord
    #[arg(long, value_name = "DIR|FILE")]
    pub(super) to: PathBuf,
    /// The kind of the source; without it, its names and first bytes decide
    #[arg(long, value_name = "KIND")]
    pub(super) from: Option<Kind>,
    /// The name that the files start with
    #[arg(long, default_value = "train")]
    pub(super) name: String,
    /// The format of the files
    #[arg(long, default_value = "tfrecord")]
    pub(super) format: RecordFormat,
    /// Number of TFRecord files; 4 without it
    #[arg(long, value_name = "N")]
    pub(super) shards: Option<usize>,
    /// Compression of the files
    #[arg(long, default_value = "none", value_name = "METHOD")]
    pub(super) compression: Packing,
    /// Share of the examples, from 0 to 1, that go to files named validation
    #[arg(long, value_name = "SHARE")]
    pub(super) validation: Option<f64>,
    /// The seed of the order
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Make pictures smaller whose shorter side is longer than N pixels, so that it is N
    #[arg(long, value_name = "N")]
    pub(super) resize: Option<usize>,
    /// Quality of the JPEG files that --resize makes, 1 to 100
    #[arg(long, default_value_t = 95, value_name = "N")]
    pub(super) quality: u8,
    /// The label of the first class; without it, 1 in TFRecord files and 0 in LMDB
    #[arg(long, value_name = "N")]
    pub(super) first_label: Option<i32>,
    /// Leave pictures out that do not decode, and list them
    #[arg(long)]
    pub(super) skip_damaged: bool,
    /// The type of a column of a CSV file, as in age=float: int, float or text; may be given several times
    #[arg(long, value_name = "NAME=TYPE")]
    pub(super) column: Vec<String>,
    /// The character between the columns of a CSV file
    #[arg(long, default_value_t = ',', value_name = "CHARACTER")]
    pub(super) delimiter: char,
    /// Number of threads that read, decode and resize pictures; without it, that of the cores
    #[arg(long, value_name = "N")]
    pub(super) threads: Option<usize>,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Kind of a source.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    Folder,
    Idx,
    Cifar10,
    Cifar100,
    Csv,
}

/// Format of files of records.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum RecordFormat {
    Tfrecord,
    Lmdb,
}

/// Compression of TFRecord files.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Packing {
    None,
    Gzip,
    Zlib,
}

impl Packing {
    pub(super) fn compression(self) -> Compression {
        match self {
            Packing::None => Compression::None,
            Packing::Gzip => Compression::Gzip,
            Packing::Zlib => Compression::Zlib,
        }
    }
}

impl Convert {
    /// The options of pictures.
    pub(super) fn options(&self) -> PictureOptions {
        PictureOptions {
            shorter_side: self.resize,
            quality: self.quality,
            first_label: self.first_label.unwrap_or(match self.format {
                RecordFormat::Tfrecord => 1,
                RecordFormat::Lmdb => 0,
            }),
            datum: self.format == RecordFormat::Lmdb,
        }
    }

    /// Number of threads.
    ///
    /// # Errors
    /// It is 0.
    pub(super) fn threads(&self) -> Result<usize, Failure> {
        threads(self.threads)
    }
}
