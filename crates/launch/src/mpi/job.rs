//! MpiJob: a job that `mpirun` starts.

use std::collections::BTreeSet;
use std::sync::mpsc::channel;

use thalweg_launch_env::variables;

use super::kind::MpiKind;
use super::line::LaunchLine;
use super::table::{TABLE, TaskTable};
use crate::access::command_of_words;
use crate::console::Console;
use crate::error::Result;
use crate::hosted_job::{HostedJob, JobPlan, passed_variables};
use crate::job::{Supervision, run_tasks};
use crate::job_exit::JobExit;
use crate::layout::{JobShape, PortChoice, TaskKind};
use crate::probe::probe;
use crate::protocol::ProbeRequest;
use crate::secret::job_secret;
use crate::task::{TaskProgram, TaskSpec};

/// Job that `mpirun` or `srun` starts, in place of the launcher's own agents.
#[derive(Clone, Debug)]
pub struct MpiJob {
    /// Tasks, hosts and options. Tasks are not started again; hosts and networks are not checked.
    pub job: HostedJob,
    /// Options of the start.
    pub mpi: MpiOptions,
}

/// Options of a start by `mpirun`.
#[derive(Clone, Debug, Default)]
pub struct MpiOptions {
    /// Kind of the MPI; asked from `mpirun` if `None`.
    pub kind: Option<MpiKind>,
    /// `mpirun`, or the path of one.
    pub program: Option<String>,
    /// More options of `mpirun`.
    pub args: Vec<String>,
    /// `true` for ranks of programs with the feature `mpi`, whose values MPI carries. Otherwise ranks meet at rank 0.
    pub mpi_values: bool,
}

/// Plan of a job that `mpirun` starts.
#[derive(Clone, Debug)]
pub struct MpiPlan {
    /// Kind of the MPI.
    pub kind: MpiKind,
    /// `mpirun` and its arguments.
    pub command: Vec<String>,
    /// Variables that the launcher sets for `mpirun`, without the job's secret.
    pub env: Vec<(String, String)>,
    /// Hosts and tasks, in the order of their ranks. Tasks find their GPUs and cores when they start.
    pub job: JobPlan,
}

impl MpiJob {
    /// Plans the job, and starts nothing but `mpirun --version`.
    ///
    /// # Errors
    /// The hosts are too few; the network is not trusted; the MPI is unknown, or does not take such a job.
    pub fn plan(&self) -> Result<MpiPlan> {
        let kind = self.kind()?;
        let mut job = self.job.plan()?;
        if let Some(host) = job.hosts.iter().find(|host| host.name.contains('@')) {
            return Err(format!(
                "the host '{}' has a user: mpirun takes names, and the user from ssh's configuration",
                host.name
            )
            .into());
        }
        // On each host, servers stand before workers already.
        job.tasks.sort_by_key(|task| task.place.host);
        for task in &mut job.tasks {
            // MPI tells the ranks, and members their devices.
            if task.place.kind == TaskKind::Rank {
                task.env.retain(|(name, _)| !is_rank_variable(name));
            }
        }
        let env = self.env(&job)?;
        let hosts: Vec<(String, usize)> = (0..)
            .zip(&job.hosts)
            .map(|(number, host)| {
                let tasks = job.tasks.iter().filter(|task| task.place.host == number);
                (host.name.clone(), tasks.count())
            })
            .collect();
        let command = LaunchLine {
            kind,
            program: self.program(kind),
            hosts: &hosts,
            variables: &self.passed_names(&env),
            args: &self.mpi.args,
            is_root: is_root(),
            member: &self.member(),
        }
        .words();
        Ok(MpiPlan {
            kind,
            command,
            env,
            job,
        })
    }

    /// Starts `mpirun`, and returns when it has ended, with its exit code.
    ///
    /// # Errors
    /// As [`MpiJob::plan`]; `mpirun` cannot be started.
    pub fn run(&self) -> Result<JobExit> {
        let plan = self.plan()?;
        let mut command = command_of_words(&plan.command);
        command.envs(plan.env.iter().map(|(name, value)| (name, value)));
        if self.meets_at_rank_zero() {
            command.env(variables::SECRET, job_secret()?);
        }
        let mpirun = TaskSpec {
            name: self.program(plan.kind).to_owned(),
            worker: true,
            program: TaskProgram::Local(command),
        };
        let options = Supervision {
            grace: self.job.options.grace,
            restarts: 0,
            output_dir: self.job.options.output_dir.clone(),
        };
        let mut console = Console::catch()?;
        let end = run_tasks(vec![mpirun], &mut console, &options, &channel().1, &|| None)?;
        Ok(end.exit(console))
    }

    /// `true` for ranks that meet at rank 0; MPI carries the values of others.
    fn meets_at_rank_zero(&self) -> bool {
        matches!(self.job.shape, JobShape::Ranks(_)) && !self.mpi.mpi_values
    }

    fn kind(&self) -> Result<MpiKind> {
        match self.mpi.kind {
            Some(kind) => Ok(kind),
            None => MpiKind::of_program(self.program(MpiKind::Hydra)),
        }
    }

    fn program(&self, kind: MpiKind) -> &str {
        self.mpi.program.as_deref().unwrap_or(kind.program())
    }

    /// Names of the variables that tasks of other hosts get: those of the launcher, and those that the user has set for all
    /// tasks.
    fn passed_names(&self, env: &[(String, String)]) -> Vec<String> {
        let own = env.iter().map(|(name, _)| name.clone());
        let users = passed_variables().into_iter().map(|(name, _)| name);
        let secret = self
            .meets_at_rank_zero()
            .then(|| variables::SECRET.to_owned());
        let all: BTreeSet<String> = own.chain(users).chain(secret).collect();
        all.into_iter().collect()
    }

    /// Program of each process, and its arguments.
    fn member(&self) -> Vec<String> {
        let agent = self.job.options.agent.clone();
        let own = [agent, "launch".into(), "member".into(), "--".into()];
        [&own, &*self.job.command].concat()
    }

    /// Variables of `mpirun`. Programs of other hosts get them too.
    fn env(&self, plan: &JobPlan) -> Result<Vec<(String, String)>> {
        let options = &self.job.options;
        let tasks: Vec<_> = plan.tasks.iter().map(|task| task.place.clone()).collect();
        let addresses = plan.hosts.iter().map(|host| host.address.clone()).collect();
        let keep_gpus = options
            .env
            .iter()
            .any(|(name, _)| name == "CUDA_VISIBLE_DEVICES");
        let table = TaskTable::new(&tasks, addresses, options.sharing, keep_gpus);
        let mut env = vec![(TABLE.to_owned(), table.text()?)];
        let mut set = |name: &str, value: String| env.push((name.to_owned(), value));
        if let Some(folder) = &options.protection {
            set(variables::PROTECTION, folder.display().to_string());
        } else if options.unprotected_network {
            set(variables::UNPROTECTED_NETWORK, "1".to_owned());
        }
        if self.meets_at_rank_zero() {
            let host = &plan.hosts[0];
            set(variables::COORDINATOR, host.address.clone());
            let is_local = self.job.access.is_local(&host.name);
            let port = coordinator_port(&host.address, is_local)?;
            set(variables::COORDINATOR_PORT, port.to_string());
        } else if self.mpi.mpi_values && options.protection.is_some() {
            return Err(
                "MPI carries values without protection: leave out --protection, or take --carrier tcp"
                    .into(),
            );
        }
        env.extend(options.env.iter().cloned());
        Ok(env)
    }
}

/// Port at which ranks meet: a random one, which is free if rank 0 runs on this host.
fn coordinator_port(address: &str, is_local: bool) -> Result<u16> {
    let ports = PortChoice::random(1).workers;
    let taken = match is_local {
        true => {
            probe(&ProbeRequest {
                address: address.to_owned(),
                ports: ports.clone(),
                ..ProbeRequest::default()
            })
            .taken_ports
        }
        false => Vec::new(),
    };
    let free = ports.into_iter().find(|port| !taken.contains(port));
    Ok(free.ok_or("this host has no free port at which ranks can meet")?)
}

fn is_rank_variable(name: &str) -> bool {
    use variables::{LOCAL_RANK, LOCAL_SIZE, RANK, SIZE};
    [RANK, SIZE, LOCAL_RANK, LOCAL_SIZE].contains(&name)
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}
