//! Supervision of an elastic job while it runs: hosts join and are lost, workers are started, replaced and let go.

use std::sync::mpsc::SyncSender;
use std::time::Instant;

use thalweg_collective::elastic::{Change, Driver};

use super::agents::{Agents, HostChange};
use super::hosts::Hosts;
use super::options::ElasticJob;
use super::workers::{EndedWorker, TOLD_TIMEOUT, Workers};
use crate::error::Result;
use crate::job_exit::JobExit;
use crate::screen::{Screen, ScreenEvent, show};
use crate::signals;
use crate::task::status_text;

/// Elastic job while it runs.
pub(super) struct RunningJob<'a> {
    pub(super) options: &'a ElasticJob,
    pub(super) secret: String,
    pub(super) driver: Driver,
    pub(super) hosts: Hosts,
    // Workers end before the agents that run them.
    pub(super) workers: Workers,
    pub(super) agents: Agents<'a>,
    pub(super) max: usize,
    /// `true` once the first round has begun.
    pub(super) has_begun: bool,
    pub(super) events: SyncSender<ScreenEvent>,
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
        (hosts, agents): (Hosts, Agents<'a>),
        max: usize,
        events: SyncSender<ScreenEvent>,
    ) -> RunningJob<'a> {
        RunningJob {
            options,
            secret,
            driver,
            hosts,
            workers: Workers::new(events.clone()),
            agents,
            max,
            has_begun: false,
            events,
            shutdown: None,
        }
    }

    /// `true` while a worker runs, or others are to come.
    pub(super) fn goes_on(&self) -> bool {
        let waits = self.shutdown.is_none() && !self.driver.is_finishing();
        waits || self.workers.any_runs()
    }

    /// Ends the job for a signal; a second one kills all workers.
    pub(super) fn take_signal(&mut self, signal: i32) {
        if self.shutdown.is_some() {
            self.workers.kill();
        }
        self.shut_down(format!("ended by {}", signals::name(signal)), 128 + signal);
    }

    /// Ends the job, whose workers have ended, and its screen after the last lines.
    pub(super) fn end(self, screen: Screen) -> JobExit {
        let RunningJob {
            mut agents,
            workers,
            events,
            shutdown,
            ..
        } = self;
        agents.finish();
        // The screen ends when all senders of events are dropped.
        drop((workers, events));
        let lost = screen.end();
        match shutdown {
            Some(Shutdown { reason, code, .. }) => JobExit::new(code, format!("error: {reason}")),
            None => JobExit::success(lost),
        }
    }

    fn note(&self, line: String) {
        show(ScreenEvent::Note(line), &self.events);
    }

    /// Begins the end of the job, for the first reason.
    pub(super) fn shut_down(&mut self, reason: String, code: i32) {
        let since = Instant::now();
        self.shutdown.get_or_insert(Shutdown {
            reason,
            code,
            since,
            told: false,
        });
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
        for ended in self.workers.reap() {
            self.take_end(ended);
        }
        self.workers.kill_late();
        if self.poll_shutdown() {
            return Ok(());
        }
        self.poll_hosts();
        for worker in self.workers.leaving(|host| self.hosts.slots(host)) {
            // It is told again: a worker that has not connected yet is not known to the driver.
            self.driver.leave(worker);
        }
        let (hosts, workers) = (&self.hosts, &self.workers);
        self.agents
            .retain(|host| hosts.slots(host) > 0 || workers.run_on(host));
        if self.shutdown.is_some() || self.driver.is_finishing() {
            return Ok(());
        }
        self.open_agents();
        self.start_workers()?;
        self.check_start();
        Ok(())
    }

    /// Ends workers of a job that ends; returns `false` if it goes on.
    fn poll_shutdown(&mut self) -> bool {
        let Some(Shutdown { since, told, .. }) = &self.shutdown else {
            return false;
        };
        let since = since.elapsed();
        if !told || since > TOLD_TIMEOUT {
            self.workers.terminate();
        }
        if since > self.options.job.options.grace {
            self.workers.kill();
        }
        true
    }

    /// Handles a worker whose process has ended.
    fn take_end(&mut self, ended: EndedWorker) {
        let EndedWorker {
            number,
            name,
            host,
            code,
            lost,
            expected,
        } = ended;
        if code == 0 {
            return self.driver.mark_done(number);
        }
        self.driver.mark_lost(number);
        if expected {
            return;
        }
        let how = status_text(code);
        if let Some(lost) = lost {
            // The failure is that of the host, which is counted once for all of its workers.
            self.note(format!("{name} was {lost}"));
        } else if !self.has_begun || self.driver.is_finishing() {
            self.shut_down(format!("{name} {how}"), code);
        } else {
            let rest = self.hosts.failed(&host).as_secs_f64();
            self.note(format!(
                "{name} {how}: {host} starts no other one for {rest:.0} s"
            ));
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
                self.workers.let_go(worker);
                self.note(format!("worker {worker} is let go: {why}"));
            }
            Change::Ended(why) => {
                let all = [vec![why], self.hosts.unusable()].concat();
                self.shut_down(all.join("\n"), 1);
                if let Some(shutdown) = &mut self.shutdown {
                    shutdown.told = true;
                }
            }
            // The driver notifies the workers.
            Change::EndRound(_) => {}
        }
    }

    /// Follows the discovery script and the agents.
    fn poll_hosts(&mut self) {
        if let Some(line) = self.hosts.poll() {
            self.note(line);
        }
        let timeout = self.options.elastic.timeout;
        if let Some((script, time)) = self.hosts.empty_for()
            && time > timeout
            && !self.driver.is_finishing()
        {
            let reason = format!(
                "the host discovery script '{script}' has named no host for {timeout:?}: give hosts, or raise --elastic-timeout"
            );
            self.shut_down(reason, 1);
        }
        for (host, change) in self.agents.poll(&self.events) {
            match change {
                HostChange::Joined => {
                    if self.hosts.joined(&host) {
                        self.note(format!("the host '{host}' can be used again"));
                    }
                }
                HostChange::Refused(reason) => self.refuse(&host, &reason),
                HostChange::Lost(reason) => {
                    let rest = self.hosts.lost(&host, &reason).as_secs_f64();
                    self.note(format!(
                        "the host '{host}' is lost: {reason}: it starts no worker for {rest:.0} s"
                    ));
                }
            }
        }
    }

    /// Notes that a host cannot join.
    pub(super) fn refuse(&mut self, host: &str, reason: &str) {
        let rest = self.hosts.lost(host, reason).as_secs_f64();
        self.note(format!(
            "the host '{host}' cannot be used: {reason}: it is tried again after {rest:.0} s"
        ));
    }
}
