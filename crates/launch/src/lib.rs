//! Launcher of jobs: it starts processes together, shows their output, and ends them together.
//!
//! - [`HostedJob`]: servers and workers, or ranks that exchange values by collectives, on this host and others.
//! - [`MpiJob`]: the same, started by `mpirun` or `srun`.
//! - [`KubernetesJob`]: manifests of such a job.
//! - [`ElasticJob`]: workers that are started, replaced and let go while the job runs, on this host and others.
//! - [`ServiceJob`]: one program on one host that listens at a port, such as a notebook server.
//!
//! Tasks of other hosts are started by an agent, which the launcher runs there ([`run_agent`], `thalweg launch agent`).
//! A launcher starts the coordinator of its ranks, so this crate uses `thalweg-collective`. Names of environment variables
//! and their readers are in `thalweg-launch-env`, below both.
//!
//! ```no_run
//! use thalweg_launch::{Access, ClusterShape, HostedJob, JobOptions, JobShape};
//!
//! # fn main() -> Result<(), thalweg_launch::LaunchError> {
//! let shape = ClusterShape {
//!     servers: 1,
//!     workers: Some(2),
//!     servers_per_host: 1,
//!     workers_per_host: Some(2),
//!     servers_beside_workers: true,
//! };
//! let job = HostedJob {
//!     shape: JobShape::Cluster(shape),
//!     hosts: Vec::new(),
//!     access: Access::Ssh { program: None },
//!     options: JobOptions::default(),
//!     command: vec!["cnn_benchmarks".to_owned()],
//! };
//! let exit = job.run()?;
//! assert_eq!(exit.code, 0, "{:?}", exit.messages);
//! # Ok(())
//! # }
//! ```

mod access;
mod agent;
mod console;
mod copy;
mod elastic;
mod error;
mod hosted_job;
mod job;
mod job_exit;
mod kubernetes;
mod layout;
mod mpi;
mod output_files;
mod preflight;
mod probe;
mod process;
mod program;
mod protocol;
mod reach;
mod remote;
mod screen;
mod secret;
mod service;
mod signals;
mod slurm;
mod task;
mod task_exit;
mod task_process;
mod trace;

pub use access::{Access, shell_quoted};
pub use agent::run_agent;
pub use elastic::{ElasticJob, ElasticOptions};
pub use error::{LaunchError, Result};
pub use hosted_job::{HostedJob, JobOptions, JobPlan, PlannedHost, PlannedTask};
pub use job_exit::JobExit;
pub use kubernetes::{KubernetesJob, PodOptions, PodRestart, PodTasks};
pub use layout::{ClusterShape, JobHost, JobShape, PlacedTask, Sharing, TaskKind, batch_hosts};
pub use mpi::{MpiJob, MpiKind, MpiOptions, MpiPlan, run_member};
pub use program::program_path;
pub use screen::WRITE_TIMEOUT;
pub use secret::job_secret;
pub use service::{ServiceJob, ServicePlace, ServiceStart, run_guard, run_reaper};
pub use signals::Signals;
pub use slurm::{command_of_variables, hosts_needed, shape_of_variables, slurm_hosts};
