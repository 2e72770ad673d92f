//! `thalweg weights`: prints, converts and compares files of weights.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use thalweg_checkpoint::save_weights;
use thalweg_tensor::Tensor;
use thalweg_tensor::text::counted;

use crate::failure::Failure;
use crate::output;
use crate::output_file::check_output_file;
use crate::progress::Progress;
use crate::statistics::{each_pair, format_number};
use crate::table::table;
use crate::weight_files::open_weights;

/// Show, convert and compare weights: checkpoints, .safetensors and .npz files
#[derive(Args)]
pub(crate) struct WeightsArgs {
    #[command(subcommand)]
    command: WeightsCommand,
}

#[derive(Subcommand)]
enum WeightsCommand {
    /// Print the names, dtypes and shapes in a file, without reading its tensors
    Show {
        /// A checkpoint's prefix, a folder with checkpoints, a .safetensors or a .npz file
        file: PathBuf,
        /// Print all of it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the tensors of a file in the format of another one's extension
    ///
    /// A partitioned variable becomes one tensor. NumPy has no bf16: such tensors become f32 in a .npz file.
    Convert {
        /// The file to read
        from: PathBuf,
        /// The file to write: .safetensors, .npz, or else a checkpoint of this prefix
        to: PathBuf,
    },
    /// Compare the tensors of two files; the exit status is 1 if they differ
    Diff {
        /// The first file
        a: PathBuf,
        /// The second file
        b: PathBuf,
        /// Maximum difference of two elements that counts as equal
        #[arg(long, default_value_t = 0.0, value_name = "NUMBER")]
        tolerance: f64,
        /// Print all of it as JSON
        #[arg(long)]
        json: bool,
    },
}

impl WeightsArgs {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        match &self.command {
            WeightsCommand::Show { file, json } => show(file, *json),
            WeightsCommand::Convert { from, to } => convert(from, to),
            WeightsCommand::Diff {
                a,
                b,
                tolerance,
                json,
            } => diff(a, b, *tolerance, *json),
        }
    }
}

fn show(file: &Path, as_json: bool) -> Result<ExitCode, Failure> {
    let weights = open_weights(file)?;
    let infos = weights.names().into_iter().filter_map(|n| weights.info(n));
    let infos: Vec<_> = infos.collect();
    let from = weights.path().display();
    if as_json {
        let tensors: Vec<_> = infos
            .iter()
            .map(|i| json!({"name": i.name, "dtype": i.dtype_name, "shape": i.dims, "bytes": i.bytes}))
            .collect();
        let report = json!({"file": from.to_string(), "tensors": tensors});
        output::text(&format!("{report:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let bytes = infos.iter().map(|i| i.bytes).fold(0, u64::saturating_add);
    let mut text = format!(
        "{from}: {}, {}\n\n",
        counted(infos.len(), "tensor"),
        counted(bytes, "byte")
    );
    if !infos.is_empty() {
        let rows = infos.into_iter().map(|i| {
            let shape = format!("{:?}", i.dims);
            vec![i.name, i.dtype_name, shape, i.bytes.to_string()]
        });
        text += &table(&["tensor", "dtype", "shape", "bytes"], rows.collect(), &[3]);
    }
    output::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn convert(from: &Path, to: &Path) -> Result<ExitCode, Failure> {
    // The folder of a checkpoint is made.
    let extension = to.extension().unwrap_or_default();
    if ["npz", "safetensors"]
        .iter()
        .any(|e| extension.eq_ignore_ascii_case(e))
    {
        check_output_file(to)?;
    }
    let weights = open_weights(from)?;
    let names = weights.names();
    let progress = Progress::new("tensor", names.len() as u64, false);
    let mut all = Vec::new();
    for (done, name) in (1u64..).zip(&names) {
        all.push(((*name).to_owned(), weights.tensor(name)?));
        progress.at(done);
    }
    let count = all.len();
    save_weights(to, all)?;
    drop(progress);
    output::text(&format!(
        "{}; written: {}\n",
        counted(count, "tensor"),
        to.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Difference between the tensors of two files with one name.
enum Difference {
    /// Only one file has it: `a` or `b`.
    Only(&'static str),
    /// Other dtypes or shapes, as text.
    Kind(String),
    /// Largest difference of two elements, and the number of elements that differ; infinite if one is NaN or infinite and the
    /// other is not equal.
    Values(f64, u64),
}

fn compare(a: &Tensor, b: &Tensor, tolerance: f64) -> Option<Difference> {
    if a.dtype() != b.dtype() || a.dims() != b.dims() {
        let kind = |t: &Tensor| format!("{}{}", t.dtype(), t.shape());
        return Some(Difference::Kind(format!("{} and {}", kind(a), kind(b))));
    }
    if let (Ok(a), Ok(b)) = (a.as_strings(), b.as_strings()) {
        let others = a.iter().zip(b).filter(|(a, b)| a != b).count();
        return (others > 0).then_some(Difference::Values(f64::INFINITY, others as u64));
    }
    let (mut largest, mut count) = (0.0f64, 0);
    each_pair(a, b, |a, b, same| {
        if same {
            return;
        }
        let off = (a - b).abs();
        let off = if off.is_nan() { f64::INFINITY } else { off };
        if off > tolerance || off == 0.0 && tolerance == 0.0 {
            count += 1;
            largest = largest.max(off);
        }
    });
    (count > 0).then_some(Difference::Values(largest, count))
}

fn diff(a: &Path, b: &Path, tolerance: f64, as_json: bool) -> Result<ExitCode, Failure> {
    if tolerance.is_nan() || tolerance < 0.0 {
        return Err(format!("--tolerance {tolerance}: give a number from 0 on").into());
    }
    let (a, b) = (open_weights(a)?, open_weights(b)?);
    let (of_a, of_b) = (a.names(), b.names());
    let names: BTreeSet<&str> = of_a.iter().chain(&of_b).copied().collect();
    let progress = Progress::new("tensor", names.len() as u64, as_json);
    let mut found = Vec::new();
    for (done, name) in (1u64..).zip(&names) {
        let difference = match (a.info(name), b.info(name)) {
            (Some(_), Some(_)) => compare(&a.tensor(name)?, &b.tensor(name)?, tolerance),
            (None, _) => Some(Difference::Only("b")),
            (_, None) => Some(Difference::Only("a")),
        };
        found.extend(difference.map(|d| (*name, d)));
        progress.at(done);
    }
    drop(progress);
    let same = names.len() - found.len();
    if as_json {
        let differences: Vec<_> = found
            .iter()
            .map(|(name, d)| match d {
                Difference::Only(file) => json!({"name": name, "only_in": file}),
                Difference::Kind(text) => json!({"name": name, "kinds": text}),
                Difference::Values(largest, count) => {
                    // JSON has no infinity.
                    let largest = largest.is_finite().then_some(largest);
                    json!({"name": name, "max_abs_difference": largest, "elements": count})
                }
            })
            .collect();
        let report = json!({
            "a": a.path().display().to_string(),
            "b": b.path().display().to_string(),
            "same": same,
            "differences": differences,
        });
        output::text(&format!("{report:#}\n"))?;
    } else {
        let rows: Vec<Vec<String>> = found
            .iter()
            .map(|(name, d)| match d {
                Difference::Only(file) => vec![(*name).to_owned(), format!("only in {file}")],
                Difference::Kind(text) => vec![(*name).to_owned(), text.clone()],
                Difference::Values(largest, count) => {
                    let of = counted(*count, "element");
                    let largest = match largest.is_finite() {
                        true => format!("{} at most, in {of}", format_number(*largest)),
                        false => format!("not comparable, in {of}"),
                    };
                    vec![(*name).to_owned(), largest]
                }
            })
            .collect();
        let (shown_a, shown_b) = (a.path().display(), b.path().display());
        let mut text = format!("a: {shown_a}\nb: {shown_b}\n");
        text += &match rows.is_empty() {
            true => format!("the same: {}\n", counted(same, "tensor")),
            false => format!(
                "different: {}; the same: {}\n\n{}",
                counted(rows.len(), "tensor"),
                counted(same, "tensor"),
                table(&["tensor", "difference"], rows, &[])
            ),
        };
        output::text(&text)?;
    }
    Ok(match found.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
