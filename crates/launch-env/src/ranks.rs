//! Settings of ranks, read from the environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::EnvError;
use crate::launcher::Launcher;
use crate::variables::{self, Lookup};

type Result<T> = std::result::Result<T, EnvError>;

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
            driver: launcher_address(get, WORKER)?,
            secret: required(get, SECRET, WORKER)?,
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

/// Value of a variable that `thalweg launch hvd` sets beside another one.
fn required(get: Lookup<'_>, name: &'static str, beside: &'static str) -> Result<String> {
    get(name).ok_or(EnvError::Missing {
        name,
        beside,
        launcher: Launcher::Horovod,
    })
}

/// Parses the value of a variable.
pub(crate) fn parsed<T: FromStr>(name: &'static str, value: &str) -> Result<T> {
    value.parse().map_err(|_| EnvError::Invalid {
        name,
        value: value.to_owned(),
    })
}

/// Address of the launcher, at which the processes of a job meet; `beside` is a variable that is set.
pub(crate) fn launcher_address(get: Lookup<'_>, beside: &'static str) -> Result<SocketAddr> {
    use variables::{ADDRESS, PORT};
    let ip = required(get, ADDRESS, beside)?;
    let port = required(get, PORT, beside)?;
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
