//! Run of an elastic job: checks its options, and supervises its workers until all have ended.

use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use thalweg_collective::Secret;
use thalweg_collective::elastic::{Driver, ElasticLimits};

use super::agents::Agents;
use super::hosts::Hosts;
use super::options::ElasticJob;
use super::running::RunningJob;
use crate::console::EVENT_QUEUE;
use crate::error::Result;
use crate::hosted_job::named_twice;
use crate::job::POLL_INTERVAL;
use crate::job_exit::JobExit;
use crate::layout::JobHost;
use crate::screen::Screen;
use crate::secret::job_secret;
use crate::signals::Signals;

/// Silence after which a worker is lost: less than in other jobs, as the others can go on without it.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);

impl ElasticJob {
    /// Runs the job until all of its workers have ended.
    ///
    /// # Errors
    /// The numbers of ranks contradict each other, or the options are of ranks that stay; the discovery script fails; the network
    /// is not trusted; a worker cannot be started on this host.
    pub fn run(&self) -> Result<JobExit> {
        let start = self.checked_ranks()?;
        let hosts = self.hosts(start)?;
        let limits = self.limits(start, &hosts)?;
        let max = limits.max;
        let agents = Agents::new(&self.job, &self.first_hosts(&hosts))?;
        let secret = job_secret()?;
        let mut shared = Secret::from(&secret);
        if let Some(folder) = &self.job.options.protection {
            shared = shared.protected(folder)?;
        }
        let listener = self.job.listener(agents.own_address())?;
        let driver = Driver::start(listener, &shared, limits, SILENCE_TIMEOUT)?;
        let mut signals = Signals::catch()?;
        let (events, shown) = sync_channel(EVENT_QUEUE);
        let screen = Screen::start(Vec::new(), Vec::new(), shown)?;
        let mut job = RunningJob::new(self, (driver, secret), (hosts, agents), max, events);
        job.poll()?;
        while job.goes_on() {
            std::thread::sleep(POLL_INTERVAL);
            for signal in signals.pending() {
                job.take_signal(signal);
            }
            job.poll()?;
        }
        Ok(job.end(screen))
    }

    /// Hosts with which the job begins.
    ///
    /// # Errors
    /// A host is named twice; the discovery script fails.
    fn hosts(&self, start: usize) -> Result<Hosts> {
        let cooldown = self.elastic.cooldown;
        if let Some(script) = &self.elastic.discovery_script {
            return Hosts::of_script(script, cooldown);
        }
        if self.job.hosts.is_empty() {
            let slots = BTreeMap::from([("localhost".to_owned(), start)]);
            return Ok(Hosts::fixed(slots, cooldown));
        }
        let mut slots = BTreeMap::new();
        for host in &self.job.hosts {
            let own = host.slots.unwrap_or(1);
            if slots.insert(host.name.clone(), own).is_some() {
                return Err(named_twice(&host.name));
            }
        }
        Ok(Hosts::fixed(slots, cooldown))
    }

    /// Hosts with which the job begins, with their addresses as far as they are given.
    fn first_hosts(&self, hosts: &Hosts) -> Vec<JobHost> {
        match self.elastic.discovery_script {
            None => self.job.hosts.clone(),
            Some(_) => {
                let host = |name: &str| JobHost {
                    name: name.to_owned(),
                    ..JobHost::default()
                };
                hosts.named().map(host).collect()
            }
        }
    }

    /// # Errors
    /// The numbers of ranks contradict each other, or the slots of hosts that stay.
    fn limits(&self, start: usize, hosts: &Hosts) -> Result<ElasticLimits> {
        let min = self.elastic.min_ranks.unwrap_or(1);
        let has_script = self.elastic.discovery_script.is_some();
        let slots = match has_script {
            true => usize::MAX,
            false => hosts.all_slots(),
        };
        let max = self.elastic.max_ranks.unwrap_or(slots);
        if min > start {
            return Err(format!("--min-np {min} is more than --np {start}").into());
        }
        if start > max && self.elastic.max_ranks.is_some() {
            return Err(format!("--np {start} is more than --max-np {max}").into());
        }
        if start > slots {
            return Err(format!("the hosts have {slots} slots for {start} ranks").into());
        }
        if max > slots {
            return Err(format!(
                "--max-np {max} needs --host-discovery-script: without one there are slots for {slots} workers"
            )
            .into());
        }
        Ok(ElasticLimits {
            start,
            min,
            max,
            timeout: self.elastic.timeout,
            resets: self.elastic.reset_limit,
            ..ElasticLimits::of(start)
        })
    }
}
