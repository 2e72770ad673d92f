//! `thalweg data study`: the cost of reading, by format, from memory and from disk.

mod input;
mod page_cache;
mod plot;
mod program;
mod report;

use std::path::{Path, PathBuf};

use clap::{Args, FromArgMatches};

use self::input::Input;
use self::page_cache::CacheState;
use self::program::measure;
use self::report::Report;
use super::convert::Convert;
use crate::failure::Failure;
use crate::figure::svg_file;
use crate::output;
use crate::progress::Progress;

/// Measure what a training pays for its input: synthetic images against TFRecord files, LMDB and single files
///
/// PROGRAM is cnn_benchmarks, or another one that takes --data_dir, has images of its own without it, and prints a line
/// "total images/sec: N". Each round runs it once for each kind of input, so that all kinds meet the same load of the
/// machine. Overhead is 1 - images/s / images/s of synthetic images, of the same round.
///
/// The records are made in the folder of --to, and kept there: a second study takes them as they are.
#[derive(Args)]
pub(crate) struct Study {
    /// A folder of pictures for each class
    pictures: PathBuf,
    /// Folder for the records, in tfrecord and lmdb
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Run each kind of input a second time with files that are not in the system's memory (Linux)
    #[arg(long)]
    cold: bool,
    /// Draw the figure to this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// The program and its arguments. A name without a folder is that of a program beside this one, or on the PATH
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<String>,
}

impl Study {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if let Some(path) = &self.plot {
            svg_file::check(path)?;
        }
        let mut inputs = self.inputs()?;
        let runs = inputs.len() * usize::from(self.rounds);
        let progress = Progress::new("run", runs as u64, self.json);
        let mut done = 0;
        for _ in 0..self.rounds {
            for input in &mut inputs {
                if let Some(folder) = &input.folder {
                    input.state.prepare(folder)?;
                }
                let folder = input.folder.as_deref();
                input.measurements.push(measure(&self.command, folder)?);
                done += 1;
                progress.at(done);
            }
        }
        drop(progress);
        let report = Report::new(&self.command, inputs);
        if let Some(path) = &self.plot {
            plot::draw(path, &report)?;
        }
        output::text(&match self.json {
            true => format!("{:#}\n", report.json()),
            false => report.text(),
        })
    }

    /// The kinds of input; synthetic images come first.
    fn inputs(&self) -> Result<Vec<Input>, Failure> {
        let input = |name, folder: Option<&Path>, state| Input {
            name,
            folder: folder.map(Path::to_owned),
            state,
            measurements: Vec::new(),
        };
        let records = self.converted("tfrecord", "train-00000-of-00004")?;
        let database = self.converted("lmdb", "train.lmdb")?;
        let mut inputs = vec![input("synthetic", None, CacheState::Warm)];
        for (name, folder) in [
            ("TFRecord", records.as_path()),
            ("LMDB", &database),
            ("single files", &self.pictures),
        ] {
            inputs.push(input(name, Some(folder), CacheState::Warm));
            if self.cold {
                inputs.push(input(name, Some(folder), CacheState::Cold));
            }
        }
        Ok(inputs)
    }

    /// The folder of the records in a format, which are made if `first`, the first file, is not there.
    fn converted(&self, format: &str, first: &str) -> Result<PathBuf, Failure> {
        let folder = self.to.join(format);
        if folder.join(first).exists() {
            return Ok(folder);
        }
        let flags = Convert::augment_args(clap::Command::new("convert")).try_get_matches_from([
            "convert".as_ref(),
            self.pictures.as_os_str(),
            "--to".as_ref(),
            folder.as_os_str(),
            "--format".as_ref(),
            format.as_ref(),
        ]);
        Convert::from_arg_matches(&flags?)?.convert_quietly()?;
        Ok(folder)
    }
}
