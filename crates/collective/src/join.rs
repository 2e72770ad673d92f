//! How a process becomes a rank.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{CollectiveError, Result};
use crate::secret::Secret;

/// How long ranks wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Until all are there.
    pub(crate) meet: Duration,
    /// Within a collective, until people are told; for ever, where there is nothing.
    pub(crate) warn: Option<Duration>,
    /// Within a collective, until the job ends; for ever, where there is nothing.
    pub(crate) end: Option<Duration>,
}

const PATIENCE: Patience = Patience {
    meet: Duration::from_secs(60),
    warn: Some(Duration::from_secs(60)),
    end: Some(Duration::from_secs(600)),
};

/// What Open MPI and MPICH set for each process that they start.
const OF_MPIRUN: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// What a process knows of the job that it is a rank of.
#[derive(Clone, Debug)]
pub struct Join {
    pub(crate) coordinator: Option<SocketAddr>,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) secret: Secret,
    pub(crate) host: Option<String>,
    pub(crate) memory: bool,
    pub(crate) negotiated: bool,
    /// Of a link with a rank of another host.
    pub(crate) connections: usize,
    /// Where rank 0 writes its timeline.
    pub(crate) timeline: Option<PathBuf>,
    /// Where this rank writes its trace.
    pub(crate) trace: Option<PathBuf>,
    /// Whether MPI tells who this rank is, and carries values.
    #[cfg(feature = "mpi")]
    pub(crate) mpi: bool,
    pub(crate) patience: Patience,
}

/// The names of the environment variables that a launcher sets: Horovod's, and one of our own.
pub mod variables {
    /// The number of a rank.
    pub const RANK: &str = "HOROVOD_RANK";
    /// How many ranks there are.
    pub const SIZE: &str = "HOROVOD_SIZE";
    /// The number of a rank among those of its host.
    pub const LOCAL_RANK: &str = "HOROVOD_LOCAL_RANK";
    /// How many ranks its host has.
    pub const LOCAL_SIZE: &str = "HOROVOD_LOCAL_SIZE";
    /// The IP address of the coordinator.
    pub const ADDRESS: &str = "HOROVOD_GLOO_RENDEZVOUS_ADDR";
    /// The port of the coordinator.
    pub const PORT: &str = "HOROVOD_GLOO_RENDEZVOUS_PORT";
    /// 1 where nobody is told that a rank does not come.
    pub const STALL_DISABLE: &str = "HOROVOD_STALL_CHECK_DISABLE";
    /// After how many seconds in which a rank does not come to a collective people are told.
    pub const STALL_WARN: &str = "HOROVOD_STALL_CHECK_TIME_SECONDS";
    /// After how many seconds the job ends then; 0 for never.
    pub const STALL_END: &str = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS";
    /// How long ranks wait until all are there, in seconds.
    pub const TIMEOUT: &str = "HOROVOD_GLOO_TIMEOUT_SECONDS";
    /// 1 where ranks may come and go.
    pub const ELASTIC: &str = "HOROVOD_ELASTIC";
    /// The number of a process of a job whose ranks come and go.
    pub const WORKER: &str = "THALWEG_ELASTIC_WORKER";
    /// What the launcher calls the host.
    pub const HOST: &str = "HOROVOD_HOSTNAME";
    /// The file to which rank 0 writes what collectives wait for and do.
    pub const TIMELINE: &str = "HOROVOD_TIMELINE";
    /// How many connections ranks of different hosts have with each other.
    pub const CONNECTIONS: &str = "THALWEG_CONNECTIONS";
    /// A folder of keys that `thalweg protect` has made: connections go over TLS.
    pub const PROTECTION: &str = "THALWEG_PROTECTION";
    /// The file to which each rank writes what its collectives wait for and do, with the rank's number after it.
    pub const TRACE: &str = "THALWEG_TRACE";
    /// What only the ranks of a job know.
    pub const SECRET: &str = "THALWEG_JOB_SECRET";
}

impl Join {
    /// The only rank of a job.
    pub fn alone() -> Join {
        Join {
            coordinator: None,
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
            patience: PATIENCE,
        }
    }

    /// One of `size` ranks that meet at a coordinator and know a secret.
    pub fn at(
        coordinator: SocketAddr,
        rank: usize,
        size: usize,
        secret: impl Into<Secret>,
    ) -> Join {
        Join {
            coordinator: Some(coordinator),
            rank,
            size,
            secret: secret.into(),
            ..Join::alone()
        }
    }

    /// One of the ranks that `mpirun` has started: MPI carries the values.
    #[cfg(feature = "mpi")]
    pub fn mpi() -> Join {
        Join {
            mpi: true,
            ..Join::alone()
        }
    }

    /// What `thalweg launch hvd` or `mpirun` has set in the environment; alone, where they have set nothing.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`]: a variable has a value that cannot be used, or is missing beside others; `mpirun` has
    /// started a program that was built without the feature `mpi`.
    pub fn from_env() -> Result<Join> {
        Join::from_variables(&|name| std::env::var(name).ok())
    }

    /// As [`Join::from_env`], of variables that a function gives.
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
        use variables::{ELASTIC, RANK, SECRET, SIZE, WORKER};
        if get(WORKER).is_some() {
            return Err(CollectiveError::Argument(format!(
                "{ELASTIC} is set, and ranks come and go: use hvd::elastic::run in place of Hvd::init, or launch the \
                 program without --min-np and --max-np"
            )));
        }
        if get(RANK).is_none() && get(SIZE).is_none() {
            let by_mpi = OF_MPIRUN.iter().any(|name| get(name).is_some());
            if by_mpi && get(variables::PROTECTION).is_some() {
                return Err(CollectiveError::Argument(format!(
                    "{} is set, and MPI carries values without protection: start the ranks with `thalweg launch hvd`, or \
                     unset it",
                    variables::PROTECTION
                )));
            }
            return match by_mpi {
                true => Join::of_mpirun()?.configured(get),
                false => Join::alone().configured(get),
            };
        }
        let rank = parsed(RANK, &needed(get, RANK)?)?;
        let size = parsed(SIZE, &needed(get, SIZE)?)?;
        if rank >= size {
            return Err(CollectiveError::Argument(format!(
                "{RANK}={rank} must be less than {SIZE}={size}"
            )));
        }
        let secret = shared_secret(get, &get(SECRET).unwrap_or_default())?;
        Join::at(meeting(get)?, rank, size, &secret).configured(get)
    }

    /// With what variables say of any rank: for how long it waits, and where its timeline is.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`]: a variable has a value that cannot be used.
    pub(crate) fn configured(self, get: &dyn Fn(&str) -> Option<String>) -> Result<Join> {
        Ok(Join {
            patience: Patience::from_variables(get)?,
            timeline: get(variables::TIMELINE).map(PathBuf::from),
            trace: get(variables::TRACE).map(PathBuf::from),
            connections: match get(variables::CONNECTIONS) {
                Some(text) => parsed(variables::CONNECTIONS, &text)?,
                None => self.connections,
            },
            ..self
        })
    }

    #[cfg(feature = "mpi")]
    fn of_mpirun() -> Result<Join> {
        Ok(Join::mpi())
    }

    #[cfg(not(feature = "mpi"))]
    fn of_mpirun() -> Result<Join> {
        Err(CollectiveError::Argument(
            "mpirun has started a program without MPI: build it with the feature `mpi`, or start it with \
             `thalweg launch hvd`"
                .to_owned(),
        ))
    }

    /// The same for a round of an elastic job, whose timeline from the second round on has the number in its name.
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
            coordinator: Some(coordinator),
            rank,
            size,
            timeline,
            trace,
            ..self.clone()
        }
    }

    /// Where rank 0 writes its timeline, if it does.
    pub fn timeline(&self) -> Option<&Path> {
        self.timeline.as_deref()
    }

    /// Where ranks write what their collectives wait for and do, if they do.
    pub fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// The number of the rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// With another name of the host: ranks with the same one are neighbours.
    pub fn host(self, name: &str) -> Join {
        Join {
            host: Some(name.to_owned()),
            ..self
        }
    }

    /// Whether ranks of one host share memory (they do).
    pub fn memory(self, shares: bool) -> Join {
        Join {
            memory: shares,
            ..self
        }
    }

    /// Whether ranks may run collectives in different orders, and [join](crate::Progress::join) (they may not): each one then
    /// waits until all ranks have announced it. All ranks must say the same.
    pub fn negotiated(self, negotiated: bool) -> Join {
        Join { negotiated, ..self }
    }

    /// How many TCP connections ranks of different hosts have with each other (1), at most 64. Some networks give each connection a
    /// part of their rate only. Over a short queue, several connections lose packets to each other.
    pub fn connections(self, connections: usize) -> Join {
        Join {
            connections,
            ..self
        }
    }

    /// How long ranks wait for each other: to meet (60 s), and within a collective (600 s).
    pub fn patience(self, most: Duration) -> Join {
        let patience = Patience {
            meet: most,
            end: Some(most),
            ..self.patience
        };
        Join { patience, ..self }
    }

    /// How long a rank waits for another one in a collective until people are told (60 s).
    pub fn warn_after(self, wait: Duration) -> Join {
        let patience = Patience {
            warn: Some(wait),
            ..self.patience
        };
        Join { patience, ..self }
    }
}

impl Patience {
    /// As the variables say, and as it is without them.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`]: one is no number.
    pub(crate) fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Result<Patience> {
        use variables::{STALL_DISABLE, STALL_END, STALL_WARN, TIMEOUT};
        let seconds = |name: &str| -> Result<Option<Duration>> {
            let text = get(name).map(|text| parsed(name, &text));
            Ok(text.transpose()?.map(Duration::from_secs))
        };
        let some = |wait: Duration| (!wait.is_zero()).then_some(wait);
        let disabled = get(STALL_DISABLE).is_some_and(|v| v == "1");
        Ok(Patience {
            meet: seconds(TIMEOUT)?.unwrap_or(PATIENCE.meet),
            warn: match (disabled, seconds(STALL_WARN)?) {
                (true, _) => None,
                (_, Some(wait)) => some(wait),
                (_, None) => PATIENCE.warn,
            },
            end: seconds(STALL_END)?.map_or(PATIENCE.end, some),
        })
    }
}

/// A variable that a launcher sets beside others.
pub(crate) fn needed(get: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<String> {
    get(name).ok_or_else(|| {
        CollectiveError::Argument(format!(
            "{name} is not set beside others of its kind: start the program with `thalweg launch hvd`"
        ))
    })
}

/// The secret of a job: with the keys of a folder, where a variable names one.
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

/// The value of a variable.
pub(crate) fn parsed<T: std::str::FromStr>(name: &str, text: &str) -> Result<T> {
    let wrong = |_| CollectiveError::Argument(format!("{name}={text} cannot be used"));
    text.parse().map_err(wrong)
}

/// Where the processes of a job meet.
pub(crate) fn meeting(get: &dyn Fn(&str) -> Option<String>) -> Result<SocketAddr> {
    use variables::{ADDRESS, PORT};
    let (ip, port) = (needed(get, ADDRESS)?, needed(get, PORT)?);
    Ok(SocketAddr::new(parsed(ADDRESS, &ip)?, parsed(PORT, &port)?))
}

/// What tells this host from others: processes with the same one may share memory.
pub(crate) fn host() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let boot = read("/proc/sys/kernel/random/boot_id");
    let name = read("/proc/sys/kernel/hostname");
    // A network of its own is a host of its own.
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    format!("{} {} {}", boot.trim(), name.trim(), network.display())
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
    fn variables_say_how_long_ranks_wait_and_0_is_for_ever() {
        let waits = |join: Join| {
            let Patience { meet, warn, end } = join.patience;
            [Some(meet), warn, end].map(|w| w.map(|w| w.as_secs()))
        };
        assert_eq!(waits(of(&[]).unwrap()), [Some(60), Some(60), Some(600)]);
        let set = [
            ("HOROVOD_GLOO_TIMEOUT_SECONDS", "5"),
            ("HOROVOD_STALL_CHECK_TIME_SECONDS", "6"),
            ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0"),
        ];
        assert_eq!(waits(of(&set).unwrap()), [Some(5), Some(6), None]);
        let disabled = of(&[("HOROVOD_STALL_CHECK_DISABLE", "1")]);
        assert_eq!(waits(disabled.unwrap()), [Some(60), None, Some(600)]);
        let error = of(&[("HOROVOD_STALL_CHECK_TIME_SECONDS", "soon")]).unwrap_err();
        let said = "HOROVOD_STALL_CHECK_TIME_SECONDS=soon cannot be used";
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn each_round_of_an_elastic_job_has_a_timeline_of_its_own() {
        let join = of(&[("HOROVOD_TIMELINE", "logs/t.json")]).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        for (round, name) in [(1, "logs/t.json"), (2, "logs/t.2.json")] {
            let of_round = join.of_round(round, address, (0, 1));
            assert_eq!(of_round.timeline(), Some(Path::new(name)));
        }
    }
}
