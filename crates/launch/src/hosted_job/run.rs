//! Run of a job: agents, checks, tasks, and their end.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel};

use super::job::HostedJob;
use super::plan::Places;
use crate::access::command_of_words;
use crate::console::Console;
use crate::error::{LaunchError, Result};
use crate::job::{Supervision, TasksEnd, run_tasks};
use crate::job_exit::JobExit;
use crate::layout::{JobShape, TaskKind};
use crate::preflight::{Asker, Endpoint, HostState, ReadyHost, check_network, greet, probe_hosts};
use crate::process::command_of;
use crate::protocol::{ProbeRequest, StartTask};
use crate::remote::AgentLink;
use crate::screen::ScreenEvent;
use crate::signals;
use crate::task::{TaskProgram, TaskSpec};
use crate::trace::check_trace;

impl HostedJob {
    /// Starts all tasks, and returns when all have ended.
    ///
    /// # Errors
    /// The hosts are too few, or are not reached, or do not reach each other; the program cannot be started; the trace or a file
    /// of output cannot be written.
    pub fn run(&self) -> Result<JobExit> {
        if let Some(path) = &self.options.trace {
            check_trace(path)?;
        }
        let run = || match &self.shape {
            JobShape::Ranks(ranks) => self.run_ranks(*ranks),
            JobShape::Cluster(_) => self.run_cluster(),
        };
        match run() {
            Err(LaunchError::Interrupted(signal)) => {
                let text = format!("ended by {}", signals::name(signal));
                Ok(JobExit::new(128 + signal, text))
            }
            ended => ended,
        }
    }

    fn run_cluster(&self) -> Result<JobExit> {
        let mut places = self.places()?;
        let own = self.own_address(&places.hosts)?;
        let mut console = Console::catch()?;
        let hosts = self.ready_hosts(&mut places, own, &mut console)?;
        let starts = self.starts(&places, own, None)?;
        let metrics = places.tasks.iter();
        let metrics = metrics.filter_map(|task| self.metrics_address(&places, own, task));
        let metrics: Vec<String> = metrics.collect();
        if !metrics.is_empty() {
            console.note(format!("metrics: thalweg top {}", metrics.join(" ")));
        }
        let end = self.run_on(
            &places,
            &starts,
            &hosts,
            &mut console,
            &channel().1,
            &|| None,
        )?;
        Ok(end.exit(console))
    }

    /// Runs tasks on hosts that are ready, and returns when all have ended. The last lines of other hosts are still to come.
    pub(super) fn run_on(
        &self,
        places: &Places,
        starts: &[StartTask],
        hosts: &[ReadyHost],
        console: &mut Console,
        notes: &Receiver<String>,
        first_failed: &dyn Fn() -> Option<usize>,
    ) -> Result<TasksEnd> {
        let tasks = places.tasks.iter().zip(starts);
        let specs = tasks.map(|(task, start)| TaskSpec {
            name: task.name(),
            worker: task.kind != TaskKind::Server,
            program: match &hosts[task.host].link {
                Some(link) => TaskProgram::Remote(link.clone(), Box::new(start.clone())),
                None => TaskProgram::Local(command_of(start)),
            },
        });
        let specs = specs.collect();
        let options = Supervision {
            grace: self.options.grace,
            restarts: match self.shape {
                JobShape::Ranks(_) => 0,
                JobShape::Cluster(_) => self.options.restarts,
            },
            output_dir: self.options.output_dir.clone(),
        };
        let end = run_tasks(specs, console, &options, notes, first_failed);
        let links = hosts.iter().filter_map(|host| host.link.as_ref());
        links.for_each(|link| link.finish());
        end
    }

    /// Starts the agents of all hosts, checks the hosts, and chooses ports, GPUs and cores.
    pub(super) fn ready_hosts(
        &self,
        places: &mut Places,
        own: IpAddr,
        console: &mut Console,
    ) -> Result<Vec<ReadyHost>> {
        self.copy_programs(places, &mut console.signals)?;
        let hosts = self.open_agents(places, &console.sender)?;
        let addresses: Vec<String> = places
            .hosts
            .iter()
            .map(|host| self.task_address(host, own))
            .collect();
        let mut asker = Asker::new(&hosts, &mut console.signals, &console.sender);
        greet(&mut asker, self.options.start_timeout)?;
        let states = self.probe(&mut asker, places, &addresses, own)?;
        let endpoints = self.endpoints(places, &states, &addresses, own);
        let resources: Vec<_> = states.into_iter().map(|state| state.resources).collect();
        places.assign(&resources, self.options.sharing)?;
        if self.options.check_network && hosts.iter().any(|host| host.link.is_some()) {
            let port = |host: usize| places.tasks.iter().find(|t| t.host == host).map(|t| t.port);
            let with_port = endpoints.into_iter().enumerate();
            let with_port = with_port.map(|(host, endpoint)| Endpoint {
                port: port(host).unwrap_or(0),
                ..endpoint
            });
            check_network(&mut asker, &with_port.collect::<Vec<_>>())?;
        }
        Ok(hosts)
    }

    /// Starts the agents of all other hosts.
    fn open_agents(
        &self,
        places: &Places,
        events: &SyncSender<ScreenEvent>,
    ) -> Result<Vec<ReadyHost>> {
        let open = |name: &String| {
            let link = match self.access.is_local(name) {
                true => None,
                false => {
                    let words = self.access.command(name, &self.agent_path());
                    let link = AgentLink::open(name, command_of_words(&words), events)?;
                    Some(Arc::new(link))
                }
            };
            let name = name.clone();
            Ok(ReadyHost { name, link })
        };
        places.hosts.iter().map(|host| open(&host.name)).collect()
    }

    fn probe(
        &self,
        asker: &mut Asker<'_>,
        places: &Places,
        addresses: &[String],
        own: IpAddr,
    ) -> Result<Vec<HostState>> {
        let programs = [self.program(false)?, self.program(true)?];
        let ports = places.ports.all();
        probe_hosts(asker, &|host| {
            let is_local = self.access.is_local(&places.hosts[host].name);
            let (program, folder) = programs[usize::from(is_local)].clone();
            ProbeRequest {
                program,
                folder,
                address: addresses[host].clone(),
                ports: ports.clone(),
                launcher: Some(own),
            }
        })
    }

    /// Addresses at which tasks of other hosts reach those of each host, and the launcher if they meet there.
    fn endpoints(
        &self,
        places: &Places,
        states: &[HostState],
        addresses: &[String],
        own: IpAddr,
    ) -> Vec<Endpoint> {
        let is_ranks = matches!(self.shape, JobShape::Ranks(_));
        let of_host = |host: usize| {
            // A rank tells the others the address from which it reaches the launcher.
            let found = states[host].own_address.filter(|_| is_ranks);
            Endpoint {
                name: places.hosts[host].name.clone(),
                address: found.map_or_else(|| addresses[host].clone(), |ip| ip.to_string()),
                port: 0,
            }
        };
        let mut all: Vec<Endpoint> = (0..places.hosts.len()).map(of_host).collect();
        if is_ranks {
            all.push(Endpoint {
                name: "launcher".to_owned(),
                address: own.to_string(),
                port: 0,
            });
        }
        all
    }
}
