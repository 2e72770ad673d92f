//! Plan of a conversion: the sets of files, and the examples of each file.

use std::ops::Range;
use std::path::{Path, PathBuf};

use thalweg_checkpoint::disk;

use super::arguments::{Convert, Packing, RecordFormat};
use crate::failure::Failure;

/// Name of the file of class names.
const LABELS: &str = "labels.txt";

/// Name of the set of validation.
const VALIDATION: &str = "validation";

const DEFAULT_SHARDS: usize = 4;

/// Largest number of files of a set: their numbers have five digits.
const MAX_SHARDS: usize = 99_999;

/// The sets of files of a conversion.
pub(super) struct Plan {
    pub(super) folder: PathBuf,
    pub(super) sets: Vec<RecordSet>,
}

/// Files of a set: that of training, or of validation.
pub(super) struct RecordSet {
    pub(super) name: String,
    pub(super) files: Vec<PathBuf>,
    /// Number of examples.
    examples: usize,
}

impl RecordSet {
    fn new(folder: &Path, name: &str, shards: usize, examples: usize) -> RecordSet {
        let files = (0..shards).map(|n| folder.join(format!("{name}-{n:05}-of-{shards:05}")));
        RecordSet {
            name: name.to_owned(),
            files: files.collect(),
            examples,
        }
    }

    /// Each file, and the numbers of its examples in the set.
    pub(super) fn shards(&self) -> impl Iterator<Item = (&Path, Range<usize>)> {
        let shards = self.files.len();
        let start = move |n| (self.examples as u128 * n as u128 / shards as u128) as usize;
        let files = self.files.iter().enumerate();
        files.map(move |(n, file)| (file.as_path(), start(n)..start(n + 1)))
    }
}

impl Plan {
    pub(super) fn new(convert: &Convert, examples: usize) -> Result<Plan, Failure> {
        if examples == 0 {
            return Err("the source has no examples".into());
        }
        let name = &convert.name;
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(format!("--name {name}: give the start of a file's name").into());
        }
        if convert.format == RecordFormat::Lmdb {
            return Plan::of_lmdb(convert, examples);
        }
        let shards = convert.shards.unwrap_or(DEFAULT_SHARDS);
        if !(1..=MAX_SHARDS).contains(&shards) {
            return Err(format!("--shards {shards}: give 1 to {MAX_SHARDS}").into());
        }
        let extension = convert.to.extension().and_then(|e| e.to_str());
        if matches!(extension, Some("tfrecord" | "tfrecords")) {
            return Plan::of_one_file(convert, examples);
        }
        let folder = convert.to.clone();
        let count = validation_examples(convert, examples)?;
        let mut sets = vec![RecordSet::new(&folder, name, shards, examples - count)];
        if let Some(share) = convert.validation {
            let files = ((shards as f64 * share).round() as usize).clamp(1, count);
            sets.push(RecordSet::new(&folder, VALIDATION, files, count));
        }
        for set in &sets {
            if set.files.len() > set.examples {
                return Err(format!(
                    "{shards} files of `{}`: it has {} examples, so give at most --shards {}",
                    set.name, set.examples, set.examples
                )
                .into());
            }
        }
        Ok(Plan { folder, sets })
    }

    /// A folder for each set.
    fn of_lmdb(convert: &Convert, examples: usize) -> Result<Plan, Failure> {
        if convert.shards.is_some() || convert.compression != Packing::None {
            return Err("--format lmdb: leave out --shards and --compression".into());
        }
        let count = validation_examples(convert, examples)?;
        let set = |name: &str, examples| RecordSet {
            name: name.to_owned(),
            files: vec![convert.to.join(format!("{name}.lmdb"))],
            examples,
        };
        let mut sets = vec![set(&convert.name, examples - count)];
        if count > 0 {
            sets.push(set(VALIDATION, count));
        }
        Ok(Plan {
            folder: convert.to.clone(),
            sets,
        })
    }

    fn of_one_file(convert: &Convert, examples: usize) -> Result<Plan, Failure> {
        if convert.validation.is_some() || convert.shards.is_some_and(|n| n > 1) {
            return Err(
                "--validation and --shards make several files: give a folder after --to".into(),
            );
        }
        let folder = convert.to.parent().map(Path::to_owned).unwrap_or_default();
        let set = RecordSet {
            name: convert.name.clone(),
            files: vec![convert.to.clone()],
            examples,
        };
        Ok(Plan {
            folder,
            sets: vec![set],
        })
    }

    /// Number of examples of all sets.
    pub(super) fn examples(&self) -> usize {
        self.sets.iter().map(|s| s.examples).sum()
    }

    /// Checks before the work that no files of these sets are there, and that labels.txt lists these classes or is not
    /// there.
    ///
    /// # Errors
    /// There are such files.
    pub(super) fn check(&self, classes: &[String]) -> Result<(), Failure> {
        for set in &self.sets {
            if let Some(file) = self.existing(set)? {
                return Err(format!(
                    "{} is there already: remove the files of the set `{}`, or give another folder or --name",
                    file.display(),
                    set.name
                )
                .into());
            }
        }
        let labels = self.folder.join(LABELS);
        match std::fs::read(&labels) {
            Ok(found) if !classes.is_empty() && found != lines(classes).into_bytes() => {
                Err(format!(
                    "{} lists other classes: give another folder, so that labels keep their meaning",
                    labels.display()
                )
                .into())
            }
            _ => Ok(()),
        }
    }

    /// A file of a set that is there. One of another number of files counts too: readers take all by a pattern.
    fn existing(&self, set: &RecordSet) -> Result<Option<PathBuf>, Failure> {
        if let Some(file) = set.files.iter().find(|f| f.exists()) {
            return Ok(Some(file.clone()));
        }
        let start = format!("{}-", set.name);
        let sharded = |file: &Path| {
            let name = file.file_name().and_then(|n| n.to_str());
            let rest = name.and_then(|n| n.strip_prefix(&start));
            rest.and_then(|r| r.split_once("-of-"))
                .is_some_and(|(n, of)| n.parse::<u32>().is_ok() && of.parse::<u32>().is_ok())
        };
        if !self.folder.is_dir() || set.files.iter().all(|f| !sharded(f)) {
            return Ok(None);
        }
        let wrong = |e| format!("{}: {e}", self.folder.display());
        for entry in std::fs::read_dir(&self.folder).map_err(wrong)? {
            let path = entry.map_err(wrong)?.path();
            if sharded(&path) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Writes the file of class names.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write_labels(&self, classes: &[String]) -> Result<(), Failure> {
        if !classes.is_empty() {
            let path = self.folder.join(LABELS);
            disk::write(&disk::system(), &path, lines(classes).as_bytes())?;
        }
        Ok(())
    }
}

/// Number of examples for validation.
fn validation_examples(convert: &Convert, examples: usize) -> Result<usize, Failure> {
    let Some(share) = convert.validation else {
        return Ok(0);
    };
    if convert.name == VALIDATION {
        return Err("--name validation is the name of the files of --validation".into());
    }
    let count = (examples as f64 * share).round();
    if !(share > 0.0 && share < 1.0 && count >= 1.0 && count < examples as f64) {
        return Err(format!(
            "--validation {share}: give a share between 0 and 1 that leaves examples of {examples} for both sets"
        )
        .into());
    }
    Ok(count as usize)
}

fn lines(classes: &[String]) -> String {
    classes.iter().map(|class| format!("{class}\n")).collect()
}
