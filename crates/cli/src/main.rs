//! The `thalweg` program: runs TensorFlow's graphs, and tells what is in them.

mod arrays;
mod graph;
mod initializers;
mod launch;
mod model;
mod output;
mod protect;
mod run;
mod server;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs TensorFlow's graphs, and tells what is in them.
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
    Server(server::Serve),
    Launch(launch::Launch),
    Protect(protect::Protect),
}

/// What ends a command: said on standard error.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(run) => run.run(),
        Command::Graph(graph) => graph.run(),
        Command::Server(server) => server.run(),
        Command::Protect(protect) => protect.run(),
        Command::Launch(launch) => return launch.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
