//! Jobs with a fixed number of ranks.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use thalweg_collective::{Coordinator, SILENCE_TIMEOUT, Secret};
use thalweg_launch_env::variables;

use crate::error::{LaunchError, Result};
use crate::hosts::{HostOptions, RankPlace};
use crate::job::{JobExit, Supervision, run_tasks};
use crate::program::program_path;
use crate::secret::job_secret;
use crate::task::TaskSpec;
use crate::trace::{check_trace, merge_traces, rank_trace};

/// Job with a fixed number of ranks, on this host or several. Each rank has in its environment its number, the number of
/// ranks, and the coordinator at which they meet, which the launcher runs.
#[derive(Clone, Debug)]
pub struct RankJob {
    /// Number of ranks.
    pub ranks: usize,
    /// Time that a rank may take to end after SIGTERM.
    pub grace: Duration,
    /// Hosts of the ranks.
    pub hosts: HostOptions,
    /// File for the trace of the collectives of all ranks.
    pub trace: Option<PathBuf>,
    /// Folder of keys: ranks and launcher communicate over TLS.
    pub protection: Option<PathBuf>,
    /// Program of all ranks, and its arguments.
    pub command: Vec<String>,
}

impl RankJob {
    /// Starts all ranks, and returns when all have ended.
    ///
    /// # Errors
    /// The trace cannot be written; the hosts have too few slots; ranks cannot meet at this host; the program cannot be started.
    pub fn run(&self) -> Result<JobExit> {
        if let Some(path) = &self.trace {
            check_trace(path)?;
        }
        let places = self.hosts.places(self.ranks)?;
        let address = self.hosts.coordinator_ip(self.protection.is_some())?;
        let listener = TcpListener::bind((address, 0)).map_err(|e| {
            LaunchError::of_attempt(e, |e| {
                let text = format!(
                    "ranks cannot meet at {address}: {e}: give --address, an address of this host"
                );
                LaunchError::Argument(text)
            })
        })?;
        let secret = job_secret()?;
        let mut shared = Secret::from(&secret);
        if let Some(folder) = &self.protection {
            shared = shared.protected(folder)?;
        }
        let (lines, notes) = channel();
        // An error is a launcher that has ended.
        let tell = Box::new(move |line| drop(lines.send(line)));
        let coordinator =
            Coordinator::start_with(listener, self.ranks, &shared, SILENCE_TIMEOUT, tell)?;
        let address = coordinator.address();
        let spec = |(rank, place): (usize, &RankPlace)| -> Result<TaskSpec> {
            let mut set = vec![
                (variables::RANK, rank.to_string()),
                (variables::SIZE, self.ranks.to_string()),
                (variables::ADDRESS, address.ip().to_string()),
                (variables::PORT, address.port().to_string()),
            ];
            let paths = [
                (variables::TRACE, &self.trace),
                (variables::PROTECTION, &self.protection),
            ];
            for (name, path) in paths {
                set.extend(path.iter().map(|p| (name, p.display().to_string())));
            }
            let program = program_path(&self.command[0]);
            let program = (&*program, &self.command[1..]);
            let (command, input) = self.hosts.command(place, program, &set, &secret)?;
            Ok(TaskSpec {
                name: format!("rank {rank}"),
                worker: true,
                command,
                input,
            })
        };
        let specs: Result<Vec<TaskSpec>> = places.iter().enumerate().map(spec).collect();
        if let Some(path) = &self.trace {
            // Traces of an earlier launch are not of this one.
            (0..self.ranks).for_each(|rank| drop(fs::remove_file(rank_trace(path, rank))));
        }
        let first_failed = || coordinator.first_failed();
        // A rank cannot join a job that has begun; ranks of elastic jobs can.
        let options = Supervision {
            grace: self.grace,
            restarts: 0,
        };
        let mut exit = run_tasks(specs?, options, &notes, &first_failed)?;
        if let Some(path) = &self.trace
            && let Err(error) = merge_traces(path, self.ranks, &mut exit.messages)
        {
            exit.messages.push(format!("error: {error}"));
            if exit.code == 0 {
                exit.code = 1;
            }
        }
        Ok(exit)
    }
}
