//! The description of a cluster: its jobs, tasks and addresses.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_launch_env::TfConfig;
use thiserror::Error;

/// The tasks of a cluster: jobs, each with numbered tasks, each of those with an address
/// (`host:port`). Numbers may have gaps, where only some tasks are known.
///
/// ```
/// use thalweg_dist::ClusterSpec;
///
/// # fn main() -> Result<(), thalweg_dist::SpecError> {
/// let cluster = ClusterSpec::new([
///     ("ps", vec!["10.0.0.1:2222"]),
///     ("worker", vec!["10.0.0.2:2222", "10.0.0.3:2222"]),
/// ])?;
/// assert_eq!(cluster.len("worker"), 2);
/// assert_eq!(cluster.address("ps", 0)?, "10.0.0.1:2222");
///
/// // The same, as a program gets it by flags.
/// let flags = [("ps", "10.0.0.1:2222"), ("worker", "10.0.0.2:2222,10.0.0.3:2222")];
/// assert_eq!(ClusterSpec::from_flags(&flags)?, cluster);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSpec {
    jobs: BTreeMap<String, BTreeMap<u32, String>>,
}

/// Error of the description of a cluster.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A name that no device string can have.
    #[error("'{0}' is no name of a job: begin with a letter, go on with letters, digits and _")]
    JobName(String),
    /// A job that is described twice, or one of its tasks.
    #[error("job '{0}' or a task of it is given twice")]
    Twice(String),
    /// A job without tasks.
    #[error("job '{0}' has no tasks: give it an address, or leave it out")]
    EmptyJob(String),
    /// An address that is not of the form `host:port`.
    #[error("'{address}', of {}, is no address: {reason}", task_label(job, *task))]
    Address {
        /// The job.
        job: String,
        /// The number of the task.
        task: u32,
        /// The text.
        address: String,
        /// The reason.
        reason: &'static str,
    },
    /// One address for two tasks.
    #[error("'{address}' is the address of {first} and of {second}: each needs one of its own")]
    Duplicate {
        /// The address.
        address: String,
        /// One of the two.
        first: String,
        /// The other one.
        second: String,
    },
    /// A task that the cluster does not have.
    #[error("the cluster has no {}: {has}", task_label(job, *task))]
    NoTask {
        /// The job.
        job: String,
        /// The number of the task.
        task: u32,
        /// The tasks that it has.
        has: String,
    },
    /// `TF_CONFIG` that cannot be read.
    #[error("{0}")]
    TfConfig(String),
    /// A host list that cannot be expanded.
    #[error("{0}")]
    Hosts(String),
    /// A variable of a Slurm allocation that cannot be read.
    #[error("{variable}: {reason}")]
    Slurm {
        /// The variable of the environment.
        variable: String,
        /// The reason.
        reason: String,
    },
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for SpecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A task: its job and its number in the job.
pub type TaskName = (String, u32);

/// Formats the name of a task: `/job:ps/task:0`.
pub(crate) fn task_label(job: &str, task: u32) -> String {
    format!("/job:{job}/task:{task}")
}

/// Formats the name and address of a task: `/job:ps/task:0 at 10.0.0.1:2222`.
pub(crate) fn task_label_at((job, task): &TaskName, address: &str) -> String {
    format!("{} at {address}", task_label(job, *task))
}

impl ClusterSpec {
    /// Returns a cluster of these jobs: for each, its name and the addresses of its tasks, in order.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn new<J, A>(jobs: impl IntoIterator<Item = (J, A)>) -> Result<ClusterSpec, SpecError>
    where
        J: Into<String>,
        A: IntoIterator<Item: Into<String>>,
    {
        let numbered = |all: A| all.into_iter().map(Into::into).enumerate();
        let numbered = |all: A| numbered(all).map(|(i, a)| (i as u32, a)).collect();
        ClusterSpec::sparse(
            jobs.into_iter()
                .map(|(job, all)| (job.into(), numbered(all))),
        )
    }

    /// Returns a cluster of which only these tasks are known, by number.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn sparse(
        jobs: impl IntoIterator<Item = (String, BTreeMap<u32, String>)>,
    ) -> Result<ClusterSpec, SpecError> {
        let mut cluster = ClusterSpec::default();
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for (job, tasks) in jobs {
            let mut letters = job.chars();
            let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic());
            if !first || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(SpecError::JobName(job));
            }
            if tasks.is_empty() {
                return Err(SpecError::EmptyJob(job));
            }
            for (&task, address) in &tasks {
                check_address(address).map_err(|reason| SpecError::Address {
                    job: job.clone(),
                    task,
                    address: address.clone(),
                    reason,
                })?;
                let name = task_label(&job, task);
                if let Some(first) = seen.insert(address.clone(), name.clone()) {
                    return Err(SpecError::Duplicate {
                        address: address.clone(),
                        first,
                        second: name,
                    });
                }
            }
            if cluster.jobs.insert(job.clone(), tasks).is_some() {
                return Err(SpecError::Twice(job));
            }
        }
        Ok(cluster)
    }

    /// Parses flags: for each job, its name and its comma-separated addresses, such as `ps` and
    /// `10.0.0.1:2222,10.0.0.2:2222`. A job without addresses is left out.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn from_flags(jobs: &[(&str, &str)]) -> Result<ClusterSpec, SpecError> {
        let split = |list: &str| -> Vec<String> {
            let parts = list.split(',').map(str::trim).filter(|a| !a.is_empty());
            parts.map(str::to_owned).collect()
        };
        let jobs = jobs.iter().map(|(job, list)| (*job, split(list)));
        ClusterSpec::new(jobs.filter(|(_, all)| !all.is_empty()))
    }

    /// Parses the variable `TF_CONFIG`: the cluster, and the task of this process if it is named: `{"cluster": {"ps":
    /// ["host:port"], ...}, "task": {"type": "ps", "index": 0}}`.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn from_tf_config(text: &str) -> Result<(ClusterSpec, Option<TaskName>), SpecError> {
        let TfConfig { jobs, task } =
            TfConfig::parse(text).map_err(|e| SpecError::TfConfig(e.to_string()))?;
        let cluster = ClusterSpec::sparse(jobs)?;
        if let Some((job, index)) = &task {
            cluster.address(job, *index)?;
        }
        Ok((cluster, task))
    }

    /// Returns the names of the jobs, in order.
    pub fn jobs(&self) -> impl Iterator<Item = &str> {
        self.jobs.keys().map(|j| &**j)
    }

    /// Returns the tasks of a job, by number; none if there is no such job.
    pub fn tasks(&self, job: &str) -> impl Iterator<Item = (u32, &str)> {
        let tasks = self.jobs.get(job).into_iter().flatten();
        tasks.map(|(&i, address)| (i, &**address))
    }

    /// Returns the number of tasks of a job.
    pub fn len(&self, job: &str) -> usize {
        self.jobs.get(job).map_or(0, BTreeMap::len)
    }

    /// `true` if there is no job.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the address of a task.
    ///
    /// # Errors
    /// [`SpecError::NoTask`].
    pub fn address(&self, job: &str, task: u32) -> Result<&str, SpecError> {
        let found = self.jobs.get(job).and_then(|tasks| tasks.get(&task));
        found.map(|a| &**a).ok_or_else(|| SpecError::NoTask {
            job: job.to_owned(),
            task,
            has: self.described(),
        })
    }

    /// Changes the address of a task.
    pub(crate) fn set_address(&mut self, (job, task): &TaskName, address: &str) {
        let tasks = self.jobs.entry(job.clone()).or_default();
        tasks.insert(*task, address.to_owned());
    }

    fn described(&self) -> String {
        let job = |(job, tasks): (&String, &BTreeMap<u32, String>)| {
            let numbers: BTreeSet<&u32> = tasks.keys().collect();
            match (numbers.first(), numbers.last()) {
                (Some(first), Some(last)) if first != last => {
                    format!("/job:{job} has tasks {first} to {last}")
                }
                (Some(only), _) => format!("/job:{job} has task {only}"),
                _ => format!("/job:{job} has none"),
            }
        };
        match self.jobs.is_empty() {
            true => "it has no jobs".to_owned(),
            false => self.jobs.iter().map(job).collect::<Vec<_>>().join(", "),
        }
    }
}

fn check_address(address: &str) -> Result<(), &'static str> {
    let (host, port) = address.rsplit_once(':').ok_or("write it as host:port")?;
    if host.is_empty() || host.contains(char::is_whitespace) || host.contains('/') {
        return Err("it needs a host before the colon, without a scheme");
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err("put an IPv6 address into brackets: [::1]:2222");
    }
    match port.parse::<u16>() {
        Ok(0) | Err(_) => Err("its port must be a number from 1 to 65535"),
        Ok(_) => Ok(()),
    }
}
