//! `thalweg top`: the tasks of a cluster, live in a terminal.

mod addresses;
mod cells;
mod error;
mod http;
mod limits;
mod live;
mod metrics;
mod numbers;
mod once;
mod poll;
mod tasks;
mod terminal;
mod view;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::Failure;
use crate::output;
use live::End;
use poll::Pollers;
use tasks::Task;

/// Show the tasks of a cluster live: steps, links, memory, and which task waits for which
///
/// It reads the metrics of servers that `thalweg server --metrics HOST:PORT` serves. Keys: q ends it, s or the arrows
/// choose the column that rows are sorted by, ? shows help.
#[derive(Args)]
pub(crate) struct Top {
    /// Addresses of metrics, as HOST:PORT; @FILE is a file with one on each line
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<String>,

    /// Print one table after two polls, and end: with status 1 if a task is not reached
    #[arg(long)]
    once: bool,

    /// Print JSON in place of the table
    #[arg(long, requires = "once")]
    json: bool,

    /// Time between two polls of a task
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
}

/// Parses an interval.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|s| (0.1..=3600.0).contains(s));
    let wanted = || "give a number of seconds from 0.1 to 3600".to_owned();
    seconds.map(Duration::from_secs_f64).ok_or_else(wanted)
}

impl Top {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let addresses = addresses::expand(&self.addresses)?;
        let now = Instant::now();
        let mut tasks: Vec<_> = addresses.iter().map(|a| Task::new(a, now)).collect();
        let pollers = Pollers::start(&addresses, self.interval)
            .map_err(|e| format!("no thread for {} addresses: {e}", addresses.len()))?;
        if !self.once {
            return Ok(match live::show(&pollers, &mut tasks, self.interval)? {
                End::Key => ExitCode::SUCCESS,
                End::Signal(signal) => ExitCode::from(128 + u8::try_from(signal).unwrap_or(0)),
            });
        }
        let rows = once::collect(&pollers, &mut tasks, self.interval);
        match self.json {
            true => output::text(&format!("{:#}\n", once::json(&rows, self.interval)))?,
            false => output::text(&once::table(&rows))?,
        }
        Ok(match once::misses_a_task(&rows) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    }
}
