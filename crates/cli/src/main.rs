//! The `thalweg` program: one subcommand a file.

mod arrays;
mod bench;
mod data;
mod failure;
mod figure;
mod freeze;
mod graph;
mod html;
mod initializers;
mod inspect;
mod launch;
mod model;
mod names;
mod notebook;
mod output;
mod output_file;
mod picture;
mod profile;
mod progress;
mod protect;
mod restore;
mod run;
mod server;
mod simulate;
mod statistics;
mod stats;
mod study;
mod table;
mod top;
mod trace_file;
mod weight_files;
mod weights;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs TensorFlow's graphs, prints the contents of graphs and files of weights, converts data sets, and starts servers and jobs.
#[derive(Parser)]
#[command(name = "thalweg", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    Graph(graph::GraphArgs),
    Profile(profile::ProfileArgs),
    Inspect(inspect::Inspect),
    Weights(weights::WeightsArgs),
    Freeze(freeze::Freeze),
    Data(data::DataArgs),
    Server(server::Serve),
    Launch(launch::LaunchArgs),
    Notebook(notebook::Notebook),
    Top(top::Top),
    Study(study::StudyArgs),
    Simulate(simulate::SimulateArgs),
    Stats(stats::StatsArgs),
    Bench(bench::Bench),
    Protect(protect::Protect),
}

/// Makes a write beyond the limit on file sizes (`ulimit -f`) an error, in place of a signal that ends the process.
#[cfg(unix)]
fn catch_file_size_signal() -> std::io::Result<()> {
    let caught = std::sync::Arc::default();
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, caught)?;
    Ok(())
}

#[cfg(not(unix))]
fn catch_file_size_signal() -> std::io::Result<()> {
    Ok(())
}

fn main() -> ExitCode {
    if let Err(e) = catch_file_size_signal() {
        output::error(format_args!("error: no signal is caught: {e}"));
        return ExitCode::FAILURE;
    }
    let result = match Arguments::parse_from(launch::accept_np_flag(std::env::args_os())).command {
        Command::Run(run) => run.run(),
        Command::Graph(graph) => graph.run(),
        Command::Profile(profile) => profile.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Weights(weights) => match weights.run() {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Freeze(freeze) => freeze.run(),
        Command::Data(data) => match data.run() {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Server(server) => server.run(),
        Command::Protect(protect) => protect.run(),
        Command::Launch(launch) => return launch.run(),
        Command::Notebook(notebook) => return launch::report(notebook.run()),
        Command::Top(top) => match top.run() {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Study(study) => study.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Stats(stats) => stats.run(),
        Command::Bench(bench) => bench.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(format_args!("error: {failure}"));
            ExitCode::FAILURE
        }
    }
}
