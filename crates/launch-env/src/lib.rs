//! Environment of a launched process: the names of the variables, and their readers.
//!
//! This crate stands below `thalweg-collective` and `thalweg-dist`, which read the variables, and below
//! `thalweg-launch`, which sets them. A launcher also starts the coordinator of its ranks, so it stands above
//! `thalweg-collective`. One crate cannot be on both sides; therefore readers and launcher are two crates.
//!
//! [`LaunchedProcess`] is the one reader of launchers' variables: `TF_CONFIG`, torchrun, Horovod, MPI, Slurm and others. Each
//! reader takes a function that looks up a variable, so that tests need not change the environment.
//!
//! ```
//! use thalweg_launch_env::{LaunchedProcess, Launcher};
//!
//! let set = [("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1")];
//! let get = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
//! let LaunchedProcess::Rank(rank) = LaunchedProcess::from_variables(&get)? else { panic!() };
//! assert_eq!((rank.launcher, rank.rank, rank.size), (Launcher::Torchrun, 1, 2));
//! assert_eq!(LaunchedProcess::from_variables(&|_| None)?, LaunchedProcess::Alone);
//! # Ok::<(), thalweg_launch_env::EnvError>(())
//! ```

mod error;
pub mod host;
mod hostlist;
mod launcher;
mod process;
mod ranks;
mod role;
pub mod slurm;
#[cfg(test)]
mod testing;
mod tf_config;
pub mod variables;

pub use error::{EnvError, SlurmError};
pub use hostlist::{HostlistError, compress_hosts, expand_hosts};
pub use launcher::Launcher;
pub use process::{LaunchedProcess, LaunchedRank};
pub use ranks::{ElasticWorker, RankSettings, RankTimeouts};
pub use role::{CoordinatorAddress, Role};
pub use tf_config::TfConfig;
pub use variables::Lookup;
