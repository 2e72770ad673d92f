//! Agents of the other hosts of an elastic job: they are started, checked, and ended while the job runs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::{Builder, JoinHandle};

use crate::access::command_of_words;
use crate::error::Result;
use crate::hosted_job::HostedJob;
use crate::layout::JobHost;
use crate::preflight::{JoinChecks, JoiningHost};
use crate::protocol::ProbeRequest;
use crate::remote::AgentLink;
use crate::screen::ScreenEvent;

/// Agents of the other hosts of an elastic job. They end when this is dropped.
pub(super) struct Agents<'a> {
    job: &'a HostedJob,
    /// Address of this host, at which workers meet.
    own: IpAddr,
    /// `true` if other hosts cannot reach that address.
    here_only: bool,
    agents: BTreeMap<String, Agent>,
    /// Threads that wait for agents which end.
    closing: Vec<JoinHandle<()>>,
}

enum Agent {
    Joins(JoiningHost),
    Ready(Arc<AgentLink>),
}

/// Change of a host.
pub(super) enum HostChange {
    /// Its agent has started, and all checks are done.
    Joined,
    /// It cannot join, for this reason.
    Refused(String),
    /// Its agent was ready and is lost, for this reason.
    Lost(String),
}

impl<'a> Agents<'a> {
    /// No agents yet. `hosts` are those with which the job begins.
    ///
    /// # Errors
    /// As [`HostedJob::own_address`].
    pub(super) fn new(job: &'a HostedJob, hosts: &[JobHost]) -> Result<Agents<'a>> {
        let is_allowed = job.options.check_protection().is_ok();
        let given = job.options.address.filter(|_| is_allowed);
        let own = match given {
            Some(address) => address,
            None => job.own_address(hosts)?,
        };
        let all_here = hosts.iter().all(|host| job.access.is_local(&host.name));
        Ok(Agents {
            job,
            own,
            here_only: given.is_none() && all_here,
            agents: BTreeMap::new(),
            closing: Vec::new(),
        })
    }

    /// Address of this host, at which workers meet.
    pub(super) fn own_address(&self) -> IpAddr {
        self.own
    }

    /// `true` for a host that needs an agent and has none.
    pub(super) fn misses(&self, host: &str) -> bool {
        !self.job.access.is_local(host) && !self.agents.contains_key(host)
    }

    /// `true` if an agent has been started and is not ready.
    pub(super) fn any_joins(&self) -> bool {
        let joins = |agent: &Agent| matches!(agent, Agent::Joins(_));
        self.agents.values().any(joins)
    }

    /// Connection to the agent of a host, once it is ready.
    pub(super) fn ready(&self, host: &str) -> Option<&Arc<AgentLink>> {
        match self.agents.get(host)? {
            Agent::Ready(link) => Some(link),
            Agent::Joins(_) => None,
        }
    }

    /// Starts the agent of a host.
    ///
    /// # Errors
    /// The network is not trusted, or the host does not reach the launcher; the access program cannot be started.
    pub(super) fn open(&mut self, host: &str, events: &SyncSender<ScreenEvent>) -> Result<()> {
        self.job.options.check_protection()?;
        if self.here_only {
            return Err(format!(
                "the job began on this host alone, and listens at {}: give --address, the address of this host that the others \
                 reach",
                self.own
            )
            .into());
        }
        let (program, folder) = self.job.program(false)?;
        let words = self.job.access.command(host, &self.job.agent_path());
        let link = AgentLink::open(host, command_of_words(&words), events)?;
        let options = &self.job.options;
        let checks = JoinChecks {
            probe: ProbeRequest {
                program,
                folder,
                ..ProbeRequest::default()
            },
            launcher: options.check_network.then_some(self.own),
            start_timeout: options.start_timeout,
        };
        let joining = JoiningHost::new(host, Arc::new(link), checks);
        self.agents.insert(host.to_owned(), Agent::Joins(joining));
        Ok(())
    }

    /// Returns the hosts that have changed since the last call.
    pub(super) fn poll(&mut self, events: &SyncSender<ScreenEvent>) -> Vec<(String, HostChange)> {
        let mut changes = Vec::new();
        for (host, agent) in &mut self.agents {
            let change = match agent {
                Agent::Joins(joining) => match joining.poll(events) {
                    Ok(false) => continue,
                    Ok(true) => {
                        *agent = Agent::Ready(joining.link().clone());
                        HostChange::Joined
                    }
                    Err(reason) => HostChange::Refused(reason),
                },
                Agent::Ready(link) => match link.poll_answer() {
                    // Nothing was asked.
                    Ok(_) => continue,
                    Err(reason) => HostChange::Lost(reason),
                },
            };
            changes.push((host.clone(), change));
        }
        let gone = changes
            .iter()
            .filter(|(_, change)| !matches!(change, HostChange::Joined));
        for (host, _) in gone {
            if let Some(agent) = self.agents.remove(host) {
                agent.link().lose("it was given up".to_owned());
                self.close(agent);
            }
        }
        self.closing.retain(|thread| !thread.is_finished());
        changes
    }

    /// Ends the agents of hosts that are not needed. Their workers have ended.
    pub(super) fn retain(&mut self, is_needed: impl Fn(&str) -> bool) {
        let unneeded = self.agents.keys().filter(|host| !is_needed(host));
        for host in unneeded.cloned().collect::<Vec<_>>() {
            if let Some(agent) = self.agents.remove(&host) {
                self.close(agent);
            }
        }
    }

    /// Tells all agents that no more workers come. Those without lines of workers are ended at once: one that hangs would hold up the
    /// screen.
    pub(super) fn finish(&mut self) {
        for agent in self.agents.values() {
            match agent {
                Agent::Ready(link) if link.has_run_tasks() => link.finish(),
                _ => agent.link().lose("the job has ended".to_owned()),
            }
        }
    }

    /// Ends an agent, in a thread: its last lines, and the end of the access program, take time.
    fn close(&mut self, agent: Agent) {
        if let Agent::Joins(joining) = &agent {
            joining.link().lose("the host is not needed".to_owned());
        }
        let link = agent.link().clone();
        // The agent ends all the same, when the connection is dropped.
        let thread = Builder::new().spawn(move || link.close_after_lines());
        self.closing.extend(thread);
    }
}

impl Agent {
    fn link(&self) -> &Arc<AgentLink> {
        match self {
            Agent::Joins(joining) => joining.link(),
            Agent::Ready(link) => link,
        }
    }
}

impl Drop for Agents<'_> {
    fn drop(&mut self) {
        for (_, agent) in std::mem::take(&mut self.agents) {
            self.close(agent);
        }
        for thread in self.closing.drain(..) {
            // An error is a thread that has panicked, which ended nothing.
            let _ = thread.join();
        }
    }
}
