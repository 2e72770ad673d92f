//! Clusters on one machine: parameter servers and workers.

use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::error::{LaunchError, Result};
use crate::free_ports::free_ports;
use crate::job::{JobExit, Supervision, run_tasks};
use crate::program::program_path;
use crate::task::TaskSpec;

/// First port of the servers and of the workers: those of the report's scripts.
const FIRST_PORTS: [u16; 2] = [2230, 2220];

/// Cluster on this machine: each task is a process that gets its job, its number and all addresses as flags.
#[derive(Clone, Debug)]
pub struct LocalCluster {
    /// Number of parameter servers.
    pub servers: usize,
    /// Number of workers.
    pub workers: usize,
    /// `true` to take free ports in place of fixed ones.
    pub free_ports: bool,
    /// Time that a task may take to end after SIGTERM.
    pub grace: Duration,
    /// Number of times that each task is started again after a failure.
    pub restarts: u32,
    /// Program of all tasks, and its arguments.
    pub command: Vec<String>,
}

impl LocalCluster {
    /// Starts all tasks, and returns when all have ended.
    ///
    /// # Errors
    /// A port is not free, or the program cannot be started.
    pub fn run(&self) -> Result<JobExit> {
        if self.workers == 0 {
            return Err("--workers 0 trains nothing".into());
        }
        let counts = [("ps", self.servers), ("worker", self.workers)];
        let addresses = self.addresses(counts.map(|(_, n)| n))?;
        let of_job = |(job, count)| (0..count).map(move |index| (job, index));
        let all = counts.into_iter().flat_map(of_job);
        let all = all.map(|(job, index)| TaskSpec {
            name: format!("{job} {index}"),
            worker: job == "worker",
            command: self.task(job, index, &addresses),
            input: None,
        });
        let options = Supervision {
            grace: self.grace,
            restarts: self.restarts,
        };
        run_tasks(all.collect(), options, &channel().1, &|| None)
    }

    /// Command of a task.
    fn task(&self, job: &str, index: usize, [ps, workers]: &[Vec<String>; 2]) -> Command {
        let mut command = Command::new(program_path(&self.command[0]));
        command
            .args(&self.command[1..])
            .args(["--job_name", job, "--task_index", &index.to_string()])
            .args(["--ps_hosts", &ps.join(",")])
            .args(["--worker_hosts", &workers.join(",")]);
        command
    }

    fn no_port(&self, port: u16, error: &std::io::Error) -> LaunchError {
        let text = match self.free_ports {
            true => format!("the system has no free port: {error}"),
            false => format!(
                "port {port} is not free ({error}): end what listens there, or use --free-ports"
            ),
        };
        LaunchError::Argument(text)
    }

    /// Addresses of the tasks, by job.
    fn addresses(&self, counts: [usize; 2]) -> Result<[Vec<String>; 2]> {
        // Sockets stay bound until all ports are found, so that no port is found twice.
        let mut sockets = match self.free_ports {
            true => free_ports(counts[0] + counts[1])
                .map_err(|e| LaunchError::of_attempt(e, |e| self.no_port(0, &e)))?,
            false => self.fixed_ports(counts)?,
        };
        let workers = sockets.split_off(counts[0]);
        let addresses = |sockets: &[TcpListener]| {
            let all = sockets.iter().map(|s| Ok(s.local_addr()?.to_string()));
            all.collect::<Result<Vec<String>>>()
        };
        Ok([addresses(&sockets)?, addresses(&workers)?])
    }

    /// Sockets on the fixed ports of all tasks.
    fn fixed_ports(&self, counts: [usize; 2]) -> Result<Vec<TcpListener>> {
        let mut sockets = Vec::new();
        for (job, &count) in counts.iter().enumerate() {
            for index in 0..count {
                // The workers' ports end where the servers' begin.
                if job == 1 && index >= usize::from(FIRST_PORTS[0] - FIRST_PORTS[1]) {
                    return Err("so many workers need --free-ports".into());
                }
                let port = u16::try_from(index)
                    .ok()
                    .and_then(|i| FIRST_PORTS[job].checked_add(i))
                    .ok_or("so many tasks need --free-ports")?;
                let socket = TcpListener::bind(("127.0.0.1", port))
                    .map_err(|e| LaunchError::of_attempt(e, |e| self.no_port(port, &e)))?;
                sockets.push(socket);
            }
        }
        Ok(sockets)
    }
}
