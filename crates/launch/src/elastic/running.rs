//! Supervision of an elastic job while it runs: workers are started, replaced and let go.

use std::process::Command;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use thalweg_collective::elastic::{Change, Driver};
use thalweg_launch_env::variables;

use super::hosts::Hosts;
use super::options::ElasticJob;
use crate::error::Result;
use crate::job_exit::JobExit;
use crate::program::program_path;
use crate::screen::{ScreenEvent, show};
use crate::signals;
use crate::task::{LaunchedTask, TaskProgram, TaskSpec, status_text};

/// Time in which a worker ends that was told to, and writes why.
const TOLD_TIMEOUT: Duration = Duration::from_secs(2);

/// Worker process. Its number is its index among all that were started.
struct WorkerProcess {
    host: String,
    task: LaunchedTask,
    leaves: bool,
    /// Time at which it was let go. It ends by itself, so that it can say why.
    dropped_at: Option<Instant>,
}

/// Elastic job while it runs.
pub(super) struct RunningJob<'a> {
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
    /// `true` if the driver has told the workers, which end by themselves then.
    told: bool,
}

impl<'a> RunningJob<'a> {
    /// Job without workers yet, of at most `max`; its driver admits those that know the secret.
    pub(super) fn new(
        options: &'a ElasticJob,
        (driver, secret): (Driver, String),
        hosts: Hosts,
        max: usize,
        events: SyncSender<ScreenEvent>,
    ) -> RunningJob<'a> {
        RunningJob {
            options,
            secret,
            driver,
            hosts,
            workers: Vec::new(),
            max,
            has_begun: false,
            events,
            shutdown: None,
        }
    }

    /// `true` while a worker runs, or others are to come.
    pub(super) fn goes_on(&self) -> bool {
        let waits = self.shutdown.is_none() && !self.driver.is_finishing();
        waits || self.workers.iter().any(|w| w.task.is_running())
    }

    /// Ends the job for a signal; a second one kills all workers.
    pub(super) fn take_signal(&mut self, signal: i32) {
        if self.shutdown.is_some() {
            self.kill_all();
        }
        self.shut_down(format!("ended by {}", signals::name(signal)), 128 + signal);
    }

    /// Drops the job; returns its end if it has failed.
    pub(super) fn end(mut self) -> Option<JobExit> {
        let Shutdown { reason, code, .. } = self.shutdown.take()?;
        Some(JobExit::new(code, format!("error: {reason}")))
    }

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
            told: false,
        });
    }

    fn kill_all(&mut self) {
        for worker in &mut self.workers {
            worker.task.kill();
        }
    }

    /// Polls the driver, the workers and the hosts, and starts workers.
    pub(super) fn poll(&mut self) -> Result<()> {
        // Changes come first: a worker that ends after a round has begun is replaced.
        for change in self.driver.changes() {
            self.apply(change);
        }
        for line in self.driver.lines() {
            self.note(line);
        }
        self.reap();
        self.kill_dropped();
        if let Some((since, told)) = self.shutdown.as_ref().map(|s| (s.since, s.told)) {
            if !told || since.elapsed() > TOLD_TIMEOUT {
                for worker in &mut self.workers {
                    worker.task.terminate();
                }
            }
            if since.elapsed() > self.options.grace {
                self.kill_all();
            }
            return Ok(());
        }
        if let Some(line) = self.hosts.poll() {
            self.note(line);
        }
        let timeout = self.options.timeout;
        if let Some((script, time)) = self.hosts.empty_for()
            && time > timeout
            && !self.driver.is_finishing()
        {
            let reason = format!(
                "the host discovery script '{script}' has named no host for {timeout:?}: give hosts, or raise --elastic-timeout"
            );
            self.shut_down(reason, 1);
            return Ok(());
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
            let name = worker.task.spec.name.clone();
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
                    dropped.leaves |= dropped.task.is_running();
                    dropped.dropped_at.get_or_insert_with(Instant::now);
                }
                self.note(format!("worker {worker} is let go: {why}"));
            }
            Change::Ended(why) => {
                self.shut_down(why, 1);
                if let Some(shutdown) = &mut self.shutdown {
                    shutdown.told = true;
                }
            }
            // The driver notifies the workers.
            Change::EndRound(_) => {}
        }
    }

    /// Kills workers that were let go and do not end by themselves, as a stopped process.
    fn kill_dropped(&mut self) {
        for worker in &mut self.workers {
            if worker
                .dropped_at
                .is_some_and(|at| at.elapsed() > TOLD_TIMEOUT)
            {
                worker.task.kill();
            }
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
    pub(super) fn start_workers(&mut self) -> Result<()> {
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
            program: TaskProgram::Local(command),
        };
        let task = LaunchedTask::start(spec, number, &self.events)?;
        self.workers.push(WorkerProcess {
            host: host.to_owned(),
            task,
            leaves: false,
            dropped_at: None,
        });
        Ok(())
    }
}
