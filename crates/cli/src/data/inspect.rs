//! `thalweg data inspect`: contents of files of records.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use thalweg_data::example::{Datum, Example, Feature};
use thalweg_image::size_of;
use thalweg_tensor::text::counted;

use super::keys;
use super::record_files::{Reader, expanded, first_bytes, first_int};
use super::sheet::Sheet;
use crate::failure::Failure;
use crate::output;
use crate::output_file::check_output_file;
use crate::progress::Progress;
use crate::statistics::format_number;
use crate::table::table;

/// Largest number of labels that are told apart.
const MAX_LABELS: usize = 100_000;
/// Largest number of keys that are told apart.
const MAX_KEYS: usize = 10_000;

/// Print the contents of TFRecord files and LMDB: number of records, keys with types and shapes, and a histogram of labels
///
/// The records are messages tf.Example, and Caffe's Datum in LMDB. Those that are not are counted. Files are read to the end, and their checksums
/// are verified.
#[derive(Args)]
pub(crate) struct Inspect {
    /// TFRecord files, compressed or not, folders of LMDB, or patterns such as 'data/train-*'
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The key of the labels
    #[arg(long, default_value = keys::LABEL, value_name = "KEY")]
    label: String,
    /// The key of the pictures
    #[arg(long, default_value = keys::ENCODED, value_name = "KEY")]
    image: String,
    /// Write a contact sheet of the first pictures, as a PNG file
    #[arg(long, value_name = "FILE.png")]
    sheet: Option<PathBuf>,
    /// Number of pictures on the sheet
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pictures: u16,
    /// Print all of it as JSON
    #[arg(long)]
    json: bool,
}

/// Statistics of all records.
#[derive(Default)]
struct Contents {
    records: u64,
    bytes: u64,
    /// Records that are no tf.Example; in LMDB, no Datum.
    others: u64,
    features: BTreeMap<(String, &'static str), KeyStatistics>,
    labels: BTreeMap<i64, LabelStatistics>,
    /// Height and width of the pictures: the least, and the largest.
    sizes: Option<[[usize; 2]; 2]>,
    /// Records whose picture has no readable header.
    unreadable: u64,
}

/// Statistics of the features of a key that have one type.
struct KeyStatistics {
    records: u64,
    /// Least and largest number of values.
    values: [usize; 2],
    /// Least and largest value; of bytes, the length.
    range: Option<[f64; 2]>,
}

#[derive(Default)]
struct LabelStatistics {
    records: u64,
    /// Name of the class.
    text: String,
}

impl Inspect {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if let Some(sheet) = &self.sheet {
            check_output_file(sheet)?;
        }
        let files = expanded(&self.files)?;
        let progress = Progress::new("file", files.len() as u64, self.json);
        let (mut contents, mut record) = (Contents::default(), Vec::new());
        let mut sheet = self
            .sheet
            .as_ref()
            .map(|_| Sheet::new(self.pictures.into()));
        for (done, path) in (1..).zip(&files) {
            let mut reader = Reader::open(path)?;
            while reader.read_into(&mut record)? {
                contents.add(&record, &reader, self, sheet.as_mut());
            }
            progress.at(done);
        }
        drop(progress);
        if let (Some(sheet), Some(path)) = (sheet, &self.sheet) {
            sheet.write(path)?;
        }
        let text = match self.json {
            true => format!("{:#}\n", contents.json(files.len())),
            false => contents.text(files.len()),
        };
        output::text(&text)
    }
}

impl Contents {
    fn add(
        &mut self,
        record: &[u8],
        reader: &Reader,
        options: &Inspect,
        sheet: Option<&mut Sheet>,
    ) {
        self.records += 1;
        self.bytes += record.len() as u64;
        let file = match reader {
            Reader::Records(_) => self.add_example(record, options),
            Reader::Lmdb(_) => self.add_datum(record),
        };
        let Some(file) = file else { return };
        match size_of(file) {
            Ok(size) => self.add_size([size.height, size.width]),
            Err(_) => self.unreadable += 1,
        }
        if let Some(sheet) = sheet {
            sheet.add(file);
        }
    }

    /// Adds a tf.Example, and returns its picture's file.
    fn add_example<'a>(&mut self, record: &'a [u8], options: &Inspect) -> Option<&'a [u8]> {
        let Ok(example) = Example::parse(record) else {
            self.others += 1;
            return None;
        };
        for (key, feature) in example.iter() {
            self.add_feature(key, feature);
        }
        if let Some(label) = first_int(&example, &options.label) {
            self.add_label(label, first_bytes(&example, keys::TEXT).unwrap_or_default());
        }
        first_bytes(&example, &options.image)
    }

    /// Adds a Datum, and returns its picture's file.
    fn add_datum<'a>(&mut self, record: &'a [u8]) -> Option<&'a [u8]> {
        let Ok(datum) = Datum::parse(record) else {
            self.others += 1;
            return None;
        };
        let numbers = [
            ("channels", datum.channels),
            ("encoded", datum.encoded.into()),
            ("height", datum.height),
            ("label", datum.label),
            ("width", datum.width),
        ];
        for (key, number) in numbers {
            self.add_values(key, measure("int64", [f64::from(number)].into_iter()));
        }
        let length = datum.data.len() as f64;
        self.add_values("data", measure("bytes", [length].into_iter()));
        self.add_label(datum.label.into(), &[]);
        datum.encoded.then_some(datum.data)
    }

    fn add_label(&mut self, label: i64, text: &[u8]) {
        if self.labels.len() >= MAX_LABELS && !self.labels.contains_key(&label) {
            return;
        }
        let of_label = self.labels.entry(label).or_default();
        of_label.records += 1;
        if of_label.text.is_empty() {
            of_label.text = String::from_utf8_lossy(text).into_owned();
        }
    }

    fn add_feature(&mut self, key: &str, feature: &Feature<'_>) {
        let measured = match feature.clone() {
            Feature::Bytes(list) => measure("bytes", list.map(|bytes| bytes.len() as f64)),
            Feature::Floats(list) => measure("float", list.map(f64::from)),
            Feature::Ints(list) => measure("int64", list.map(|n| n as f64)),
        };
        self.add_values(key, measured);
    }

    fn add_values(&mut self, key: &str, (kind, values, range): Measured) {
        let key = (key.to_owned(), kind);
        if self.features.len() >= MAX_KEYS && !self.features.contains_key(&key) {
            return;
        }
        let of_key = self.features.entry(key).or_insert(KeyStatistics {
            records: 0,
            values: [usize::MAX, 0],
            range: None,
        });
        of_key.records += 1;
        of_key.values = [of_key.values[0].min(values), of_key.values[1].max(values)];
        of_key.range = joined(of_key.range, range);
    }

    fn add_size(&mut self, size: [usize; 2]) {
        let [least, largest] = self.sizes.unwrap_or([size, size]);
        let both =
            |f: fn(usize, usize) -> usize, a: [usize; 2]| [f(a[0], size[0]), f(a[1], size[1])];
        self.sizes = Some([both(usize::min, least), both(usize::max, largest)]);
    }

    fn text(&self, files: usize) -> String {
        let mut text = format!(
            "{}, {}, {}\n",
            counted(files, "file"),
            counted(self.records, "record"),
            counted(self.bytes, "byte")
        );
        if self.others > 0 {
            text += &format!(
                "{} are no messages of the kind\n",
                counted(self.others, "record")
            );
        }
        if let Some([least, largest]) = self.sizes {
            text += &format!(
                "pictures of {} x {} to {} x {} pixels, height and width\n",
                least[0], least[1], largest[0], largest[1]
            );
        }
        if self.unreadable > 0 {
            let pictures = counted(self.unreadable, "picture");
            text += &format!(
                "{pictures} without a readable header: see `thalweg data check --decode`\n"
            );
        }
        if !self.features.is_empty() {
            let rows = self.features.iter().map(|((key, kind), of_key)| {
                let range = of_key.range.map_or(String::new(), |r| shown_range(kind, r));
                let records = of_key.records.to_string();
                vec![
                    key.clone(),
                    (*kind).to_owned(),
                    of_key.shape(),
                    records,
                    range,
                ]
            });
            let head = ["key", "type", "shape", "records", "values"];
            text += &format!("\n{}", table(&head, rows.collect(), &[3]));
        }
        if !self.labels.is_empty() {
            let most = self.labels.values().map(|l| l.records).max().unwrap_or(1);
            let rows = self.labels.iter().map(|(label, of_label)| {
                let records = of_label.records;
                let bar = "█".repeat((records * 40).div_ceil(most) as usize);
                vec![
                    label.to_string(),
                    of_label.text.clone(),
                    records.to_string(),
                    bar,
                ]
            });
            text += &table(&["label", "class", "records", ""], rows.collect(), &[0, 2]);
        }
        text
    }

    fn json(&self, files: usize) -> serde_json::Value {
        let features = self.features.iter().map(|((key, kind), of_key)| {
            // JSON has no infinity.
            let range = of_key.range.filter(|r| r.iter().all(|x| x.is_finite()));
            json!({
                "key": key,
                "type": kind,
                "records": of_key.records,
                "least_values": of_key.values[0],
                "most_values": of_key.values[1],
                "range": range,
            })
        });
        let labels = self.labels.iter().map(|(label, of_label)| {
            json!({"label": label, "class": of_label.text, "records": of_label.records})
        });
        json!({
            "files": files,
            "records": self.records,
            "bytes": self.bytes,
            "no_examples": self.others,
            "features": features.collect::<Vec<_>>(),
            "labels": labels.collect::<Vec<_>>(),
            "least_size": self.sizes.map(|s| s[0]),
            "largest_size": self.sizes.map(|s| s[1]),
            "unreadable_pictures": self.unreadable,
        })
    }
}

impl KeyStatistics {
    /// Number of values, as a shape.
    fn shape(&self) -> String {
        let [least, most] = self.values;
        match least == most {
            true => format!("[{least}]"),
            false => format!("[{least} to {most}]"),
        }
    }
}

/// The type of a feature, the number of its values, and the least and largest of them.
type Measured = (&'static str, usize, Option<[f64; 2]>);

fn measure(kind: &'static str, values: impl Iterator<Item = f64>) -> Measured {
    let (mut count, mut range) = (0, None);
    for value in values {
        count += 1;
        range = joined(range, Some([value, value]));
    }
    (kind, count, range)
}

/// The range that contains both.
fn joined(a: Option<[f64; 2]>, b: Option<[f64; 2]>) -> Option<[f64; 2]> {
    match (a, b) {
        (Some(a), Some(b)) => Some([a[0].min(b[0]), a[1].max(b[1])]),
        (a, b) => a.or(b),
    }
}

fn shown_range(kind: &str, range: [f64; 2]) -> String {
    let [least, most] = range.map(|x| match kind {
        "float" => format_number(x),
        _ => x.to_string(),
    });
    let unit = if kind == "bytes" { " bytes" } else { "" };
    match least == most {
        true => format!("{least}{unit}"),
        false => format!("{least} to {most}{unit}"),
    }
}
