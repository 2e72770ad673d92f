//! `thalweg study`: scaling studies.

mod files;
mod machine;
mod page;
mod predictions;
mod replay;
mod results;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_study::{Data, Grid, Point, RunFile, RunRecord, Scaling, StudyProgram};

use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use machine::{Link, Machine};
use predictions::Prediction;
use results::Results;

/// Time after which the measurement of the link between tasks has failed.
const LINK_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a program over a grid of tasks, parameter servers, batches and modes, and prints speeds and efficiencies.
///
/// PROGRAM is cnn_benchmarks, or another one that takes --variable_update, --batch_size, --num_warmup_batches, --num_batches and
/// --json, and prints total_images_per_sec or the line "total images/sec: N". One process alone is run too: the others are compared to it. Each round
/// runs every point once, so that all points meet the same load of the machine.
///
/// The folder gets a record of each run (runs.jsonl), the output of each run (logs), the tables (results.csv, results.json), and a
/// page with tables and pictures (page.html), which needs no network. A study that was interrupted goes on where it was, with the
/// same command. A run that fails is kept with its reason.
#[derive(Args)]
pub(crate) struct StudyArgs {
    /// Numbers of workers or ranks
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4], value_name = "N,...")]
    tasks: Vec<u32>,
    /// Numbers of parameter servers, of which each point takes those up to its number of workers. Without it: 1, 2, 4, ... and the
    /// number of workers
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    servers: Vec<u32>,
    /// Ways to update variables, as of --variable_update: parameter_server, distributed_replicated, horovod
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "parameter_server",
        value_name = "MODE,..."
    )]
    modes: Vec<String>,
    /// Images of a step: of each task, or of all with --scaling strong
    #[arg(long, value_delimiter = ',', default_values_t = [64], value_name = "N,...")]
    batch_sizes: Vec<u32>,
    /// Meaning of the batch when tasks are added
    #[arg(long, value_name = "KIND", default_value = "weak")]
    scaling: ScalingKind,
    /// Folder with images in files: each point is run with them too
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Have each run trace a step of its warm-up, with --trace_file: the page then shows where a step's time goes
    #[arg(long)]
    traces: bool,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Steps that are not measured
    #[arg(long, default_value_t = 10, value_name = "N")]
    warmup: u32,
    /// Steps that are measured
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Front of `thalweg launch` and its flags, separated by blanks
    #[arg(long, default_value = "local --free-ports", value_name = "FRONT FLAGS")]
    launch: String,
    /// Seconds after which a run has failed
    #[arg(long, default_value_t = 3600, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Folder of the study
    #[arg(long, value_name = "DIR", required_unless_present = "replay")]
    to: Option<PathBuf>,
    /// Predicted speeds, which are shown beside the measured ones: a table with the columns mode, data, batch, servers, tasks and
    /// images_per_second, and system with --replay report
    #[arg(long, value_name = "FILE.csv")]
    predictions: Option<PathBuf>,
    /// Write the tables and the page of an earlier study's folder anew, and run nothing. `report`: of the report on distributed
    /// TensorFlow of 2017, from its tables
    #[arg(long, value_name = "DIR|report", conflicts_with = "command")]
    replay: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// The program and its arguments. A name without a folder is that of a program beside this one, or on the PATH
    #[arg(
        required_unless_present = "replay",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<String>,
}

/// Meaning of a batch.
#[derive(Clone, Copy, ValueEnum)]
enum ScalingKind {
    /// Each task keeps the batch
    Weak,
    /// All tasks share the batch
    Strong,
}

impl From<ScalingKind> for Scaling {
    fn from(kind: ScalingKind) -> Scaling {
        match kind {
            ScalingKind::Weak => Scaling::Weak,
            ScalingKind::Strong => Scaling::Strong,
        }
    }
}

impl StudyArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let predictions = match &self.predictions {
            Some(path) => predictions::read(path)?,
            None => Vec::new(),
        };
        let results = match &self.replay {
            Some(replay) => {
                let (mut results, to) = replay::results(replay, self.to.as_deref())?;
                fs::create_dir_all(&to).map_err(|e| format!("{}: {e}", to.display()))?;
                results.predict(&predictions);
                files::write(&results, &to)?;
                results
            }
            None => self.study(&predictions)?,
        };
        output::text(&match self.json {
            true => format!("{:#}\n", tables::json(&results)),
            false => tables::text(&results),
        })
    }

    /// Runs what has not run yet. The files of results are written after each round.
    fn study(&self, predictions: &[Prediction]) -> Result<Results, Failure> {
        let points = self.grid().points()?;
        let program = self.program()?;
        let to = self.to.as_deref().unwrap_or(Path::new("."));
        let logs = to.join("logs");
        for folder in [Some(&logs), program.traces.as_ref()].into_iter().flatten() {
            fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let study = self.description();
        let mut file = RunFile::open(&to.join(results::RECORDS), &study)?;
        let machine = self.machine(&points, &program, &logs);
        let written = |file: &RunFile| -> Result<Results, Failure> {
            let study = (&*study, self.scaling.into());
            let mut results = Results::of_runs(study, &machine, &points, file.records(), to);
            results.predict(predictions);
            files::write(&results, to)?;
            Ok(results)
        };
        let all = points.len() * self.runs as usize;
        let progress = Progress::new("run", all as u64, self.json);
        for run in 0..self.runs {
            for (point, done) in points.iter().zip(1..) {
                if !file.has(point, run) {
                    file.add(RunRecord {
                        point: point.clone(),
                        run,
                        load: machine::load(),
                        outcome: program.run(point, &logs.join(log_name(point, run))),
                    })?;
                }
                progress.at(u64::from(run) * points.len() as u64 + done);
            }
            written(&file)?;
        }
        drop(progress);
        written(&file)
    }

    /// This machine, with the link between tasks if there are several.
    fn machine(&self, points: &[Point], program: &StudyProgram, logs: &Path) -> Machine {
        let mut machine = Machine::here();
        if points.iter().any(|point| !point.is_alone()) {
            let probe = StudyProgram {
                timeout: LINK_TIMEOUT,
                ..program.clone()
            };
            match Link::measure(&probe, &logs.join("link.log")) {
                Ok(link) => machine.link = Some(link),
                Err(e) => tracing::warn!("the link between tasks is not measured: {e}"),
            }
        }
        machine
    }

    fn grid(&self) -> Grid {
        let mut data = vec![Data::Synthetic];
        data.extend(self.data_dir.as_ref().map(|_| Data::Real));
        Grid {
            tasks: self.tasks.clone(),
            servers: self.servers.clone(),
            batches: self.batch_sizes.clone(),
            modes: self.modes.clone(),
            data,
            scaling: self.scaling.into(),
        }
    }

    /// # Errors
    /// The path of this program is unknown.
    fn program(&self) -> Result<StudyProgram, Failure> {
        let mut command = self.command.clone();
        let path = thalweg_launch::program_path(&command[0]);
        command[0] = path.to_string_lossy().into_owned();
        Ok(StudyProgram {
            thalweg: std::env::current_exe()?,
            launch: self.launch.split_whitespace().map(str::to_owned).collect(),
            command,
            warmup: self.warmup,
            steps: self.steps,
            data_dir: self.data_dir.clone(),
            traces: self
                .traces
                .then_some(())
                .and(self.to.as_ref())
                .map(|to| to.join(results::TRACES)),
            timeout: Duration::from_secs(self.timeout.into()),
        })
    }

    /// Description that all records of a study have in common: runs of another program, or of other steps, are of another study.
    fn description(&self) -> String {
        let folder = self.data_dir.as_ref();
        let folder = folder.map_or(String::new(), |f| format!(" --data_dir={}", f.display()));
        format!(
            "launch {}: {}{folder}, {} steps after {}",
            self.launch,
            self.command.join(" "),
            self.steps,
            self.warmup
        )
    }
}

/// Name of the file with the output of a run.
fn log_name(point: &Point, run: u32) -> String {
    format!("{}-{run}.log", point.file_stem())
}
