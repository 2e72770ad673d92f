//! Errors of environment variables.

use thiserror::Error;

use crate::hostlist::HostlistError;
use crate::launcher::Launcher;

/// Environment variable that is missing or cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvError {
    /// A launcher sets this variable together with another one, which is set.
    #[error(
        "{name} is not set beside {beside}: {launcher} sets both; start the program with {launcher}, or unset {beside}"
    )]
    Missing {
        /// Name of the variable that is not set.
        name: &'static str,
        /// Name of the other variable.
        beside: &'static str,
        /// Launcher that sets both.
        launcher: Launcher,
    },
    /// A value that cannot be parsed.
    #[error("{name}={value} cannot be used")]
    Invalid {
        /// Name of the variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A count of ranks, or the number of one, that is no number.
    #[error(
        "{name}={value} is no number below 1048576: {launcher} sets it; start the program with {launcher}, or unset it"
    )]
    NotANumber {
        /// Name of the variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// Launcher that sets it.
        launcher: Launcher,
    },
    /// A rank that is not below the number of ranks.
    #[error(
        "{rank_name}={rank} must be less than {size_name}={size}: {launcher} sets both; start the program with \
         {launcher}, or unset {rank_name}"
    )]
    RankOutOfRange {
        /// Name of the variable of the rank.
        rank_name: &'static str,
        /// The rank.
        rank: usize,
        /// Name of the variable of the number of ranks.
        size_name: &'static str,
        /// Number of ranks.
        size: usize,
        /// Launcher that sets both.
        launcher: Launcher,
    },
    /// A rank whose launcher does not tell the number of ranks.
    #[error(
        "{name} is set, and no variable has the number of ranks: start the program with srun, mpirun or `thalweg launch \
         hvd`, or unset {name}"
    )]
    SizeUnknown {
        /// Name of the variable of the rank.
        name: &'static str,
    },
    /// A rank that does not know where rank 0 is.
    #[error(
        "rank {rank} of {size}, started by {launcher}, does not know where rank 0 is: set {name} for all ranks, {meaning}"
    )]
    NoCoordinator {
        /// The rank.
        rank: usize,
        /// Number of ranks.
        size: usize,
        /// Launcher of the rank.
        launcher: Launcher,
        /// Name of the variable to set.
        name: &'static str,
        /// Meaning of the variable.
        meaning: &'static str,
    },
    /// A variable of Slurm that cannot be used.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// A `TF_CONFIG` that cannot be read.
    #[error("TF_CONFIG: {0}")]
    TfConfig(String),
}

/// Slurm variable that is missing or cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{variable}: {reason}")]
pub struct SlurmError {
    /// Name of the variable.
    pub variable: String,
    /// Why it cannot be used.
    pub reason: String,
}

impl SlurmError {
    /// Error of a variable, for a reason.
    pub fn new(variable: &str, reason: impl Into<String>) -> SlurmError {
        SlurmError {
            variable: variable.to_owned(),
            reason: reason.into(),
        }
    }

    /// Error of a variable that holds a host list.
    pub(crate) fn of_list(variable: &str, error: &HostlistError) -> SlurmError {
        SlurmError::new(variable, error.to_string())
    }
}
