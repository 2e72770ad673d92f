//! The cluster of a Slurm allocation.

use thalweg_launch_env::slurm::Allocation;
use thalweg_launch_env::{HostlistError, SlurmError};

use super::spec::{ClusterSpec, SpecError, TaskName};

impl From<SlurmError> for SpecError {
    fn from(SlurmError { variable, reason }: SlurmError) -> SpecError {
        SpecError::Slurm { variable, reason }
    }
}

impl From<HostlistError> for SpecError {
    fn from(error: HostlistError) -> SpecError {
        SpecError::Hosts(error.to_string())
    }
}

/// Expands a host list of Slurm: `nid[001-003,7],login` is `nid001`, `nid002`, `nid003`, `nid7` and `login`.
///
/// # Errors
/// [`SpecError::Hosts`].
pub fn expand_hosts(list: &str) -> Result<Vec<String>, SpecError> {
    Ok(thalweg_launch_env::expand_hosts(list)?)
}

impl ClusterSpec {
    /// Returns the cluster of the step or job of Slurm that this process runs in, and the task that it is: `servers` tasks of
    /// job `ps`, the rest of job `worker`. [`Allocation::from_variables`] reads the tasks and their hosts from the environment,
    /// which `variable` looks up. Tasks on one host listen on `port` and the ports after it.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn from_slurm(
        servers: usize,
        port: u16,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(ClusterSpec, TaskName), SpecError> {
        let Allocation { own, tasks } = Allocation::from_variables(&variable)?;
        if servers >= tasks.len() {
            let count = tasks.len();
            let reason = format!("{count} tasks are too few for {servers} servers and a worker");
            return Err(SlurmError::new("SLURM_NTASKS", reason).into());
        }
        let address = |(host, before): &(String, usize)| {
            let beyond = "the ports of one host go beyond 65535";
            match u16::try_from(usize::from(port) + before) {
                Ok(port) => Ok(format!("{host}:{port}")),
                Err(_) => Err(SlurmError::new("SLURM_NTASKS", beyond)),
            }
        };
        let all: Vec<String> = tasks.iter().map(address).collect::<Result<_, _>>()?;
        let (ps, workers) = all.split_at(servers);
        let jobs = [("ps", ps), ("worker", workers)];
        let jobs = jobs.into_iter().filter(|(_, all)| !all.is_empty());
        let cluster = ClusterSpec::new(jobs.map(|(job, all)| (job, all.to_vec())))?;
        let task = match own.checked_sub(servers) {
            None => ("ps".to_owned(), own as u32),
            Some(worker) => ("worker".to_owned(), worker as u32),
        };
        Ok((cluster, task))
    }
}
