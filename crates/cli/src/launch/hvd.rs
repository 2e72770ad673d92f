//! `thalweg launch hvd`: ranks of a job that trains without servers.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use clap::Args;
use thalweg_collective::{Coordinator, SILENCE, Secret, variables};

use super::hosts::{Place, Placing};
use super::{Started, program, run_all};
use crate::{Failure, say};

/// Starts the ranks of a job, on this machine or on several. Each has HOROVOD_RANK, HOROVOD_SIZE, HOROVOD_LOCAL_RANK and
/// HOROVOD_LOCAL_SIZE in its environment, and what it needs to meet the others. `thalweg::hvd` reads them.
///
/// The exit status is that of the first rank that failed. Signals, output and the end of all are as of `launch local`.
#[derive(Args)]
pub struct Hvd {
    /// How many ranks. `-np 2`, as of horovodrun, is the same.
    #[arg(short = 'n', long = "np", value_name = "RANKS",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) ranks: u32,
    /// How long a rank may take to end once it was told to, in seconds; then it is killed.
    #[arg(long, default_value_t = 30, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    grace: u32,
    #[command(flatten)]
    placing: Placing,
    /// Writes what the collectives of all ranks wait for, copy and reduce to this file: Perfetto shows it, a process for each
    /// rank.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Ranks and the launcher speak over TLS, with the keys of a folder that `thalweg protect DIR 127.0.0.1` has made. Without
    /// it, the variable THALWEG_PROTECTION names the folder.
    #[arg(long, value_name = "DIR")]
    protection: Option<PathBuf>,
    /// Goes on with as few ranks as this when others are lost (1). With this option, and with each of those that follow,
    /// ranks may come and go: the program uses `thalweg::hvd::elastic`.
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) min_np: Option<u32>,
    /// Lets in ranks up to so many, where a host discovery script names slots for them.
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_np: Option<u32>,
    /// A program that prints lines of host:slots. It is run every second; workers are started and told to leave by it.
    /// Hosts are localhost, 127.* and the name of this one.
    #[arg(long, value_name = "PROGRAM")]
    pub(super) host_discovery_script: Option<String>,
    /// How often ranks may be lost or let in until the job ends.
    #[arg(long, value_name = "ROUNDS")]
    pub(super) reset_limit: Option<u32>,
    /// How long it waits for enough workers, in seconds (600).
    #[arg(long, value_name = "SECONDS")]
    pub(super) elastic_timeout: Option<u32>,
    /// For how long a host starts no worker after one of it has failed, in seconds: at first, and at most (10 600). It
    /// doubles each time.
    #[arg(long, num_args = 2, value_names = ["LEAST", "MOST"])]
    pub(super) blacklist_cooldown_range: Option<Vec<u32>>,
    /// The program of all ranks, and its arguments. A name without a folder is that of a program beside this one, or on the
    /// PATH.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(super) command: Vec<String>,
}

impl Hvd {
    /// How long a worker may take to end once it was told to.
    pub(super) fn grace(&self) -> Duration {
        Duration::from_secs(self.grace.into())
    }

    /// For how long a host rests whose worker has failed.
    pub(super) fn cooldown(&self) -> [Duration; 2] {
        let given = match self.blacklist_cooldown_range.as_deref() {
            Some(&[least, most]) => [least, most],
            _ => [10, 600],
        };
        given.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// The folder of keys that protect a job. Ranks would find the variable too.
    pub(super) fn protection(&self) -> Option<PathBuf> {
        let set = || std::env::var_os(variables::PROTECTION).map(PathBuf::from);
        self.protection.clone().or_else(set)
    }

    /// The secret of a job, with the keys that protect it.
    pub(super) fn protected(&self, secret: &str) -> Result<Secret, Failure> {
        let secret = Secret::from(secret);
        Ok(match self.protection() {
            Some(folder) => secret.protected(folder)?,
            None => secret,
        })
    }

    /// Whether ranks may come and go.
    fn is_elastic(&self) -> bool {
        self.min_np.is_some()
            || self.max_np.is_some()
            || self.host_discovery_script.is_some()
            || self.reset_limit.is_some()
            || self.elastic_timeout.is_some()
            || self.blacklist_cooldown_range.is_some()
    }

    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        if self.is_elastic() {
            if self.trace.is_some() {
                let why = "--trace is of ranks that stay: of ranks that come and go, set THALWEG_TRACE to a file, and each \
                           rank of each round writes one of its own";
                return Err(why.into());
            }
            if self.placing.names_hosts() {
                let why = "-H is of ranks that stay: a host discovery script names the hosts of ranks that come and go";
                return Err(why.into());
            }
            return super::elastic::run(self);
        }
        let ranks = self.ranks as usize;
        let places = self.placing.places(ranks)?;
        let protection = self.protection();
        let address = self.placing.meeting(protection.is_some())?;
        let listener = TcpListener::bind((address, 0)).map_err(|e| {
            format!("ranks cannot meet at {address}: {e}: give --address, an address of this host")
        })?;
        let secret = secret()?;
        let protected = self.protected(&secret)?;
        let (lines, said) = channel();
        // An error is a launcher that has ended.
        let tell = Box::new(move |line| drop(lines.send(line)));
        let coordinator = Coordinator::telling(listener, ranks, &protected, SILENCE, tell)?;
        let address = coordinator.address();
        let started = |(rank, place): (usize, &Place)| -> Result<Started, Failure> {
            let mut set = vec![
                (variables::RANK, rank.to_string()),
                (variables::SIZE, self.ranks.to_string()),
                (variables::ADDRESS, address.ip().to_string()),
                (variables::PORT, address.port().to_string()),
            ];
            let paths = [
                (variables::TRACE, &self.trace),
                (variables::PROTECTION, &protection),
            ];
            for (name, path) in paths {
                set.extend(path.iter().map(|p| (name, p.display().to_string())));
            }
            let program = program(&self.command[0]);
            let what = (&*program, &self.command[1..]);
            let (command, input) = self.placing.command(place, what, &set, &secret)?;
            Ok(Started {
                name: format!("rank {rank}"),
                worker: true,
                command,
                input,
            })
        };
        let tasks: Result<Vec<Started>, Failure> = places.iter().enumerate().map(started).collect();
        if let Some(path) = &self.trace {
            // Those of a launch before are not of this one.
            (0..self.ranks).for_each(|rank| drop(fs::remove_file(part(path, rank))));
        }
        let status = run_all(tasks?, self.grace(), &said)?;
        if let Some(path) = &self.trace
            && let Err(failure) = merge(path, self.ranks)
        {
            say::error(format_args!("error: {failure}"));
            // That of a rank says more.
            return Ok(match status == ExitCode::SUCCESS {
                true => ExitCode::FAILURE,
                false => status,
            });
        }
        Ok(status)
    }
}

/// The trace of a rank.
fn part(path: &Path, rank: u32) -> PathBuf {
    PathBuf::from(format!("{}.{rank}", path.display()))
}

/// Makes one trace of those of the ranks, which lie beside it and are removed. One that cannot be read is left out, and said.
///
/// # Errors
/// No rank has written one, or this one cannot be written.
fn merge(path: &Path, ranks: u32) -> Result<(), Failure> {
    let failed = |path: &Path, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let mut lines = Vec::new();
    let mut parts = Vec::new();
    for part in (0..ranks).map(|rank| part(path, rank)) {
        // It has not come so far, or runs elsewhere, or is no program of ours.
        let Ok(text) = fs::read(&part) else {
            continue;
        };
        match serde_json::from_slice::<Vec<serde_json::Value>>(&text) {
            Ok(events) => {
                lines.extend(events.iter().map(ToString::to_string));
                parts.push(part);
            }
            Err(e) => say::error(format_args!("left out of the trace: {}", failed(&part, &e))),
        }
    }
    if parts.is_empty() {
        return Err(failed(path, &"no rank of this host has written a trace").into());
    }
    fs::write(path, format!("[\n{}\n]\n", lines.join(",\n"))).map_err(|e| failed(path, &e))?;
    for part in parts {
        // It says the same again.
        let _ = fs::remove_file(part);
    }
    Ok(())
}

/// What nobody can guess.
pub(crate) fn secret() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
