//! `thalweg launch`: the tasks of a cluster, started and ended together.

mod task;

use std::io::IsTerminal;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::Failure;
use task::{Event, LaunchedTask};

/// The ports of the report's scripts: servers from the first, workers from the second.
const PORTS: [u16; 2] = [2230, 2220];
/// How long the other tasks may take to end by themselves when the last worker has.
const GRACE: Duration = Duration::from_secs(10);
/// How long the last lines of tasks that have ended are waited for.
const LAST: Duration = Duration::from_secs(2);
/// How often the status and signals are looked at.
const TICK: Duration = Duration::from_millis(100);

/// Starts the tasks of a cluster, and ends them together.
#[derive(Args)]
pub struct Launch {
    #[command(subcommand)]
    place: LaunchPlace,
}

#[derive(Subcommand)]
enum LaunchPlace {
    Local(Local),
}

/// Starts every task on this machine: PROGRAM ARGS --job_name JOB --task_index N --ps_hosts ...
/// --worker_hosts .... Their output is shown with their names before it; beneath it stands what each of
/// them does, as far as its lines tell: "step 120" and "812 images/s".
///
/// The training ends when all workers have; the exit status is that of the first task that failed.
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
    /// The program of all tasks, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

impl Launch {
    /// Runs until all tasks have ended.
    pub fn run(&self) -> ExitCode {
        let LaunchPlace::Local(local) = &self.place;
        local.run().unwrap_or_else(|failure| {
            eprintln!("error: {failure}");
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
        let stopped = Arc::new(AtomicBool::new(false));
        let noted = stopped.clone();
        ctrlc::set_handler(move || {
            if noted.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        })?;
        let (sender, events) = channel();
        let mut tasks = Tasks::new();
        let [ps, workers] = &addresses;
        for (job, count) in counts {
            for index in 0..count {
                let mut arguments = self.command[1..].to_vec();
                let index_text = index.to_string();
                for (flag, value) in [
                    ("--job_name", job),
                    ("--task_index", &index_text),
                    ("--ps_hosts", &ps.join(",")),
                    ("--worker_hosts", &workers.join(",")),
                ] {
                    arguments.extend([flag.to_owned(), value.to_owned()]);
                }
                let number = tasks.all.len();
                let name = format!("{job} {index}");
                let task = LaunchedTask::start(&self.command[0], &arguments, name, number, &sender)
                    .map_err(|e| format!("'{}' cannot be started: {e}", self.command[0]))?;
                tasks.add(task, job == "worker");
            }
        }
        drop(sender);
        Ok(tasks.watch(&events, &stopped))
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

/// The tasks that were started; what still runs is ended with this.
struct Tasks {
    all: Vec<LaunchedTask>,
    workers: Vec<bool>,
    bars: Vec<ProgressBar>,
    screen: MultiProgress,
}

impl Tasks {
    fn new() -> Tasks {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        Tasks {
            all: Vec::new(),
            workers: Vec::new(),
            bars: Vec::new(),
            screen: MultiProgress::with_draw_target(target),
        }
    }

    fn add(&mut self, task: LaunchedTask, worker: bool) {
        let bar = self.screen.add(ProgressBar::no_length());
        if let Ok(style) = ProgressStyle::with_template("{prefix:10.cyan} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(task.name.clone());
        bar.set_message(task.described());
        self.bars.push(bar);
        self.all.push(task);
        self.workers.push(worker);
    }

    /// Shows what the tasks say until all have ended. Gives the status of the first that failed.
    fn watch(&mut self, events: &Receiver<Event>, stopped: &AtomicBool) -> ExitCode {
        let mut first: Option<(String, i32)> = None;
        let mut ending: Option<Instant> = None;
        while self.all.iter().any(LaunchedTask::runs) {
            match events.recv_timeout(TICK) {
                Ok(event) => self.show(event),
                Err(RecvTimeoutError::Timeout) => {}
                // All outputs are closed: only the ends are waited for.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
            }
            for (task, bar) in self.all.iter_mut().zip(&self.bars) {
                let Some(code) = task.ended() else { continue };
                bar.set_message(task.described());
                if code != 0 && !task.was_told() && first.is_none() {
                    first = Some((task.name.clone(), code));
                }
            }
            let workers = self.all.iter().zip(&self.workers).filter(|(_, w)| **w);
            let trained = workers.clone().all(|(t, _)| !t.runs());
            let told = stopped.load(Ordering::Relaxed);
            if ending.is_none() && (trained || told || first.is_some()) {
                ending = Some(Instant::now());
                // Who ends by itself is let: a server that hears that the workers are done.
                if told || first.is_some() {
                    self.all.iter_mut().for_each(LaunchedTask::terminate);
                }
            }
            if let Some(since) = ending {
                if since.elapsed() > 2 * GRACE {
                    self.all.iter_mut().for_each(LaunchedTask::kill);
                } else if since.elapsed() > GRACE {
                    self.all.iter_mut().for_each(LaunchedTask::terminate);
                }
            }
        }
        // Their last lines; what they have started may hold their outputs for longer.
        let ended = Instant::now();
        while let Ok(event) = events.recv_timeout(LAST.saturating_sub(ended.elapsed())) {
            self.show(event);
        }
        self.bars.iter().for_each(ProgressBar::finish_and_clear);
        match first {
            _ if stopped.load(Ordering::Relaxed) => ExitCode::from(130),
            None => ExitCode::SUCCESS,
            Some((name, code)) => {
                eprintln!("error: {name} ended with {}", task::status(code));
                ExitCode::from(u8::try_from(code).unwrap_or(1))
            }
        }
    }

    fn show(&mut self, event: Event) {
        let task = &mut self.all[event.task];
        task.note(&event.line);
        self.bars[event.task].set_message(task.described());
        let line = format!("{:>9} | {}", task.name, event.line);
        self.screen.suspend(|| match event.error {
            true => eprintln!("{line}"),
            false => println!("{line}"),
        });
    }
}
