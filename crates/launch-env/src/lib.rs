//! Environment of a launched process: the names of the variables, and their readers.
//!
//! This crate stands below `thalweg-collective` and `thalweg-dist`, which read the variables, and below
//! `thalweg-launch`, which sets them. A launcher also starts the coordinator of its ranks, so it stands above
//! `thalweg-collective`. One crate cannot be on both sides; therefore readers and launcher are two crates.
//!
//! Each reader takes a function that looks up a variable, so that tests need not change the environment.
//!
//! ```
//! use thalweg_launch_env::{Role, slurm::expand_hosts};
//!
//! let role = Role::from_variables(&|_| None)?;
//! assert_eq!(role, Role::Single);
//! assert_eq!(expand_hosts("nid[1-2]").unwrap(), ["nid1", "nid2"]);
//! # Ok::<(), thalweg_launch_env::EnvError>(())
//! ```

mod error;
pub mod host;
mod ranks;
pub mod slurm;
pub mod variables;

pub use error::EnvError;
pub use ranks::{ElasticWorker, RankSettings, RankTimeouts, Role};
