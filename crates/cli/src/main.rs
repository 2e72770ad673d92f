//! The `thalweg` program: runs TensorFlow's graphs, and tells what is in them.

mod arrays;
mod bench;
mod freeze;
mod graph;
mod initializers;
mod inspect;
mod launch;
mod model;
mod progress;
mod protect;
mod restore;
mod run;
mod say;
mod server;
mod statistics;
mod weights;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs TensorFlow's graphs, and tells what is in them and in files of weights.
#[derive(Parser)]
#[command(name = "thalweg", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    Graph(graph::Graph),
    Inspect(inspect::Inspect),
    Weights(weights::Weights),
    Freeze(freeze::Freeze),
    Server(server::Serve),
    Launch(launch::Launch),
    Bench(bench::Bench),
    Protect(protect::Protect),
}

/// What ends a command: said on standard error.
type Failure = Box<dyn std::error::Error>;

/// A write beyond the largest file that the process may make (`ulimit -f`) is an error, where the system would end the
/// process.
#[cfg(unix)]
fn writes_may_fail() -> std::io::Result<()> {
    let came = std::sync::Arc::default();
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, came)?;
    Ok(())
}

#[cfg(not(unix))]
fn writes_may_fail() -> std::io::Result<()> {
    Ok(())
}

fn main() -> ExitCode {
    if let Err(e) = writes_may_fail() {
        say::error(format_args!("error: no signal is caught: {e}"));
        return ExitCode::FAILURE;
    }
    let done = match Arguments::parse_from(launch::as_of_horovodrun(std::env::args_os())).command {
        Command::Run(run) => run.run(),
        Command::Graph(graph) => graph.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Weights(weights) => match weights.run() {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Freeze(freeze) => freeze.run(),
        Command::Server(server) => server.run(),
        Command::Protect(protect) => protect.run(),
        Command::Launch(launch) => return launch.run(),
        Command::Bench(bench) => bench.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::error(format_args!("error: {failure}"));
            ExitCode::FAILURE
        }
    }
}
