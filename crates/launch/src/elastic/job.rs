//! Supervision of an elastic job.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use thalweg_collective::Secret;
use thalweg_collective::elastic::{Change, Driver, ElasticLimits};
use thalweg_launch_env::variables;

use super::discovery::Hosts;
use crate::error::Result;
use crate::job::{EVENT_QUEUE, JobExit, POLL_INTERVAL};
use crate::program::program_path;
use crate::screen::{Screen, ScreenEvent, show};
use crate::secret::job_secret;
use crate::signals::{self, Signals};
use crate::task::{LaunchedTask, TaskSpec, status_text};

/// Silence after which a worker is lost: less than in other jobs, as the others can go on without it.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);

/// Elastic job: workers may be lost and join while it runs. Its program uses `thalweg::hvd::elastic`.
#[derive(Clone, Debug)]
pub struct ElasticJob {
    /// Number of ranks of the first round.
    pub ranks: usize,
    /// Minimum number of ranks; 1 by default.
    pub min_ranks: Option<usize>,
    /// Maximum number of ranks; by default the number of slots.
    pub max_ranks: Option<usize>,
    /// Program that prints lines of `host:slots`; without it, all workers run on this host.
    pub discovery_script: Option<String>,
    /// Maximum number of rounds after the first.
    pub reset_limit: Option<u64>,
    /// Time that a round waits for enough workers until the job ends.
    pub timeout: Duration,
    /// Minimum and maximum time for which a host starts no worker after one of it has failed.
    pub cooldown: [Duration; 2],
    /// Time that a worker may take to end after SIGTERM.
    pub grace: Duration,
    /// Folder of keys: workers and launcher communicate over TLS.
    pub protection: Option<PathBuf>,
    /// Program of all workers, and its arguments.
    pub command: Vec<String>,
}

/// Worker process. Its number is its index among all that were started.
struct WorkerProcess {
    host: String,
    task: LaunchedTask,
    leaves: bool,
}

/// Elastic job while it runs.
struct RunningJob<'a> {
    options: &'a ElasticJob,
    secret: String,
    driver: Driver,
    hosts: Hosts,
    workers: Vec<WorkerProcess>,
    max: usize,
    /// `true` once the first round has begun.
    has_begun: bool,
    events: SyncSender<ScreenEvent>,
    shutdown: Option<Shutdown>,
}

/// Reason why a job ends, its exit code, and since when.
struct Shutdown {
    reason: String,
    code: i32,
    since: Instant,
}

impl ElasticJob {
    /// Runs the job until all of its workers have ended.
    ///
    /// # Errors
    /// The numbers of ranks contradict each other; the discovery script fails; a worker cannot be started.
    pub fn run(&self) -> Result<JobExit> {
        let (start, min) = (self.ranks, self.min_ranks.unwrap_or(1));
        let hosts = match &self.discovery_script {
            Some(script) => Hosts::of_script(script, self.cooldown)?,
            None => Hosts::local(start, self.cooldown),
        };
        let max = match (self.max_ranks, &self.discovery_script) {
            (Some(max), Some(_)) => max,
            (None, Some(_)) => usize::MAX,
            (Some(max), None) if max > start => {
                return Err(format!(
                    "--max-np {max} needs --host-discovery-script: without one there are slots for --np {start} workers"
                )
                .into());
            }
            (max, None) => max.unwrap_or(start),
        };
        if min > start {
            return Err(format!("--min-np {min} is more than --np {start}").into());
        }
        if start > max {
            return Err(format!("--np {start} is more than --max-np {max}").into());
        }
        let limits = ElasticLimits {
            start,
            min,
            max,
            timeout: self.timeout,
            resets: self.reset_limit,
            ..ElasticLimits::of(start)
        };
        let secret = job_secret()?;
        let mut shared = Secret::from(&secret);
        if let Some(folder) = &self.protection {
            shared = shared.protected(folder)?;
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let driver = Driver::start(listener, &shared, limits, SILENCE_TIMEOUT)?;
        let mut signals = Signals::catch()?;
        let (events, shown) = sync_channel(EVENT_QUEUE);
        let screen = Screen::start(Vec::new(), shown)?;
        let mut job = RunningJob {
            options: self,
            secret,
            driver,
            hosts,
            workers: Vec::new(),
            max,
            has_begun: false,
            events,
            shutdown: None,
        };
        job.start_workers()?;
        while job.workers.iter().any(|w| w.task.is_running()) || job.waits_for_workers() {
            std::thread::sleep(POLL_INTERVAL);
            for signal in signals.pending() {
                if job.shutdown.is_some() {
                    job.kill_all();
                }
                job.shut_down(format!("ended by {}", signals::name(signal)), 128 + signal);
            }
            job.poll()?;
        }
        let shutdown = job.shutdown.take();
        // The screen ends when all senders of events are dropped.
        drop(job);
        let lost = screen.end();
        Ok(match shutdown {
            Some(Shutdown { reason, code, .. }) => JobExit::new(code, format!("error: {reason}")),
            None => JobExit::success(lost),
        })
    }
}

impl RunningJob<'_> {
    fn note(&self, line: String) {
        show(ScreenEvent::Note(line), &self.events);
    }

    /// Begins the end of the job, for the first reason.
    fn shut_down(&mut self, reason: String, code: i32) {
        let since = Instant::now();
        self.shutdown.get_or_insert(Shutdown {
            reason,
            code,
            since,
        });
    }

    /// `true` if the job goes on although no worker runs.
    fn waits_for_workers(&self) -> bool {
        self.shutdown.is_none() && !self.driver.is_finishing()
    }

    fn kill_all(&mut self) {
        for worker in &mut self.workers {
            worker.task.kill();
        }
    }

    /// Polls the driver, the workers and the hosts, and starts workers.
    fn poll(&mut self) -> Result<()> {
        // Changes come first: a worker that ends after a round has begun is replaced.
        for change in self.driver.changes() {
            self.apply(change);
        }
        for line in self.driver.lines() {
            self.note(line);
        }
        self.reap();
        if let Some(since) = self.shutdown.as_ref().map(|s| s.since) {
            for worker in &mut self.workers {
                worker.task.terminate();
            }
            if since.elapsed() > self.options.grace {
                self.kill_all();
            }
            return Ok(());
        }
        if let Some(line) = self.hosts.poll() {
            self.note(line);
        }
        self.release_workers();
        if self.driver.is_finishing() {
            return Ok(());
        }
        self.start_workers()
    }

    /// Handles workers whose processes have ended.
    fn reap(&mut self) {
        for at in 0..self.workers.len() {
            let worker = &mut self.workers[at];
            let Some(code) = worker.task.poll_exit() else {
                continue;
            };
            let (number, host) = (at as u64, worker.host.clone());
            let expected = worker.task.was_terminated() || worker.leaves;
            let name = worker.task.name.clone();
            show(ScreenEvent::Gone { task: at }, &self.events);
            if code == 0 {
                self.driver.mark_done(number);
                continue;
            }
            self.driver.mark_lost(number);
            if expected {
                continue;
            }
            let how = status_text(code);
            if !self.has_begun || self.driver.is_finishing() {
                self.shut_down(format!("{name} {how}"), code);
            } else {
                let rest = self.hosts.failed(&host).as_secs_f64();
                self.note(format!(
                    "{name} {how}: {host} starts no other one for {rest:.0} s"
                ));
            }
        }
    }

    /// Follows a change of the driver.
    fn apply(&mut self, change: Change) {
        match change {
            Change::Round { number, workers } => {
                self.has_begun = true;
                let ranks: Vec<String> = workers.iter().map(u64::to_string).collect();
                let ranks = ranks.join(", ");
                self.note(format!(
                    "round {number}: {} ranks, which are workers {ranks}",
                    workers.len()
                ));
            }
            Change::Dropped { worker, why } => {
                let at = usize::try_from(worker).unwrap_or(usize::MAX);
                if let Some(dropped) = self.workers.get_mut(at) {
                    // A stopped process cannot end by itself.
                    dropped.leaves |= dropped.task.is_running();
                    dropped.task.kill();
                }
                self.note(format!("worker {worker} is let go: {why}"));
            }
            Change::Ended(why) => self.shut_down(why, 1),
            // The driver notifies the workers.
            Change::EndRound(_) => {}
        }
    }

    /// Tells workers to leave whose hosts have fewer slots than before.
    fn release_workers(&mut self) {
        let mut used = std::collections::BTreeMap::<String, usize>::new();
        let workers = self.workers.iter_mut().enumerate();
        for (number, worker) in workers.filter(|(_, w)| w.task.is_running() && !w.leaves) {
            let used = used.entry(worker.host.clone()).or_default();
            *used += 1;
            if *used > self.hosts.slots(&worker.host) {
                worker.leaves = true;
                self.driver.leave(number as u64);
            }
        }
    }

    /// Starts workers on hosts with free slots.
    fn start_workers(&mut self) -> Result<()> {
        let runs = |w: &&WorkerProcess| w.task.is_running() && !w.leaves;
        let mut all = self.workers.iter().filter(runs).count();
        let usable: Vec<(String, usize)> = self
            .hosts
            .usable()
            .map(|(host, slots)| (host.to_owned(), slots))
            .collect();
        for (host, slots) in usable {
            let here = self.workers.iter().filter(runs).filter(|w| w.host == host);
            for _ in here.count()..slots {
                if all >= self.max {
                    return Ok(());
                }
                self.start(&host)?;
                all += 1;
            }
        }
        Ok(())
    }

    fn start(&mut self, host: &str) -> Result<()> {
        let number = self.workers.len();
        let address = self.driver.address();
        let [name, args @ ..] = &self.options.command[..] else {
            return Err("no program is named".into());
        };
        let mut command = Command::new(program_path(name));
        command
            .args(args)
            .env(variables::ELASTIC, "1")
            .env(variables::WORKER, number.to_string())
            .env(variables::HOST, host)
            .env(variables::ADDRESS, address.ip().to_string())
            .env(variables::PORT, address.port().to_string())
            .env(variables::SECRET, &self.secret);
        if let Some(folder) = &self.options.protection {
            command.env(variables::PROTECTION, folder);
        }
        let title = format!("worker {number}");
        // An error is a screen that has ended: lines of the worker are lost then, which is reported in the end.
        let _ = self.events.send(ScreenEvent::Started {
            name: title.clone(),
        });
        let spec = TaskSpec {
            name: title,
            worker: true,
            command,
            input: None,
        };
        let task = LaunchedTask::start(spec, number, &self.events)?;
        self.workers.push(WorkerProcess {
            host: host.to_owned(),
            task,
            leaves: false,
        });
        Ok(())
    }
}
