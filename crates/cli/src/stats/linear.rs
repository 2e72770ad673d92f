//! `thalweg stats linear`: linear regression.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use thalweg_data::write_npy;
use thalweg_hvd::{Hvd, elastic};
use thalweg_stats::{LinearModel, LinearRegression, Solver};
use thalweg_tensor::Tensor;

use super::data::DataArgs;
use super::fit_run::FitRun;
use crate::failure::Failure;
use crate::output;
use crate::output_file::check_output_file;
use crate::table::table;

/// Coefficients that the text shows.
const SHOWN: usize = 20;

/// Solver of a regression.
#[derive(Clone, Copy, ValueEnum)]
enum SolverChoice {
    /// Normal equations, and QR where their condition asks for it
    Auto,
    /// Normal equations
    Normal,
    /// QR decomposition
    Qr,
}

/// Linear regression by least squares
#[derive(Args)]
pub(super) struct Linear {
    #[command(flatten)]
    data: DataArgs,
    /// Number of targets: the last columns of a row
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    targets: u32,
    /// Fit without an intercept
    #[arg(long)]
    no_intercept: bool,
    /// Penalty on the squares of the coefficients
    #[arg(long, value_name = "A", default_value_t = 0.0)]
    ridge: f64,
    /// Way to solve it
    #[arg(long, value_name = "SOLVER", default_value = "auto")]
    solver: SolverChoice,
    /// Write the coefficients, with the intercept as the first column
    #[arg(long, value_name = "FILE.npy")]
    save: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Linear {
    pub(super) fn run(&self) -> Result<(), Failure> {
        self.save.as_deref().map_or(Ok(()), check_output_file)?;
        // An elastic job has several rounds, each with a fit of its own.
        elastic::run(|job| self.round(job.hvd()))
    }

    /// Fits, and prints the result on rank 0.
    fn round(&self, hvd: &Hvd) -> Result<(), Failure> {
        let rows = self.data.rows(hvd, self.targets as usize, 0)?;
        let solver = match self.solver {
            SolverChoice::Auto => Solver::Auto,
            SolverChoice::Normal => Solver::NormalEquations,
            SolverChoice::Qr => Solver::Qr,
        };
        let regression = LinearRegression::new()
            .intercept(!self.no_intercept)
            .ridge(self.ridge)
            .solver(solver);
        let start = Instant::now();
        let model = regression.fit(hvd, &*rows.blocks)?;
        let run = FitRun {
            seconds: start.elapsed().as_secs_f64(),
            ranks: hvd.size(),
            streamed: rows.streamed,
        };
        if hvd.rank() != 0 {
            return Ok(());
        }
        if let Some(path) = &self.save {
            write_npy(path, &coefficients(&model)?)?;
        }
        output::text(&match self.json {
            true => format!("{:#}\n", json_of(&model, &run)),
            false => text_of(&model, &run),
        })
    }
}

/// Intercept and coefficients of each target, `[k, 1 + p]`.
fn coefficients(model: &LinearModel) -> Result<Tensor, Failure> {
    let rows = model
        .coefficients
        .chunks(model.features.max(1))
        .zip(&model.intercepts);
    let all: Vec<f64> = rows
        .flat_map(|(row, b)| [*b].into_iter().chain(row.iter().copied()))
        .collect();
    Ok(Tensor::new(&[model.targets, 1 + model.features], &all)?)
}

fn solver_name(solver: Solver) -> &'static str {
    match solver {
        Solver::Qr => "QR",
        _ => "normal equations",
    }
}

fn json_of(model: &LinearModel, run: &FitRun) -> Value {
    let rows: Vec<&[f64]> = model.coefficients.chunks(model.features.max(1)).collect();
    json!({
        "intercepts": model.intercepts,
        "coefficients": rows,
        "r2": model.report.r2,
        "solver": solver_name(model.report.solver),
        "reason": model.report.reason,
        "condition": model.report.condition,
        "rank": model.report.rank,
        "ranks": run.ranks,
        "seconds": run.seconds,
        "streamed": run.streamed,
    })
}

fn text_of(model: &LinearModel, run: &FitRun) -> String {
    let report = &model.report;
    let mut text = format!(
        "{} features, {} targets, on {run}: {}, because {}\ncondition {:.3e}{}\n",
        model.features,
        model.targets,
        solver_name(report.solver),
        report.reason,
        report.condition,
        report.rank.map_or(String::new(), |rank| format!(
            ", {rank} independent columns"
        ))
    );
    let mut rows = Vec::new();
    for target in 0..model.targets.min(SHOWN) {
        let first = &model.coefficients[target * model.features..][..model.features.min(SHOWN)];
        let mut shown: Vec<String> = first.iter().map(|c| format!("{c:.6}")).collect();
        if model.features > SHOWN {
            shown.push(format!("... {} more", model.features - SHOWN));
        }
        rows.push(vec![
            target.to_string(),
            format!("{:.6}", report.r2[target]),
            format!("{:.6}", model.intercepts[target]),
            shown.join(" "),
        ]);
    }
    text.push_str(&table(
        &["target", "R2", "intercept", "coefficients"],
        rows,
        &[0, 1, 2],
    ));
    if model.targets > SHOWN {
        text.push_str(&format!(
            "... {} more targets: --json has all\n",
            model.targets - SHOWN
        ));
    }
    text
}
