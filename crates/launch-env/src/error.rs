//! Errors of environment variables.

use thiserror::Error;

/// Environment variable that is missing or cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvError {
    /// A launcher sets this variable together with others that are set.
    #[error(
        "{0} is not set beside others of its kind: start the program with `thalweg launch hvd`"
    )]
    Missing(&'static str),
    /// A value that cannot be parsed.
    #[error("{name}={value} cannot be used")]
    Invalid {
        /// Name of the variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A rank that is not below the number of ranks.
    #[error(
        "{rank_name}={rank} must be less than {size_name}={size}",
        rank_name = crate::variables::RANK,
        size_name = crate::variables::SIZE
    )]
    RankOutOfRange {
        /// The rank.
        rank: usize,
        /// Number of ranks.
        size: usize,
    },
}
