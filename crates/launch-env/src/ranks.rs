//! Role and settings of a process in a job of ranks, read from its environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::EnvError;
use crate::variables;

type Result<T> = std::result::Result<T, EnvError>;

/// Looks up an environment variable.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Variables that Open MPI and MPICH set for each process that `mpirun` starts.
const MPI_VARIABLES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// Role of a process in a job of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// No launcher has started the process: it is the only rank of its job.
    Single,
    /// `mpirun` has started the process: MPI knows its rank.
    Mpi,
    /// A rank of a job with a fixed number of ranks.
    Rank {
        /// The rank.
        rank: usize,
        /// Number of ranks.
        size: usize,
        /// Address of the coordinator.
        coordinator: SocketAddr,
        /// Secret of the job; empty if none is set.
        secret: String,
    },
    /// A worker of an elastic job: see [`ElasticWorker`].
    Elastic,
}

impl Role {
    /// Reads the role from variables that `get` looks up.
    ///
    /// # Errors
    /// A variable has a value that cannot be used, or is missing beside others.
    pub fn from_variables(get: Lookup<'_>) -> Result<Role> {
        use variables::{RANK, SECRET, SIZE, WORKER};
        if get(WORKER).is_some() {
            return Ok(Role::Elastic);
        }
        if get(RANK).is_none() && get(SIZE).is_none() {
            let by_mpi = MPI_VARIABLES.iter().any(|name| get(name).is_some());
            return Ok(if by_mpi { Role::Mpi } else { Role::Single });
        }
        let rank = parsed(RANK, &required(get, RANK)?)?;
        let size = parsed(SIZE, &required(get, SIZE)?)?;
        if rank >= size {
            return Err(EnvError::RankOutOfRange { rank, size });
        }
        Ok(Role::Rank {
            rank,
            size,
            coordinator: rendezvous(get)?,
            secret: get(SECRET).unwrap_or_default(),
        })
    }
}

/// Worker of an elastic job: its rank and the number of ranks change from round to round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElasticWorker {
    /// Number of the worker among all workers that the launcher has started.
    pub worker: u64,
    /// Address of the launcher's driver.
    pub driver: SocketAddr,
    /// Secret of the job.
    pub secret: String,
    /// Name of the host, as the launcher calls it.
    pub host: Option<String>,
}

impl ElasticWorker {
    /// Reads the worker's variables; `None` if the process is no worker of an elastic job.
    ///
    /// # Errors
    /// A variable has a value that cannot be used, or is missing beside others.
    pub fn from_variables(get: Lookup<'_>) -> Result<Option<ElasticWorker>> {
        use variables::{HOST, SECRET, WORKER};
        let Some(worker) = get(WORKER) else {
            return Ok(None);
        };
        Ok(Some(ElasticWorker {
            worker: parsed(WORKER, &worker)?,
            driver: rendezvous(get)?,
            secret: required(get, SECRET)?,
            host: get(HOST),
        }))
    }
}

/// Timeouts of ranks that wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankTimeouts {
    /// Until all ranks have come to the rendezvous.
    pub rendezvous: Duration,
    /// Within a collective, until a warning is logged; `None` for never.
    pub stall_warning: Option<Duration>,
    /// Within a collective, until the job ends; `None` for never.
    pub stall_end: Option<Duration>,
}

impl RankTimeouts {
    /// RankTimeouts of a job that sets none.
    pub const DEFAULT: RankTimeouts = RankTimeouts {
        rendezvous: Duration::from_secs(60),
        stall_warning: Some(Duration::from_secs(60)),
        stall_end: Some(Duration::from_secs(600)),
    };

    /// Reads the timeouts from variables; those that are not set keep their defaults.
    ///
    /// # Errors
    /// A variable is no number.
    pub fn from_variables(get: Lookup<'_>) -> Result<RankTimeouts> {
        use variables::{STALL_DISABLE, STALL_END, STALL_WARN, TIMEOUT};
        let seconds = |name: &'static str| -> Result<Option<Duration>> {
            let text = get(name).map(|text| parsed(name, &text));
            Ok(text.transpose()?.map(Duration::from_secs))
        };
        let unless_zero = |wait: Duration| (!wait.is_zero()).then_some(wait);
        let disabled = get(STALL_DISABLE).is_some_and(|v| v == "1");
        Ok(RankTimeouts {
            rendezvous: seconds(TIMEOUT)?.unwrap_or(RankTimeouts::DEFAULT.rendezvous),
            stall_warning: match (disabled, seconds(STALL_WARN)?) {
                (true, _) => None,
                (_, Some(wait)) => unless_zero(wait),
                (_, None) => RankTimeouts::DEFAULT.stall_warning,
            },
            stall_end: seconds(STALL_END)?.map_or(RankTimeouts::DEFAULT.stall_end, unless_zero),
        })
    }
}

/// Settings of a rank, whoever has started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankSettings {
    /// RankTimeouts of waits for other ranks.
    pub timeouts: RankTimeouts,
    /// File to which rank 0 writes its timeline.
    pub timeline: Option<PathBuf>,
    /// File to which each rank writes its trace, with the rank's number appended.
    pub trace: Option<PathBuf>,
    /// Number of connections between ranks of different hosts.
    pub connections: Option<usize>,
}

impl RankSettings {
    /// Reads the settings from variables that `get` looks up.
    ///
    /// # Errors
    /// A variable has a value that cannot be used.
    pub fn from_variables(get: Lookup<'_>) -> Result<RankSettings> {
        use variables::{CONNECTIONS, TIMELINE, TRACE};
        let timeouts = RankTimeouts::from_variables(get)?;
        let connections = get(CONNECTIONS).map(|text| parsed(CONNECTIONS, &text));
        Ok(RankSettings {
            timeouts,
            timeline: get(TIMELINE).map(PathBuf::from),
            trace: get(TRACE).map(PathBuf::from),
            connections: connections.transpose()?,
        })
    }
}

/// Value of a variable that a launcher sets beside others.
fn required(get: Lookup<'_>, name: &'static str) -> Result<String> {
    get(name).ok_or(EnvError::Missing(name))
}

/// Parses the value of a variable.
fn parsed<T: FromStr>(name: &'static str, value: &str) -> Result<T> {
    value.parse().map_err(|_| EnvError::Invalid {
        name,
        value: value.to_owned(),
    })
}

/// Address at which the processes of a job meet.
fn rendezvous(get: Lookup<'_>) -> Result<SocketAddr> {
    use variables::{ADDRESS, PORT};
    let (ip, port) = (required(get, ADDRESS)?, required(get, PORT)?);
    Ok(SocketAddr::new(parsed(ADDRESS, &ip)?, parsed(PORT, &port)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts(set: &[(&str, &str)]) -> Result<[Option<u64>; 3]> {
        let get = |name: &str| {
            let found = set.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let RankTimeouts {
            rendezvous,
            stall_warning,
            stall_end,
        } = RankTimeouts::from_variables(&get)?;
        Ok([Some(rendezvous), stall_warning, stall_end].map(|w| w.map(|w| w.as_secs())))
    }

    #[test]
    fn timeouts_come_from_variables_and_zero_means_never() {
        assert_eq!(timeouts(&[]).unwrap(), [Some(60), Some(60), Some(600)]);
        let set = [
            ("HOROVOD_GLOO_TIMEOUT_SECONDS", "5"),
            ("HOROVOD_STALL_CHECK_TIME_SECONDS", "6"),
            ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0"),
        ];
        assert_eq!(timeouts(&set).unwrap(), [Some(5), Some(6), None]);
        let disabled = timeouts(&[("HOROVOD_STALL_CHECK_DISABLE", "1")]);
        assert_eq!(disabled.unwrap(), [Some(60), None, Some(600)]);
        let error = timeouts(&[("HOROVOD_STALL_CHECK_TIME_SECONDS", "soon")]).unwrap_err();
        let text = "HOROVOD_STALL_CHECK_TIME_SECONDS=soon cannot be used";
        assert_eq!(error.to_string(), text);
    }
}
