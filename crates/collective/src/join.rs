//! `Join`: the parameters with which a rank joins its job: rank, size, coordinator's address, secret, settings.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_launch_env::{
    CoordinatorAddress, LaunchedRank, RankSettings, RankTimeouts, Role, variables,
};

use crate::error::{CollectiveError, Result};
use crate::secret::Secret;

/// Description of a rank: its number, the number of ranks, the coordinator, and settings.
#[derive(Clone, Debug)]
pub struct Join {
    pub(crate) coordinator: Option<CoordinatorAddress>,
    /// `true` if ranks may only meet within this host.
    pub(crate) loopback_only: bool,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) secret: Secret,
    pub(crate) host: Option<String>,
    pub(crate) memory: bool,
    pub(crate) negotiated: bool,
    /// Number of connections of a link with a rank of another host.
    pub(crate) connections: usize,
    /// File of the timeline of rank 0.
    pub(crate) timeline: Option<PathBuf>,
    /// File of this rank's trace.
    pub(crate) trace: Option<PathBuf>,
    /// `true` if MPI assigns the rank and carries values.
    #[cfg(feature = "mpi")]
    pub(crate) mpi: bool,
    /// `true` if the rank and the number of ranks are those of the launcher, which MPI must have too.
    #[cfg(feature = "mpi")]
    pub(crate) launched_by_mpi: bool,
    pub(crate) timeouts: RankTimeouts,
}

impl Join {
    /// Single rank of a job.
    pub fn alone() -> Join {
        Join {
            coordinator: None,
            loopback_only: false,
            rank: 0,
            size: 1,
            secret: Secret::from(""),
            host: None,
            memory: true,
            negotiated: false,
            connections: 1,
            timeline: None,
            trace: None,
            #[cfg(feature = "mpi")]
            mpi: false,
            #[cfg(feature = "mpi")]
            launched_by_mpi: false,
            timeouts: RankTimeouts::DEFAULT,
        }
    }

    /// One of `size` ranks that meet at a coordinator and share a secret.
    pub fn at(
        coordinator: SocketAddr,
        rank: usize,
        size: usize,
        secret: impl Into<Secret>,
    ) -> Join {
        Join {
            coordinator: Some(CoordinatorAddress::Launcher(coordinator)),
            rank,
            size,
            secret: secret.into(),
            ..Join::alone()
        }
    }

    /// Rank that `mpirun` has started: MPI carries the values.
    #[cfg(feature = "mpi")]
    pub fn mpi() -> Join {
        Join {
            mpi: true,
            ..Join::alone()
        }
    }

    /// Reads the environment that a launcher has set: `thalweg launch hvd`, `srun`, torchrun, `mpirun` or another one of
    /// [`Role::from_variables`]. If none has set anything, the rank is alone.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`]: a variable has a value that cannot be used, or is missing beside others; `mpirun` has
    /// started a program that was built without the feature `mpi`.
    pub fn from_env() -> Result<Join> {
        Join::from_variables(&|name| std::env::var(name).ok())
    }

    /// Reads variables as [`Join::from_env`] does, which `get` looks up.
    ///
    /// # Errors
    /// As [`Join::from_env`].
    ///
    /// ```
    /// use thalweg_collective::Join;
    ///
    /// let set = |name: &str| (name == "HOROVOD_RANK").then(|| "1".to_owned());
    /// let error = Join::from_variables(&set).unwrap_err();
    /// assert!(error.to_string().contains("HOROVOD_SIZE is not set"));
    /// let elastic = |name: &str| (name == "THALWEG_ELASTIC_WORKER").then(|| "0".to_owned());
    /// let error = Join::from_variables(&elastic).unwrap_err();
    /// assert!(error.to_string().contains("use hvd::elastic::run"));
    /// // Nothing is set.
    /// assert!(Join::from_variables(&|_| None).is_ok());
    /// ```
    pub fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Result<Join> {
        match Role::from_variables(get)? {
            Role::Single => Join::alone().configured(get),
            Role::Elastic => Err(CollectiveError::Argument(format!(
                "{} is set, and ranks come and go: use hvd::elastic::run in place of Hvd::init, or launch the program \
                 without --min-np and --max-np",
                variables::ELASTIC
            ))),
            Role::Mpi(_) if get(variables::PROTECTION).is_some() => {
                Err(CollectiveError::Argument(format!(
                    "{} is set, and MPI carries values without protection: start the ranks with `thalweg launch hvd`, or \
                     unset it",
                    variables::PROTECTION
                )))
            }
            Role::Mpi(rank) => Join::of_mpirun(&rank)?.configured(get),
            #[cfg(feature = "mpi")]
            Role::Rank {
                rank,
                has_mpi: true,
                ..
            } if get(variables::PROTECTION).is_none() => Join::of_mpirun(&rank)?.configured(get),
            Role::Rank {
                rank,
                coordinator,
                secret,
                ..
            } => {
                let secret = shared_secret(get, &secret)?;
                let allowed = get(variables::UNPROTECTED_NETWORK).is_some_and(|v| v == "1");
                // A launcher that runs the coordinator has asked its user.
                let asks = matches!(coordinator, CoordinatorAddress::RankZero { .. });
                let join = Join {
                    coordinator: Some(coordinator),
                    loopback_only: asks && !secret.is_protected() && !allowed,
                    rank: rank.rank,
                    size: rank.size,
                    secret,
                    ..Join::alone()
                };
                join.configured(get)
            }
        }
    }

    /// Applies the settings that variables have for any rank.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`]: a variable has a value that cannot be used.
    pub(crate) fn configured(self, get: &dyn Fn(&str) -> Option<String>) -> Result<Join> {
        let settings = RankSettings::from_variables(get)?;
        Ok(Join {
            timeouts: settings.timeouts,
            timeline: settings.timeline,
            trace: settings.trace,
            connections: settings.connections.unwrap_or(self.connections),
            ..self
        })
    }

    #[cfg(feature = "mpi")]
    fn of_mpirun(rank: &LaunchedRank) -> Result<Join> {
        Ok(Join {
            rank: rank.rank,
            size: rank.size,
            launched_by_mpi: true,
            ..Join::mpi()
        })
    }

    #[cfg(not(feature = "mpi"))]
    fn of_mpirun(rank: &LaunchedRank) -> Result<Join> {
        Err(CollectiveError::Argument(format!(
            "{} has started a program without MPI: build it with the feature `mpi`, start it with `thalweg launch hvd`, or \
             set {} and {} to a host and a free port for rank 0",
            rank.launcher,
            variables::COORDINATOR,
            variables::COORDINATOR_PORT
        )))
    }

    /// Returns the description of a rank in a round of an elastic job. From the second round on, files have the number of the
    /// round in their names.
    pub(crate) fn of_round(
        &self,
        round: u64,
        coordinator: SocketAddr,
        (rank, size): (usize, usize),
    ) -> Join {
        let of_round = |path: PathBuf| match round {
            ..2 => path,
            _ => {
                let extension = path.extension().unwrap_or_default().to_string_lossy();
                path.with_extension(format!("{round}.{extension}"))
            }
        };
        let timeline = self.timeline.clone().map(of_round);
        let trace = self.trace.clone().map(of_round);
        Join {
            coordinator: Some(CoordinatorAddress::Launcher(coordinator)),
            rank,
            size,
            timeline,
            trace,
            ..self.clone()
        }
    }

    /// File of the timeline of rank 0, if there is one.
    pub fn timeline(&self) -> Option<&Path> {
        self.timeline.as_deref()
    }

    /// File of the traces of ranks, if there is one.
    pub fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Sets the name of the host: ranks with the same name are on one host.
    pub fn host(self, name: &str) -> Join {
        Join {
            host: Some(name.to_owned()),
            ..self
        }
    }

    /// Sets whether ranks of one host share memory (default: `true`).
    pub fn memory(self, shares: bool) -> Join {
        Join {
            memory: shares,
            ..self
        }
    }

    /// Sets whether ranks may run collectives in different orders, and [join](crate::Progress::join) (default: `false`). A
    /// collective then waits until all ranks have announced it. All ranks must have the same setting.
    pub fn negotiated(self, negotiated: bool) -> Join {
        Join { negotiated, ..self }
    }

    /// Sets the number of TCP connections between two ranks of different hosts (default: 1, maximum: 64). Some networks limit
    /// the rate of each connection. Over a short queue, several connections lose packets to each other.
    pub fn connections(self, connections: usize) -> Join {
        Join {
            connections,
            ..self
        }
    }

    /// Sets the timeout of waits for other ranks: at the rendezvous (default: 60 s), and within a collective (default: 600 s).
    pub fn timeout(self, timeout: Duration) -> Join {
        let timeouts = RankTimeouts {
            rendezvous: timeout,
            stall_end: Some(timeout),
            ..self.timeouts
        };
        Join { timeouts, ..self }
    }

    /// Sets the time after which a wait for another rank in a collective is reported to the user (default: 60 s).
    pub fn warn_after(self, wait: Duration) -> Join {
        let timeouts = RankTimeouts {
            stall_warning: Some(wait),
            ..self.timeouts
        };
        Join { timeouts, ..self }
    }
}

/// Secret of a job, with the keys of a folder if a variable names one.
pub(crate) fn shared_secret(get: &dyn Fn(&str) -> Option<String>, text: &str) -> Result<Secret> {
    let secret = Secret::from(text);
    let Some(folder) = get(variables::PROTECTION) else {
        return Ok(secret);
    };
    #[cfg(feature = "tls")]
    return secret
        .protected(&folder)
        .map_err(|e| CollectiveError::Argument(format!("{}: {e}", variables::PROTECTION)));
    #[cfg(not(feature = "tls"))]
    Err(CollectiveError::Argument(format!(
        "{}={folder}: this program was built without TLS: build it with the feature `tls` of thalweg-collective, or \
         `cluster` of thalweg",
        variables::PROTECTION
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Result<Join> {
        let get = |name: &str| {
            let found = set.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Join::from_variables(&get)
    }

    #[test]
    fn each_round_of_an_elastic_job_writes_its_own_timeline() {
        let join = of(&[("HOROVOD_TIMELINE", "logs/t.json")]).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        for (round, name) in [(1, "logs/t.json"), (2, "logs/t.2.json")] {
            let of_round = join.of_round(round, address, (0, 1));
            assert_eq!(of_round.timeline(), Some(Path::new(name)));
        }
    }
}
