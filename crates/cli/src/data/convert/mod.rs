//! `thalweg data convert`: pictures and tables to TFRecord files and LMDB.

mod arguments;
mod interrupt;
mod picture;
mod plan;
mod source;
mod staging;
mod table;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::json;
use thalweg_data::pipeline::from_vec;
use thalweg_tensor::text::counted;

pub(super) use self::arguments::Convert;
use self::plan::{Plan, RecordSet};
use self::source::{Made, Source};
use self::staging::Staging;
use self::writer::Writer;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::table::table;

/// Result of a conversion.
pub(super) struct Converted {
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
        let converted = self.convert_quietly()?;
        let text = match self.json {
            true => format!("{:#}\n", converted.json()),
            false => converted.text(),
        };
        output::text(&text)
    }

    /// Converts, and prints nothing.
    ///
    /// # Errors
    /// As [`Convert::run`].
    pub(super) fn convert_quietly(&self) -> Result<Converted, Failure> {
        if !(1..=100).contains(&self.quality) {
            return Err(format!("--quality {}: give 1 to 100", self.quality).into());
        }
        if self.resize == Some(0) {
            return Err("--resize 0: give a number of pixels".into());
        }
        let source = self.open()?;
        let plan = Plan::new(self, source.len())?;
        plan.check(source.classes())?;
        self.convert(source, &plan)
    }

    fn convert(&self, source: Source, plan: &Plan) -> Result<Converted, Failure> {
        let classes = source.classes().to_vec();
        let numbers = (0..source.len()).collect();
        let order = from_vec(numbers).shuffle(source.len(), self.seed);
        let (source, options) = (Arc::new(source), self.options());
        let mut made = order.map_parallel(self.threads()?, move |n| source.make(n, &options));
        let progress = Progress::new("record", plan.examples() as u64, self.json);
        let stop = interrupt::stop_flag()?;
        let staging = Staging::create(&plan.folder, &self.name)?;
        let (mut sets, mut skipped, mut done) = (Vec::new(), Vec::new(), 0);
        for set in &plan.sets {
            let mut written = Written::new(set);
            for (file, examples) in set.shards() {
                let mut writer = Writer::create(&staging.path(file), self)?;
                for _ in examples {
                    if stop.load(Relaxed) {
                        return Err("stopped by a signal: nothing is written".into());
                    }
                    match made.next().ok_or("the source has ended too early")?? {
                        Made::Record { name, record } => {
                            writer.add(&name, &record)?;
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
