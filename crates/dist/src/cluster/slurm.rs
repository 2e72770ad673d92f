//! The cluster of a Slurm allocation.

use thalweg_launch_env::slurm::{self, Allocation, SlurmError};

use super::spec::{ClusterSpec, SpecError, TaskName};

impl From<SlurmError> for SpecError {
    fn from(SlurmError { variable, reason }: SlurmError) -> SpecError {
        SpecError::Slurm { variable, reason }
    }
}

/// Expands a host list of Slurm: `nid[001-003,7],login` is `nid001`, `nid002`, `nid003`, `nid7` and `login`.
///
/// # Errors
/// [`SpecError::Slurm`].
pub fn expand_hosts(list: &str) -> Result<Vec<String>, SpecError> {
    Ok(slurm::expand_hosts(list)?)
}

impl ClusterSpec {
    /// The cluster of the allocation that this process runs in, and the task that it is: `servers` tasks of job `ps`, the
    /// rest of job `worker`. Slurm's tasks fill one host after the other (`SLURM_TASKS_PER_NODE` has the number of each),
    /// or go over the hosts in turn if `SLURM_DISTRIBUTION` begins with `cyclic`; those on one host listen on `port` and
    /// the ports after it. `variable` looks up the environment: those two, `SLURM_JOB_NODELIST`, `SLURM_NTASKS` and
    /// `SLURM_PROCID`.
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
