//! Descriptions of clusters: jobs, tasks and their addresses.
//!
//! A description comes from code, flags, the variable `TF_CONFIG`, or a Slurm allocation.
//!
//! ```
//! use thalweg_dist::ClusterSpec;
//!
//! # fn main() -> Result<(), thalweg_dist::SpecError> {
//! let config = r#"{
//!     "cluster": {"ps": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.3:2222"]},
//!     "task": {"type": "worker", "index": 1}
//! }"#;
//! let (cluster, task) = ClusterSpec::from_tf_config(config)?;
//! assert_eq!(task, Some(("worker".to_owned(), 1)));
//! assert_eq!(cluster.address("worker", 1)?, "10.0.0.3:2222");
//! # Ok(())
//! # }
//! ```

mod slurm;
pub(crate) mod spec;

pub use slurm::expand_hosts;
pub use spec::{ClusterSpec, SpecError, TaskName};
