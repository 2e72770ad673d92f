//! Start of the agents and workers of an elastic job.

use thalweg_launch_env::variables;

use super::running::RunningJob;
use crate::error::Result;
use crate::process::command_of;
use crate::protocol::StartTask;
use crate::task::TaskProgram;

impl RunningJob<'_> {
    /// Starts agents of hosts that have none.
    pub(super) fn open_agents(&mut self) {
        let usable = self.hosts.usable().map(|(host, _)| host);
        let missing = usable.filter(|host| self.agents.misses(host));
        for host in missing.map(str::to_owned).collect::<Vec<_>>() {
            if let Err(error) = self.agents.open(&host, &self.events) {
                self.refuse(&host, &error.to_string());
            }
        }
    }

    /// Ends a job that cannot begin, as none of its hosts can be used.
    pub(super) fn check_start(&mut self) {
        if self.has_begun || self.workers.any_runs() || self.agents.any_joins() {
            return;
        }
        let unusable = self.hosts.unusable();
        if !unusable.is_empty() && unusable.len() == self.hosts.named().count() {
            let reason = format!("none of the hosts can be used\n{}", unusable.join("\n"));
            self.shut_down(reason, 1);
        }
    }

    /// Starts workers on hosts with free slots.
    pub(super) fn start_workers(&mut self) -> Result<()> {
        let mut all = self.workers.staying();
        let usable: Vec<(String, usize)> = self
            .hosts
            .usable()
            .map(|(host, slots)| (host.to_owned(), slots))
            .collect();
        for (host, slots) in usable {
            for _ in self.workers.staying_on(&host)..slots {
                if all >= self.max {
                    return Ok(());
                }
                let Some(program) = self.program(&host)? else {
                    break;
                };
                if !self.workers.start(&host, program)? {
                    return Ok(());
                }
                all += 1;
            }
        }
        Ok(())
    }

    /// Program of the next worker; `None` if its host is not ready.
    fn program(&self, host: &str) -> Result<Option<TaskProgram>> {
        let job = &self.options.job;
        let is_local = job.access.is_local(host);
        let link = self.agents.ready(host);
        if !is_local && link.is_none() {
            return Ok(None);
        }
        let address = self.driver.address();
        let own = [
            (variables::ELASTIC, "1".to_owned()),
            (variables::WORKER, self.workers.next_number().to_string()),
            (variables::HOST, host.to_owned()),
            (variables::ADDRESS, address.ip().to_string()),
            (variables::PORT, address.port().to_string()),
            (variables::SECRET, self.secret.clone()),
        ];
        let base = job.base_start(is_local)?;
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let env = [&base.env, &own[..], &job.options.env].concat();
        let start = StartTask { env, ..base };
        Ok(Some(match link {
            Some(link) => TaskProgram::Remote(link.clone(), Box::new(start)),
            None => TaskProgram::Local(command_of(&start)),
        }))
    }
}
