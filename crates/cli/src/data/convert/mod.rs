//! `thalweg data convert`: pictures and tables to TFRecord files.

mod picture;
mod plan;
mod source;
mod staging;
mod table;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::json;
use thalweg_data::pipeline::from_vec;
use thalweg_data::{Compression, DataError, RecordWriter};
use thalweg_tensor::text::counted;

use self::plan::{Plan, RecordSet};
use self::source::{Made, Source};
use self::staging::Staging;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::table::table;

/// Convert a folder of pictures, IDX, CIFAR or CSV files to TFRecord files of tf.Example
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
/// Examples are shuffled by the seed. Files appear under their names once all are complete.
#[derive(Args)]
pub(crate) struct Convert {
    /// A folder, one or two IDX files, CIFAR files, or a CSV file
    #[arg(required = true)]
    source: Vec<PathBuf>,
    /// The folder of the files NAME-00000-of-00004 and so on, or a single file NAME.tfrecord
    #[arg(long, value_name = "DIR|FILE")]
    to: PathBuf,
    /// The kind of the source; without it, its names and first bytes decide
    #[arg(long, value_name = "KIND")]
    from: Option<Kind>,
    /// The name that the files start with
    #[arg(long, default_value = "train")]
    name: String,
    /// Number of files
    #[arg(long, default_value_t = 4, value_name = "N")]
    shards: usize,
    /// Compression of the files
    #[arg(long, default_value = "none", value_name = "METHOD")]
    compression: Packing,
    /// Share of the examples, from 0 to 1, that go to files named validation
    #[arg(long, value_name = "SHARE")]
    validation: Option<f64>,
    /// The seed of the order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Make pictures smaller whose shorter side is longer than N pixels, so that it is N
    #[arg(long, value_name = "N")]
    resize: Option<usize>,
    /// Quality of the JPEG files that --resize makes, 1 to 100
    #[arg(long, default_value_t = 95, value_name = "N")]
    quality: u8,
    /// The label of the first class
    #[arg(long, default_value_t = 1, value_name = "N")]
    first_label: i64,
    /// Leave pictures out that do not decode, and list them
    #[arg(long)]
    skip_damaged: bool,
    /// The type of a column of a CSV file, as in age=float: int, float or text; may be given several times
    #[arg(long, value_name = "NAME=TYPE")]
    column: Vec<String>,
    /// The character between the columns of a CSV file
    #[arg(long, default_value_t = ',', value_name = "CHARACTER")]
    delimiter: char,
    /// Number of threads that read, decode and resize pictures; without it, that of the cores
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Kind of a source.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Folder,
    Idx,
    Cifar10,
    Cifar100,
    Csv,
}

/// Compression of TFRecord files.
#[derive(Clone, Copy, ValueEnum)]
enum Packing {
    None,
    Gzip,
    Zlib,
}

impl Packing {
    fn compression(self) -> Compression {
        match self {
            Packing::None => Compression::None,
            Packing::Gzip => Compression::Gzip,
            Packing::Zlib => Compression::Zlib,
        }
    }
}

/// Result of a conversion.
struct Converted {
    sets: Vec<Written>,
    classes: Vec<String>,
    /// Messages about the pictures that were left out.
    skipped: Vec<String>,
}

/// A set of files that was written.
struct Written {
    name: String,
    files: Vec<PathBuf>,
    records: u64,
    bytes: u64,
}

impl Convert {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if !(1..=100).contains(&self.quality) {
            return Err(format!("--quality {}: give 1 to 100", self.quality).into());
        }
        if self.resize == Some(0) {
            return Err("--resize 0: give a number of pixels".into());
        }
        let source = self.open()?;
        let plan = Plan::new(self, source.len())?;
        plan.check(source.classes())?;
        let converted = self.convert(source, &plan)?;
        let text = match self.json {
            true => format!("{:#}\n", converted.json()),
            false => converted.text(),
        };
        output::text(&text)
    }

    fn convert(&self, source: Source, plan: &Plan) -> Result<Converted, Failure> {
        let classes = source.classes().to_vec();
        let numbers = (0..source.len()).collect();
        let order = from_vec(numbers).shuffle(source.len(), self.seed);
        let (source, options) = (Arc::new(source), self.options());
        let mut made = order.map_parallel(self.threads()?, move |n| source.make(n, &options));
        let progress = Progress::new("record", plan.examples() as u64, self.json);
        let staging = Staging::create(&plan.folder, &self.name)?;
        let (mut sets, mut skipped, mut done) = (Vec::new(), Vec::new(), 0);
        for set in &plan.sets {
            let mut written = Written::new(set);
            for (file, examples) in set.shards() {
                let mut writer =
                    RecordWriter::create(staging.path(file), self.compression.compression())?;
                for _ in examples {
                    match made.next().ok_or("the source has ended too early")?? {
                        Made::Record(record) => {
                            writer.write(&record)?;
                            written.records += 1;
                        }
                        Made::Damaged(reason) if self.skip_damaged => skipped.push(reason),
                        Made::Damaged(reason) => {
                            return Err(format!(
                                "{reason}\nRepair or remove it, or leave such pictures out with --skip-damaged."
                            )
                            .into());
                        }
                    }
                    done += 1;
                    progress.at(done);
                }
                writer.finish()?;
                written.bytes += staging.sync(file)?;
            }
            sets.push(written);
        }
        drop(progress);
        staging.publish(plan)?;
        plan.write_labels(&classes)?;
        Ok(Converted {
            sets,
            classes,
            skipped,
        })
    }

    fn open(&self) -> Result<Source, Failure> {
        let kind = match self.from {
            Some(kind) => kind,
            None => source::kind_of(&self.source)?,
        };
        source::open(kind, &self.source, self)
    }

    fn options(&self) -> picture::PictureOptions {
        picture::PictureOptions {
            shorter_side: self.resize,
            quality: self.quality,
            first_label: self.first_label,
        }
    }

    fn threads(&self) -> Result<usize, Failure> {
        super::record_files::threads(self.threads)
    }
}

impl Written {
    fn new(set: &RecordSet) -> Written {
        Written {
            name: set.name.clone(),
            files: set.files.clone(),
            records: 0,
            bytes: 0,
        }
    }
}

impl Converted {
    fn text(self) -> String {
        let mut text = String::new();
        for reason in &self.skipped {
            text += &format!("left out: {reason}\n");
        }
        if !self.classes.is_empty() {
            text += &format!("{}\n", counted_classes(self.classes.len()));
        }
        let rows = self.sets.into_iter().map(|set| {
            let first = set.files.first().map(|f| f.display().to_string());
            let numbers = [set.files.len() as u64, set.records, set.bytes];
            let own = [set.name, first.unwrap_or_default()].into_iter();
            own.chain(numbers.map(|n| n.to_string())).collect()
        });
        let head = ["set", "first file", "files", "records", "bytes"];
        text += &table(&head, rows.collect(), &[2, 3, 4]);
        if !self.skipped.is_empty() {
            let pictures = counted(self.skipped.len(), "picture");
            text += &format!("{pictures} left out\n");
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let sets = self.sets.iter().map(|set| {
            let files: Vec<_> = set.files.iter().map(|f| f.display().to_string()).collect();
            json!({"name": set.name, "files": files, "records": set.records, "bytes": set.bytes})
        });
        json!({
            "sets": sets.collect::<Vec<_>>(),
            "classes": self.classes,
            "left_out": self.skipped,
        })
    }
}

fn counted_classes(count: usize) -> String {
    match count {
        1 => "1 class".to_owned(),
        n => format!("{n} classes"),
    }
}

/// An error of a function of a pipeline.
fn failed(reason: impl Into<String>) -> DataError {
    DataError::Function(reason.into().into())
}
