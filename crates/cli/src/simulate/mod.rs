//! `thalweg simulate`: predicts training steps of a cluster.

mod calibration;
mod curve;
mod modes;
mod tables;
mod training_step;

use std::path::{Path, PathBuf};

use clap::Args;
use thalweg_simulate::{
    AllReduceOptions, Candidate, Cluster, Prediction, predict_all_reduce, server_counts,
    sweep_servers,
};

use crate::failure::Failure;
use crate::figure::svg_file;
use crate::output;
use crate::output_file::check_output_file;
use modes::{ModeChoice, ModePredictions};
use training_step::{StepArgs, TrainingStep};

/// Predict images/s of a training on a cluster: parameter servers or all-reduce, and the best number of servers
///
/// The graph of a worker is placed and cut as for a real training, and its kernels and messages are simulated for all workers. The
/// cluster file has the speeds of devices, hosts and links; the book's chapter "How many servers?" has an example.
#[derive(Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    step: StepArgs,
    /// Cluster file (TOML), or a system of the report: daint, p2.xlarge, p2.8xlarge
    #[arg(long, value_name = "FILE|NAME")]
    cluster: String,
    /// Number of workers or ranks
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    workers: u32,
    /// Number of parameter servers; `auto` tries several
    #[arg(long, default_value = "auto", value_name = "N|auto", value_parser = server_choice)]
    servers: ServerChoice,
    /// Numbers of servers to compare
    #[arg(long, value_name = "servers=FROM..TO", value_parser = sweep)]
    sweep: Option<(u32, u32)>,
    /// Exchange of gradients
    #[arg(long, value_name = "MODE", default_value = "all")]
    mode: ModeChoice,
    /// Staged values of parameter_server: workers compute with the values of the step before, and fetch the next ones meanwhile
    #[arg(long, conflicts_with = "calibrate")]
    staged: bool,
    /// Folder of a study of this network: calibrates the cluster on its points with few tasks, and compares all of them
    #[arg(long, value_name = "DIR", requires = "model")]
    calibrate: Option<PathBuf>,
    /// Number of tasks up to which points calibrate
    #[arg(long, value_name = "N", default_value_t = 2, requires = "calibrate")]
    calibrate_tasks: u32,
    /// Write the cluster with its calibrated speeds
    #[arg(long, value_name = "FILE.toml", requires = "calibrate")]
    write_cluster: Option<PathBuf>,
    /// Write a timeline of the fastest step with servers, for Perfetto
    #[arg(long, value_name = "FILE.json")]
    timeline: Option<PathBuf>,
    /// Draw images/s by the number of servers
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Number of servers.
#[derive(Clone, Copy)]
enum ServerChoice {
    Auto,
    Count(u32),
}

/// Largest number of servers.
const MAX_SERVERS: u32 = 10_000;

fn server_choice(text: &str) -> Result<ServerChoice, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(ServerChoice::Auto),
        (_, Ok(count)) if (1..=MAX_SERVERS).contains(&count) => Ok(ServerChoice::Count(count)),
        _ => Err(format!("give a number from 1 to {MAX_SERVERS}, or auto")),
    }
}

fn sweep(text: &str) -> Result<(u32, u32), String> {
    let range = || {
        let (from, to) = text.strip_prefix("servers=")?.split_once("..")?;
        let range = (from.parse().ok()?, to.parse().ok()?);
        (1 <= range.0 && range.0 <= range.1 && range.1 <= MAX_SERVERS).then_some(range)
    };
    range().ok_or_else(|| format!("give a range such as servers=1..128, up to {MAX_SERVERS}"))
}

impl SimulateArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.timeline.as_deref().map_or(Ok(()), check_output_file)?;
        self.plot.as_deref().map_or(Ok(()), svg_file::check)?;
        self.write_cluster
            .as_deref()
            .map_or(Ok(()), check_output_file)?;
        let cluster = match Cluster::named(&self.cluster) {
            Some(cluster) => cluster,
            None => Cluster::read(self.cluster.as_ref())?,
        };
        let step = self.step.load(&cluster)?;
        if let Some(folder) = &self.calibrate {
            return self.calibrate(folder, &step, &cluster);
        }
        if self.staged && !matches!(self.mode, ModeChoice::All | ModeChoice::ParameterServer) {
            return Err(
                "--staged is of --mode parameter_server: leave it out, or take that mode".into(),
            );
        }
        let modes = ModeChoice::EACH.into_iter();
        let chosen =
            modes.filter(|m| self.mode == ModeChoice::All && step.has_mode(*m) || self.mode == *m);
        let all = chosen.map(|mode| self.predict(mode, &step, &cluster));
        let all = all.collect::<Result<Vec<ModePredictions>, Failure>>()?;
        // Workers that only compute.
        let alone = step.template(ModeChoice::ParameterServer, 1, 1)?;
        let images = f64::from(self.workers * step.batch() * alone.devices);
        let ideal = images / alone.computing_seconds(&cluster.device);
        if let Some(path) = &self.timeline {
            self.write_timeline(path, &all)?;
        }
        if let Some(path) = &self.plot {
            curve::draw(path, &cluster.name, self.workers, &all)?;
        }
        output::text(&match self.json {
            true => format!("{:#}\n", tables::json(&all, ideal, self.workers)),
            false => tables::text(&all, ideal, self.workers, &cluster),
        })
    }

    fn calibrate(
        &self,
        folder: &Path,
        step: &TrainingStep,
        cluster: &Cluster,
    ) -> Result<(), Failure> {
        let tasks = self.calibrate_tasks;
        let (cluster, comparison) = calibration::calibrated(folder, step, cluster, tasks)?;
        let text = cluster.to_toml();
        if let Some(path) = &self.write_cluster {
            std::fs::write(path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        output::text(&format!("{comparison}{text}"))
    }

    fn counts(&self) -> Vec<u32> {
        match (self.sweep, self.servers) {
            (Some((from, to)), _) => {
                let known = server_counts(to).into_iter().filter(|c| *c >= from);
                known.collect()
            }
            (None, ServerChoice::Auto) => server_counts(self.workers),
            (None, ServerChoice::Count(count)) => vec![count],
        }
    }

    fn predict(
        &self,
        mode: ModeChoice,
        step: &TrainingStep,
        cluster: &Cluster,
    ) -> Result<ModePredictions, Failure> {
        let workers = self.workers;
        let staged = self.staged && mode == ModeChoice::ParameterServer;
        let candidates = match mode {
            ModeChoice::AllReduce => {
                let template = step.template(ModeChoice::ParameterServer, 1, workers)?;
                let options = AllReduceOptions::default();
                let prediction =
                    predict_all_reduce(&template, cluster, workers, step.batch(), &options);
                vec![Candidate {
                    servers: 0,
                    prediction,
                }]
            }
            _ => {
                let template = |servers| {
                    let template = step.template(mode, servers, workers)?;
                    Ok(if staged { template.staged() } else { template })
                };
                sweep_servers(template, cluster, workers, step.batch(), &self.counts())?
            }
        };
        Ok(ModePredictions {
            mode,
            staged,
            candidates,
        })
    }

    fn write_timeline(&self, path: &PathBuf, all: &[ModePredictions]) -> Result<(), Failure> {
        let best = all.iter().filter_map(ModePredictions::best);
        let speed = |p: &&Prediction| p.images_per_second;
        let traced = best.map(|c| &c.prediction).filter(|p| p.has_timeline());
        let fastest = traced.max_by(|a, b| speed(a).total_cmp(&speed(b)));
        let trace = fastest.and_then(Prediction::trace);
        let trace = trace.ok_or("an all-reduce has no timeline: choose a mode with servers")?;
        std::fs::write(path, trace.to_string())
            .map_err(|e| format!("{}: {e}", path.display()).into())
    }
}
