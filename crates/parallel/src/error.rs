//! Errors of data parallelism.

use thalweg_train::TrainError;

use crate::mode::VariableUpdate;

/// Contradicting options, or a specification that cannot be parsed. Mistakes in the model itself are kept in the graph.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ParallelError {
    /// The name of a mode is unknown.
    #[error("there is no way to update variables called '{0}': give {names}", names = names())]
    UnknownMode(String),
    /// An option is not available in the mode.
    #[error("{option} does not go with {mode}: {advice}")]
    Option {
        /// The option.
        option: &'static str,
        /// The mode.
        mode: VariableUpdate,
        /// Advice.
        advice: &'static str,
    },
    /// Two options that exclude each other.
    #[error("{0} and {1} exclude each other: leave out one of them")]
    Both(&'static str, &'static str),
    /// A number is out of its range.
    #[error("{what} is {found}: give {range}")]
    Range {
        /// Name of the number.
        what: &'static str,
        /// Value that was given.
        found: String,
        /// Valid values.
        range: &'static str,
    },
    /// An all-reduce specification cannot be parsed, or is not supported.
    #[error("the all-reduce '{spec}': {why}")]
    AllReduce {
        /// The specification.
        spec: String,
        /// The reason.
        why: String,
    },
    /// The towers do not have the same variables.
    #[error(
        "tower {tower} has {found} variables to train, and tower 0 has {first}: build the same model in each tower"
    )]
    Towers {
        /// The tower.
        tower: usize,
        /// Number of its variables.
        found: usize,
        /// Number of variables of the first tower.
        first: usize,
    },
    /// A tower creates a variable of its own, although towers share variables.
    #[error(
        "tower {tower} makes variable '{variable}' anew: make it with a layer or get_variable, so that towers share it"
    )]
    Unshared {
        /// The tower.
        tower: usize,
        /// The variable.
        variable: String,
    },
    /// Workers did not reach a barrier in time.
    #[error(
        "{missing} of {workers} workers have not come within {waited:?}: start them, or look at what keeps them"
    )]
    Absent {
        /// Number of missing workers.
        missing: i64,
        /// Number of workers.
        workers: u32,
        /// Time of the wait.
        waited: std::time::Duration,
    },
    /// A flag of a task cannot be parsed.
    #[error("{flag} {value}: give a number from 0 on")]
    Flags {
        /// The flag.
        flag: &'static str,
        /// Value that was given.
        value: String,
    },
    /// The description of the cluster is invalid.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Cluster(#[from] thalweg_dist::cluster::SpecError),
    /// A server cannot be started.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Server(#[from] thalweg_dist::ServerError),
    /// The keys of the cluster cannot be read.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Protection(#[from] thalweg_dist::protection::ProtectionError),
    /// Variables could not be initialized.
    #[error(transparent)]
    Train(#[from] TrainError),
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for ParallelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

fn names() -> String {
    VariableUpdate::ALL.map(VariableUpdate::name).join(", ")
}
