//! `thalweg data`: converts data sets to files of records, inspects, checks and times them.

mod bench;
mod check;
mod convert;
mod inspect;
mod keys;
mod record_files;
mod sheet;
mod study;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Convert data sets to TFRecord files or LMDB; inspect, check and time such files
#[derive(Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Subcommand)]
enum DataCommand {
    Convert(convert::Convert),
    Inspect(inspect::Inspect),
    Check(check::Check),
    Bench(bench::Bench),
    Study(study::Study),
}

impl DataArgs {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        match &self.command {
            DataCommand::Convert(convert) => convert.run().map(|()| ExitCode::SUCCESS),
            DataCommand::Inspect(inspect) => inspect.run().map(|()| ExitCode::SUCCESS),
            DataCommand::Check(check) => check.run(),
            DataCommand::Bench(bench) => bench.run().map(|()| ExitCode::SUCCESS),
            DataCommand::Study(study) => study.run().map(|()| ExitCode::SUCCESS),
        }
    }
}
