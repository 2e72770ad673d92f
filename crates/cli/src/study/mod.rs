//! `thalweg study`: scaling studies.

mod machine;
mod tables;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_checkpoint::disk;
use thalweg_study::{Data, Grid, Point, RunFile, RunRecord, Scaling, StudyProgram, Summary};

use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use machine::Machine;

/// Runs a program over a grid of tasks, parameter servers, batches and modes, and prints speeds and efficiencies.
///
/// PROGRAM is cnn_benchmarks, or another one that takes --variable_update, --batch_size, --num_warmup_batches, --num_batches and
/// --json, and prints total_images_per_sec or the line "total images/sec: N". One process alone is run too: the others are compared to it. Each round
/// runs every point once, so that all points meet the same load of the machine.
///
/// The folder gets a record of each run (runs.jsonl), the output of each run (logs), and the tables (results.csv, results.json). A
/// study that was interrupted goes on where it was, with the same command. A run that fails is kept with its reason.
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
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
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

/// Meaning of a batch.
#[derive(Clone, Copy, ValueEnum)]
enum ScalingKind {
    /// Each task keeps the batch
    Weak,
    /// All tasks share the batch
    Strong,
}

impl StudyArgs {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let points = self.grid().points()?;
        let program = self.program()?;
        let logs = self.to.join("logs");
        fs::create_dir_all(&logs).map_err(|e| format!("{}: {e}", logs.display()))?;
        let mut file = RunFile::open(&self.to.join("runs.jsonl"), &self.description())?;
        let all = points.len() * self.runs as usize;
        let progress = Progress::new("run", all as u64, self.json);
        let numbered = (0..self.runs).flat_map(|run| points.iter().map(move |point| (point, run)));
        for (done, (point, run)) in numbered.enumerate() {
            if !file.has(point, run) {
                let load = machine::load();
                let outcome = program.run(point, &logs.join(log_name(point, run)));
                file.add(RunRecord {
                    point: point.clone(),
                    run,
                    load,
                    outcome,
                })?;
            }
            progress.at(done as u64 + 1);
        }
        drop(progress);
        let summary = Summary::new(&points, file.records());
        let result = tables::json(&summary, &self.description(), &Machine::here());
        self.write("results.csv", &tables::csv(&summary)?)?;
        self.write("results.json", &format!("{result:#}\n"))?;
        output::text(&match self.json {
            true => format!("{result:#}\n"),
            false => tables::text(&summary),
        })
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
            scaling: match self.scaling {
                ScalingKind::Weak => Scaling::Weak,
                ScalingKind::Strong => Scaling::Strong,
            },
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

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.to.join(name);
        Ok(disk::write(&disk::system(), &path, text.as_bytes())?)
    }
}

/// Name of the file with the output of a run.
fn log_name(point: &Point, run: u32) -> String {
    let Point {
        mode,
        data,
        batch,
        tasks,
        servers,
    } = point;
    let mode: String = mode
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    format!("{mode}-{tasks}-tasks-{servers}-servers-batch-{batch}-{data}-{run}.log")
}
