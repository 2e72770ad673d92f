//! `gpu_run`: tests and measurements on a machine with a GPU in ten minutes, the most valuable first.
//!
//! `gpu_run` runs all units that the results file has no line for. `gpu_run --list` names them. `docs/book/gpu.md`
//! describes how to bring it to a machine.

mod bench;
mod card;
mod convolutions;
mod floors;
mod op_table;
mod resnet;
mod rest;
mod results;
mod shares;
mod smoke;
mod supervise;
mod training;
mod units;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use thalweg::device::cuda::{Compiler, Cubins};
use thalweg::device::gpu::Function;
use thalweg::ops::gpu::HEADER;
use thalweg_tests::launched_functions::functions;

use bench::Scale;

/// Tests and measures on a machine's first GPU, in ten minutes.
#[derive(Parser)]
struct Flags {
    #[command(subcommand)]
    task: Option<GpuRunCommand>,
    #[command(flatten)]
    run: RunFlags,
}

/// Units to run, and limits.
#[derive(clap::Args)]
pub struct RunFlags {
    /// The folder of the results: results.jsonl, results.md and the workers' output.
    #[arg(long, default_value = "gpu_results")]
    out: PathBuf,
    /// Seconds of the whole run.
    #[arg(long, default_value_t = shares::FULL_RUN_SECONDS, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Only units whose names begin with this.
    #[arg(long, default_value = "", hide_default_value = true)]
    only: String,
    /// At most this many units of each part, spread over it.
    #[arg(long)]
    each: Option<usize>,
    /// Seconds that a unit may take, in place of the limit of its part.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Sizes that an emulated card can do.
    #[arg(long)]
    small: bool,
    /// Prints the names of the units.
    #[arg(long)]
    list: bool,
}

#[derive(Subcommand)]
enum GpuRunCommand {
    /// Runs one unit in this process, and prints its line.
    One { unit: String },
    /// Runs the units that are named by lines of the input, and answers a line each.
    #[command(hide = true)]
    Serve,
    /// Compiles all kernels for cards that this machine need not have; `THALWEG_CUBINS` names the
    /// folder where they run.
    Cubins {
        folder: PathBuf,
        #[arg(long, default_value = "sm_90")]
        architecture: String,
    },
}

impl RunFlags {
    fn scale(&self) -> Scale {
        if self.small {
            Scale::Small
        } else {
            Scale::Full
        }
    }
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match &flags.task {
        None if flags.run.list => units::print(&flags.run),
        None => supervise::run(&flags.run),
        Some(GpuRunCommand::One { unit }) => bench::one(unit, flags.run.scale()),
        Some(GpuRunCommand::Serve) => bench::serve(flags.run.scale()).map(|()| true),
        Some(GpuRunCommand::Cubins {
            folder,
            architecture,
        }) => make_cubins(folder, architecture).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles every kernel, on all of this machine's threads.
fn make_cubins(folder: &std::path::Path, architecture: &str) -> Result<(), Box<dyn Error>> {
    let mut all: Vec<Function> = functions().into_values().map(|(f, _)| f).collect();
    all.push(floors::tiny());
    let cubins = Cubins::new(HEADER, Compiler::open(HEADER), None);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let made: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let parts = all.chunks(all.len().div_ceil(threads));
        let make = |part: &[Function]| {
            part.iter()
                .try_for_each(|f| cubins.make(f, architecture, folder))
                .map_err(|e| e.to_string())
        };
        let running: Vec<_> = parts.map(|part| scope.spawn(move || make(part))).collect();
        running
            .into_iter()
            .map(|t| t.join().map_err(|_| "the compiler panicked".to_owned())?)
            .collect()
    });
    made.into_iter().collect::<Result<(), _>>()?;
    println!("{} kernels for {architecture}", all.len());
    Ok(())
}
