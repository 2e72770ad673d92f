//! Launcher of jobs: it starts processes together, shows their output, and ends them together.
//!
//! - [`LocalCluster`]: parameter servers and workers on this machine.
//! - [`RankJob`]: ranks that exchange values by collectives, on this host or, by ssh, on others.
//! - [`ElasticJob`]: workers that are started, replaced and let go while the job runs.
//!
//! A launcher starts the coordinator of its ranks, so this crate uses `thalweg-collective`. Names of environment variables
//! and their readers are in `thalweg-launch-env`, below both.
//!
//! ```no_run
//! use std::time::Duration;
//! use thalweg_launch::LocalCluster;
//!
//! # fn main() -> Result<(), thalweg_launch::LaunchError> {
//! let cluster = LocalCluster {
//!     servers: 1,
//!     workers: 2,
//!     free_ports: true,
//!     restarts: 0,
//!     grace: Duration::from_secs(30),
//!     command: vec!["cnn_benchmarks".to_owned()],
//! };
//! let exit = cluster.run()?;
//! assert_eq!(exit.code, 0, "{:?}", exit.messages);
//! # Ok(())
//! # }
//! ```

mod elastic;
mod error;
mod free_ports;
mod hosts;
mod job;
mod local_cluster;
mod process;
mod program;
mod ranks;
mod screen;
mod secret;
mod signals;
mod task;
mod trace;

pub use elastic::ElasticJob;
pub use error::{LaunchError, Result};
pub use hosts::{HostOptions, HostSlots};
pub use job::JobExit;
pub use local_cluster::LocalCluster;
pub use program::program_path;
pub use ranks::RankJob;
pub use screen::WRITE_TIMEOUT;
pub use secret::job_secret;
pub use signals::Signals;
