//! ServiceJob: a program that listens at a port of a host.

use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::access::{Access, command_of_words};
use crate::console::Console;
use crate::error::{LaunchError, Result};
use crate::job::{Supervision, run_tasks};
use crate::job_exit::JobExit;
use crate::preflight::{Asker, ReadyHost, greet, probe_hosts};
use crate::process::command_of;
use crate::protocol::{ProbeRequest, StartTask};
use crate::remote::AgentLink;
use crate::signals;
use crate::task::{TaskProgram, TaskSpec};

/// Number of seconds that the service may take to end after SIGTERM. It is more than its guard takes.
const GRACE: Duration = Duration::from_secs(10);

/// A program that listens at a port of a host. It ends with the launcher, and so do all processes that it has started, in
/// sessions of their own too (Linux).
#[derive(Clone, Debug)]
pub struct ServiceJob {
    /// Name of the service in the output.
    pub name: String,
    /// Host.
    pub host: String,
    /// Access to a host other than this one.
    pub access: Access,
    /// Path of the program `thalweg` on the host.
    pub agent: String,
    /// Time in which the agent answers.
    pub start_timeout: Duration,
    /// Programs that serve alike: the first one that the host has is started.
    pub programs: Vec<String>,
    /// Folder in which it runs. A relative path begins where the agent starts: for ssh, in the home folder.
    pub folder: String,
    /// Address at which it listens.
    pub address: String,
    /// Ports: the first free one is taken.
    pub ports: Vec<u16>,
}

/// Program and port of a service on its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePlace {
    /// The program.
    pub program: String,
    /// The port.
    pub port: u16,
}

/// Start of a service.
#[derive(Clone, Debug, Default)]
pub struct ServiceStart {
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Variables of the program: secrets belong here, because other users see arguments.
    pub env: Vec<(String, String)>,
    /// Program and arguments of a tunnel, which runs on this host as long as the service does; none if empty.
    pub tunnel: Vec<String>,
}

impl ServiceJob {
    /// Command of the service on its host.
    pub fn command(&self, program: &str, args: &[String]) -> Vec<String> {
        let words = [&*self.agent, "launch", "guard", "--", program];
        let words = words.into_iter().map(str::to_owned);
        words.chain(args.iter().cloned()).collect()
    }

    /// Command that runs the agent on the host; none for this host.
    pub fn agent_command(&self) -> Option<Vec<String>> {
        let is_local = self.access.is_local(&self.host);
        (!is_local).then(|| self.access.command(&self.host, &self.agent))
    }

    /// Starts the service, and returns when it has ended. `start` gets its program and port, and returns the rest of the start.
    ///
    /// # Errors
    /// The host is not reached; it has no such folder, none of the programs, or no free port.
    pub fn run(
        &self,
        start: &dyn Fn(&ServicePlace) -> std::io::Result<ServiceStart>,
    ) -> Result<JobExit> {
        match self.run_to_the_end(start) {
            Err(LaunchError::Interrupted(signal)) => {
                let text = format!("ended by {}", signals::name(signal));
                Ok(JobExit::new(128 + signal, text))
            }
            ended => ended,
        }
    }

    fn run_to_the_end(
        &self,
        start: &dyn Fn(&ServicePlace) -> std::io::Result<ServiceStart>,
    ) -> Result<JobExit> {
        let mut console = Console::catch()?;
        let open = |words: Vec<String>| {
            let link = AgentLink::open(&self.host, command_of_words(&words), &console.sender)?;
            Ok::<_, LaunchError>(Arc::new(link))
        };
        let link = self.agent_command().map(open).transpose()?;
        let host = [ReadyHost {
            name: self.host.clone(),
            link: link.clone(),
        }];
        let mut asker = Asker::new(&host, &mut console.signals, &console.sender);
        greet(&mut asker, self.start_timeout)?;
        let place = self.place(&mut asker)?;
        let started = start(&place)?;
        let command = self.command(&place.program, &started.args);
        let task = StartTask {
            program: command[0].clone(),
            args: command[1..].to_vec(),
            folder: self.folder.clone(),
            env: started.env,
            cores: Vec::new(),
        };
        let mut specs = vec![TaskSpec {
            name: self.name.clone(),
            worker: true,
            program: match &link {
                Some(link) => TaskProgram::Remote(link.clone(), Box::new(task)),
                None => TaskProgram::Local(command_of(&task)),
            },
        }];
        if let [program, args @ ..] = &started.tunnel[..] {
            let mut tunnel = Command::new(program);
            tunnel.args(args);
            specs.push(TaskSpec {
                name: "tunnel".to_owned(),
                worker: false,
                program: TaskProgram::Local(tunnel),
            });
        }
        let options = Supervision {
            grace: GRACE,
            restarts: 0,
            output_dir: None,
        };
        let end = run_tasks(specs, &mut console, &options, &channel().1, &|| None);
        if let Some(link) = link {
            link.finish();
        }
        Ok(end?.exit(console))
    }

    /// Chooses the program and the port, by what the host has.
    fn place(&self, asker: &mut Asker<'_>) -> Result<ServicePlace> {
        let mut probe = |program: &str| {
            let states = probe_hosts(asker, &|_| ProbeRequest {
                program: program.to_owned(),
                folder: self.folder.clone(),
                address: self.address.clone(),
                ports: self.ports.clone(),
                launcher: None,
            })?;
            let taken = states.into_iter().next().map(|s| s.resources.taken_ports);
            Ok::<_, LaunchError>(taken.unwrap_or_default())
        };
        // The agent itself is there: an error is one of the folder or of the clock.
        let taken = probe(&self.agent)?;
        let mut programs = self.programs.iter();
        let found = loop {
            let Some(program) = programs.next() else {
                return Err(LaunchError::NoProgram {
                    host: self.host.clone(),
                    programs: self.programs.join(", "),
                });
            };
            match probe(program) {
                Ok(_) => break program,
                Err(interrupted @ LaunchError::Interrupted(_)) => return Err(interrupted),
                Err(_) => {}
            }
        };
        let free = self.ports.iter().find(|port| !taken.contains(port));
        let none = || match &self.ports[..] {
            [port] => format!(
                "the port {port} of the host '{}' is in use: give another one",
                self.host
            ),
            _ => format!("the host '{}' has no free port", self.host),
        };
        Ok(ServicePlace {
            program: found.clone(),
            port: *free.ok_or_else(none)?,
        })
    }
}
