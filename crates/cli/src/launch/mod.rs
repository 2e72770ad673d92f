//! `thalweg launch`: the tasks of a cluster, started and ended together.

mod elastic;
mod hosts;
mod hvd;
mod process;
mod screen;
pub(crate) mod signals;
mod task;
mod tasks;

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::{Failure, say};
pub(crate) use hvd::secret;
use screen::Screen;
use signals::Signals;
use task::LaunchedTask;
use tasks::Tasks;

/// The ports of the report's scripts: servers from the first, workers from the second.
const PORTS: [u16; 2] = [2230, 2220];
/// How many lines may wait to be shown before the tasks wait for them.
const LINES: usize = 1024;

/// Starts the tasks of a cluster, and ends them together.
#[derive(Args)]
pub struct Launch {
    #[command(subcommand)]
    place: LaunchPlace,
}

#[derive(Subcommand)]
enum LaunchPlace {
    Local(Local),
    Hvd(hvd::Hvd),
}

/// Starts every task on this machine: PROGRAM ARGS --job_name JOB --task_index N --ps_hosts ...
/// --worker_hosts .... Their output is shown with their names before it; beneath it stands what each of
/// them does, as far as its lines tell: "step 120" and "812 images/s".
///
/// The training ends when all workers have. The exit status is that of the first task that failed, 128 and the number of
/// the signal that ended the launch, or 74 where all tasks are done and lines of theirs could not be written.
///
/// SIGTERM, SIGINT and SIGHUP are passed on as SIGTERM; a second one kills all tasks. On Linux, tasks are killed when the
/// launcher is. Give it programs, or scripts that end in `exec`: what a script starts lives on where both are killed.
#[derive(Args)]
struct Local {
    /// How many parameter servers.
    #[arg(long, default_value_t = 1)]
    ps: usize,
    /// How many workers.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Takes free ports; without it, servers listen from 2230 on and workers from 2220 on.
    #[arg(long)]
    free_ports: bool,
    /// How long a task may take to end once it was told to, in seconds; then it is killed.
    #[arg(long, default_value_t = 30, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..))]
    grace: u32,
    /// The program of all tasks, and its arguments. A name without a folder is that of a program beside this one, or on
    /// the PATH.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// The program of a name: the one beside this program, where the name has no folder and there is one, such as
/// `cnn_benchmarks`; otherwise whatever the system finds.
fn program(name: &str) -> PathBuf {
    let bare = Path::new(name).components().count() == 1 && !name.starts_with('.');
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join(name)));
    match beside.filter(|path| bare && path.is_file()) {
        Some(path) => path,
        None => name.into(),
    }
}

/// The arguments of this program, with `-np` of horovodrun and mpirun as clap has it: an option of one letter.
pub(crate) fn as_of_horovodrun(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut own, mut launches, mut value) = (true, false, false);
    let changed = args.enumerate().map(|(at, arg)| {
        launches |= at == 1 && arg == "launch";
        let text = arg.to_string_lossy().into_owned();
        // What follows the name of a program that is launched is that program's. What follows an option may be its value.
        own &= !launches || at < 3 || value || text.starts_with('-') || text.parse::<u32>().is_ok();
        own &= text != "--";
        value = text.starts_with('-');
        if own && arg == "-np" {
            "--np".into()
        } else {
            arg
        }
    });
    changed.collect()
}

/// A task that is to be started.
struct Started {
    name: String,
    /// Whether the training ends when all like it have.
    worker: bool,
    command: Command,
    /// What it reads; nothing, where there is none.
    input: Option<String>,
}

/// Starts tasks, and runs until all have ended. Lines for people come from `said`.
fn run_all(
    tasks: Vec<Started>,
    grace: Duration,
    said: &Receiver<String>,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::catch()?;
    let (sender, events) = sync_channel(LINES);
    let names = tasks.iter().map(|t| t.name.clone()).collect();
    let screen = Screen::start(names, events)?;
    let mut all = Tasks {
        all: Vec::new(),
        grace,
    };
    for (number, task) in tasks.into_iter().enumerate() {
        all.all.push(LaunchedTask::start(task, number, &sender)?);
    }
    Ok(all.watch(&mut signals, sender, screen, said))
}

impl Launch {
    /// Runs until all tasks have ended.
    pub fn run(&self) -> ExitCode {
        let run = match &self.place {
            LaunchPlace::Local(local) => local.run(),
            LaunchPlace::Hvd(hvd) => hvd.run(),
        };
        run.unwrap_or_else(|failure| {
            say::error(format_args!("error: {failure}"));
            ExitCode::FAILURE
        })
    }
}

impl Local {
    fn run(&self) -> Result<ExitCode, Failure> {
        if self.workers == 0 {
            return Err("--workers 0 trains nothing".into());
        }
        let counts = [("ps", self.ps), ("worker", self.workers)];
        let addresses = self.addresses(counts.map(|(_, n)| n))?;
        let of_job = |(job, count)| (0..count).map(move |index| (job, index));
        let all = counts.into_iter().flat_map(of_job);
        let all = all.map(|(job, index)| Started {
            name: format!("{job} {index}"),
            worker: job == "worker",
            command: self.task(job, index, &addresses),
            input: None,
        });
        let grace = Duration::from_secs(self.grace.into());
        run_all(all.collect(), grace, &channel().1)
    }

    /// The command of a task.
    fn task(&self, job: &str, index: usize, [ps, workers]: &[Vec<String>; 2]) -> Command {
        let mut command = Command::new(program(&self.command[0]));
        command
            .args(&self.command[1..])
            .args(["--job_name", job, "--task_index", &index.to_string()])
            .args(["--ps_hosts", &ps.join(",")])
            .args(["--worker_hosts", &workers.join(",")]);
        command
    }

    /// An address for each task, by job.
    fn addresses(&self, counts: [usize; 2]) -> Result<[Vec<String>; 2], Failure> {
        let mut all = [Vec::new(), Vec::new()];
        // Held until all are found, so that none is found twice.
        let mut held = Vec::new();
        for (job, &count) in counts.iter().enumerate() {
            for index in 0..count {
                let port = match self.free_ports {
                    true => 0,
                    // The workers' ports end where the servers' begin.
                    false if job == 1 && index >= usize::from(PORTS[0] - PORTS[1]) => {
                        return Err("so many workers need --free-ports".into());
                    }
                    false => u16::try_from(index)
                        .ok()
                        .and_then(|i| PORTS[job].checked_add(i))
                        .ok_or("so many tasks need --free-ports")?,
                };
                let socket = TcpListener::bind(("127.0.0.1", port)).map_err(|e| {
                    format!(
                        "port {port} is not free ({e}): end what listens there, or use --free-ports"
                    )
                })?;
                all[job].push(socket.local_addr()?.to_string());
                held.push(socket);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::as_of_horovodrun;

    fn changed(line: &str) -> String {
        let args = line.split(' ').map(Into::into);
        let all = as_of_horovodrun(args).into_iter();
        let all: Vec<String> = all.map(|a| a.into_string().unwrap()).collect();
        all.join(" ")
    }

    #[test]
    fn np_is_an_option_of_the_launcher_and_stays_one_of_the_program() {
        let lines = [
            (
                "thalweg launch hvd -np 2 -- a -np 3",
                "thalweg launch hvd --np 2 -- a -np 3",
            ),
            (
                "thalweg launch hvd --grace 5 -np 2 a -np 3",
                "thalweg launch hvd --grace 5 --np 2 a -np 3",
            ),
            (
                "thalweg bench allreduce --engine tcp -np 3",
                "thalweg bench allreduce --engine tcp --np 3",
            ),
            (
                "thalweg launch hvd -H a:2,b:2 -np 4 a -np 3",
                "thalweg launch hvd -H a:2,b:2 --np 4 a -np 3",
            ),
            ("thalweg run -np", "thalweg run --np"),
        ];
        for (given, expected) in lines {
            assert_eq!(changed(given), expected);
        }
    }
}
