//! `thalweg stats kmeans`: K-means.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use thalweg_data::{NpyFile, write_npy};
use thalweg_hvd::{Hvd, elastic};
use thalweg_stats::{KMeans, KMeansModel, KMeansProgress, Start};
use thalweg_tensor::Tensor;

use super::curve;
use super::data::DataArgs;
use super::fit_run::FitRun;
use crate::failure::Failure;
use crate::figure::svg_file;
use crate::output;
use crate::output_file::check_output_file;
use crate::progress::Progress;

/// Centroids that the text shows, and their columns.
const SHOWN: usize = 10;

/// Start of K-means.
#[derive(Clone, Copy, ValueEnum)]
enum Init {
    /// k-means++: a pass for each centroid
    #[value(name = "plusplus")]
    PlusPlus,
    /// k-means||: a few passes for all
    #[value(name = "parallel")]
    Parallel,
}

/// K-means
#[derive(Args)]
pub(super) struct Kmeans {
    #[command(flatten)]
    data: DataArgs,
    /// Number of clusters
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    clusters: u32,
    /// Limit of iterations
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Moves of the centroids at which iterations end, as a share of the variance
    #[arg(long, value_name = "T", default_value_t = 1e-4)]
    tolerance: f64,
    /// Centroids to begin with
    #[arg(long, value_name = "START", default_value = "plusplus")]
    init: Init,
    /// Begin with the centroids of this file
    #[arg(long, value_name = "FILE.npy", conflicts_with = "init")]
    start: Option<PathBuf>,
    /// Number of starts; the fit with the least inertia is taken
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Draw the inertia by iteration
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Write the centroids
    #[arg(long, value_name = "FILE.npy")]
    save: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Kmeans {
    pub(super) fn run(&self) -> Result<(), Failure> {
        self.save.as_deref().map_or(Ok(()), check_output_file)?;
        self.plot.as_deref().map_or(Ok(()), svg_file::check)?;
        let start = match (&self.start, self.init) {
            (Some(path), _) => Start::Given(NpyFile::open(path)?.tensor()?),
            (None, Init::PlusPlus) => Start::PlusPlus,
            (None, Init::Parallel) => Start::Parallel {
                rounds: 5,
                oversampling: 2.0,
            },
        };
        // An elastic job has several rounds.
        let mut progress = KMeansProgress::default();
        elastic::run(|job| self.round(job.hvd(), &start, &mut progress))
    }

    /// Fits, and prints the result on rank 0.
    fn round(
        &self,
        hvd: &Hvd,
        start: &Start,
        progress: &mut KMeansProgress,
    ) -> Result<(), Failure> {
        let rows = self.data.rows(hvd, 0, self.clusters as usize)?;
        let limit = u64::from(self.iterations);
        let shown = Arc::new(Progress::new("iteration", limit, hvd.rank() != 0));
        let bar = shown.clone();
        let kmeans = KMeans::new(self.clusters as usize)
            .start(start.clone())
            .starts(self.starts as usize)
            .seed(self.data.seed)
            .max_iterations(self.iterations as usize)
            .tolerance(self.tolerance)
            .on_iteration(move |iteration| bar.at(iteration.number as u64));
        let begun = Instant::now();
        let model = match self.starts {
            1 => kmeans.fit_resumed(hvd, &*rows.blocks, progress)?,
            _ => kmeans.fit(hvd, &*rows.blocks)?,
        };
        let run = FitRun {
            seconds: begun.elapsed().as_secs_f64(),
            ranks: hvd.size(),
            streamed: rows.streamed,
        };
        drop((kmeans, shown));
        if hvd.rank() != 0 {
            return Ok(());
        }
        if let Some(path) = &self.save {
            write_npy(path, &model.centroids)?;
        }
        if let Some(path) = &self.plot {
            curve::draw(path, &model.history)?;
        }
        output::text(&match self.json {
            true => format!("{:#}\n", json_of(&model, &run)),
            false => text_of(&model, &run),
        })
    }
}

/// The centroids as rows of `f64`.
fn centroids(model: &KMeansModel) -> Vec<Vec<f64>> {
    let columns = model.centroids.dims().get(1).copied().unwrap_or(0).max(1);
    let all = numbers(&model.centroids);
    all.chunks(columns).map(<[f64]>::to_vec).collect()
}

/// Elements of `f32` or `f64`.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.as_slice::<f32>() {
        Ok(narrow) => narrow.iter().map(|x| f64::from(*x)).collect(),
        Err(_) => tensor.to_vec().unwrap_or_default(),
    }
}

fn json_of(model: &KMeansModel, run: &FitRun) -> Value {
    json!({
        "centroids": centroids(model),
        "inertia": model.inertia,
        "iterations": model.iterations,
        "converged": model.converged,
        "history": model.history,
        "ranks": run.ranks,
        "seconds": run.seconds,
        "streamed": run.streamed,
    })
}

fn text_of(model: &KMeansModel, run: &FitRun) -> String {
    let all = centroids(model);
    let end = match model.converged {
        true => "converged",
        false => "ended at the limit of iterations",
    };
    let mut text = format!(
        "{} clusters on {run}: {end} after {} iterations, inertia {:.6e}\n",
        all.len(),
        model.iterations,
        model.inertia
    );
    for (number, centroid) in all.iter().take(SHOWN).enumerate() {
        let shown: Vec<String> = centroid
            .iter()
            .take(SHOWN)
            .map(|x| format!("{x:.4}"))
            .collect();
        let more = if centroid.len() > SHOWN { " ..." } else { "" };
        text.push_str(&format!("{number:4}  {}{more}\n", shown.join(" ")));
    }
    if all.len() > SHOWN {
        text.push_str(&format!(
            "... {} more: --json or --save has all\n",
            all.len() - SHOWN
        ));
    }
    text
}
