//! Elastic jobs: workers are started and replaced while the job runs.

mod hosts;

use std::net::TcpListener;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use thalweg_collective::elastic::{Change, Driver, Limits};
use thalweg_collective::variables;

use super::hvd::{Hvd, secret};
use super::screen::{Event, STUCK, Screen};
use super::signals::Signals;
use super::task::{self, LaunchedTask};
use super::tasks::{all_done, tell};
use super::{LINES, Started, program};
use crate::{Failure, say};
use hosts::Hosts;

/// How often workers, hosts and signals are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a worker may be silent: less than in other jobs, as the others can go on without it.
const SILENCE: Duration = Duration::from_secs(3);

/// A worker that was started. Its number is its place among all that were.
struct Launched {
    host: String,
    task: LaunchedTask,
    leaves: bool,
}

/// An elastic job that runs.
struct ElasticJob<'a> {
    options: &'a Hvd,
    secret: String,
    driver: Driver,
    hosts: Hosts,
    workers: Vec<Launched>,
    max: usize,
    /// Whether a round has begun.
    has_begun: bool,
    events: SyncSender<Event>,
    end: Option<End>,
}

/// Why a job ends, and since when.
struct End {
    why: String,
    status: u8,
    since: Instant,
}

/// Runs the job until all of its workers have ended.
pub fn run(options: &Hvd) -> Result<ExitCode, Failure> {
    let cooldown = options.cooldown();
    let hosts = match &options.host_discovery_script {
        Some(script) => Hosts::of_script(script, cooldown)?,
        None => Hosts::local(options.ranks as usize, cooldown),
    };
    let (start, min) = (options.ranks as usize, options.min_np.unwrap_or(1) as usize);
    let max = match (options.max_np, &options.host_discovery_script) {
        (Some(max), Some(_)) => max as usize,
        (None, Some(_)) => usize::MAX,
        (Some(max), None) if max > options.ranks => {
            return Err(format!(
                "--max-np {max} needs --host-discovery-script: without one there are slots for --np {start} workers"
            )
            .into());
        }
        (max, None) => max.unwrap_or(options.ranks) as usize,
    };
    if min > start {
        return Err(format!("--min-np {min} is more than --np {start}").into());
    }
    if start > max {
        return Err(format!("--np {start} is more than --max-np {max}").into());
    }
    let limits = Limits {
        start,
        min,
        max,
        patience: Duration::from_secs(options.elastic_timeout.unwrap_or(600).into()),
        resets: options.reset_limit.map(u64::from),
        ..Limits::of(start)
    };
    let secret = secret()?;
    let protected = options.protected(&secret)?;
    let driver = Driver::start(
        TcpListener::bind("127.0.0.1:0")?,
        &protected,
        limits,
        SILENCE,
    )?;
    let mut signals = Signals::catch()?;
    let (events, shown) = sync_channel(LINES);
    let screen = Screen::start(Vec::new(), shown)?;
    let mut job = ElasticJob {
        options,
        secret,
        driver,
        hosts,
        workers: Vec::new(),
        max,
        has_begun: false,
        events,
        end: None,
    };
    job.start_workers()?;
    while job.workers.iter().any(|w| w.task.runs()) || job.waits_for_workers() {
        std::thread::sleep(TICK);
        for signal in signals.came() {
            if job.end.is_some() {
                job.kill_all();
            }
            let status = u8::try_from(128 + signal).unwrap_or(1);
            job.end(format!("ended by {}", super::signals::name(signal)), status);
        }
        job.look()?;
    }
    let end = job.end.take();
    // The screen ends when nobody can send it events any more.
    drop(job);
    let lost = screen.end();
    let Some(End { why, status, .. }) = end else {
        return Ok(all_done(lost));
    };
    say::error_within(STUCK, format_args!("error: {why}"));
    Ok(ExitCode::from(status))
}

impl ElasticJob<'_> {
    fn note(&self, line: String) {
        tell(Event::Note(line), &self.events);
    }

    fn end(&mut self, why: String, status: u8) {
        let since = Instant::now();
        self.end.get_or_insert(End { why, status, since });
    }

    /// Whether the job goes on although no worker runs: until it is said to have ended.
    fn waits_for_workers(&self) -> bool {
        self.end.is_none() && !self.driver.is_finishing()
    }

    fn kill_all(&mut self) {
        for worker in &mut self.workers {
            worker.task.kill();
        }
    }

    /// One look at everything.
    fn look(&mut self) -> Result<(), Failure> {
        // Changes first: a worker that ends after a round has begun is replaced.
        for change in self.driver.changes() {
            self.follow(change);
        }
        for line in self.driver.said() {
            self.note(line);
        }
        self.reap();
        if let Some(since) = self.end.as_ref().map(|end| end.since) {
            for worker in &mut self.workers {
                worker.task.terminate();
            }
            if since.elapsed() > self.options.grace() {
                self.kill_all();
            }
            return Ok(());
        }
        if let Some(line) = self.hosts.look() {
            self.note(line);
        }
        self.let_go();
        if self.driver.is_finishing() {
            return Ok(());
        }
        self.start_workers()
    }

    /// Notes whose processes have ended.
    fn reap(&mut self) {
        for at in 0..self.workers.len() {
            let worker = &mut self.workers[at];
            let Some(code) = worker.task.ended() else {
                continue;
            };
            let (number, host) = (at as u64, worker.host.clone());
            let told = worker.task.was_told() || worker.leaves;
            let name = worker.task.name.clone();
            tell(Event::Gone { task: at }, &self.events);
            if code == 0 {
                self.driver.done(number);
                continue;
            }
            self.driver.gone(number);
            if told {
                continue;
            }
            let how = task::status(code);
            let status = u8::try_from(code).unwrap_or(1);
            if !self.has_begun || self.driver.is_finishing() {
                self.end(format!("{name} {how}"), status);
            } else {
                let rest = self.hosts.failed(&host).as_secs_f64();
                self.note(format!(
                    "{name} {how}: {host} starts no other one for {rest:.0} s"
                ));
            }
        }
    }

    fn follow(&mut self, change: Change) {
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
                if let Some(of) = self.workers.get_mut(at) {
                    // It may be stopped, and not able to end by itself.
                    of.leaves |= of.task.runs();
                    of.task.kill();
                }
                self.note(format!("worker {worker} is let go: {why}"));
            }
            Change::Ended(why) => self.end(why, 1),
            // Workers hear of it.
            Change::Changed(_) => {}
        }
    }

    /// Tells workers to leave whose hosts have fewer slots than before.
    fn let_go(&mut self) {
        let mut seen = std::collections::BTreeMap::<String, usize>::new();
        let workers = self.workers.iter_mut().enumerate();
        for (number, worker) in workers.filter(|(_, w)| w.task.runs() && !w.leaves) {
            let used = seen.entry(worker.host.clone()).or_default();
            *used += 1;
            if *used > self.hosts.slots(&worker.host) {
                worker.leaves = true;
                self.driver.leave(number as u64);
            }
        }
    }

    /// Starts workers where there are slots for them.
    fn start_workers(&mut self) -> Result<(), Failure> {
        let runs = |w: &&Launched| w.task.runs() && !w.leaves;
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

    fn start(&mut self, host: &str) -> Result<(), Failure> {
        let number = self.workers.len();
        let address = self.driver.address();
        let [name, args @ ..] = &self.options.command[..] else {
            return Err("no program is named".into());
        };
        let mut command = Command::new(program(name));
        command
            .args(args)
            .env(variables::ELASTIC, "1")
            .env(variables::WORKER, number.to_string())
            .env(variables::HOST, host)
            .env(variables::ADDRESS, address.ip().to_string())
            .env(variables::PORT, address.port().to_string())
            .env(variables::SECRET, &self.secret);
        if let Some(folder) = self.options.protection() {
            command.env(variables::PROTECTION, folder);
        }
        let title = format!("worker {number}");
        // An error is a screen that has ended: lines of the worker are lost then, which is said in the end.
        let _ = self.events.send(Event::Started {
            name: title.clone(),
        });
        let started = Started {
            name: title,
            worker: true,
            command,
            input: None,
        };
        let task = LaunchedTask::start(started, number, &self.events)?;
        self.workers.push(Launched {
            host: host.to_owned(),
            task,
            leaves: false,
        });
        Ok(())
    }
}
