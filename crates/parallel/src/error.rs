//! What cannot be built.

use thalweg_train::TrainError;

use crate::mode::VariableUpdate;

/// Options that do not go together, or a specification that cannot be read. Mistakes in the model itself are kept in the
/// graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelError {
    /// Not a way to update variables.
    #[error("there is no way to update variables called '{0}': give {names}", names = names())]
    UnknownMode(String),
    /// An option that does not go with the mode.
    #[error("{option} does not go with {mode}: {advice}")]
    Option {
        /// The option.
        option: &'static str,
        /// The mode.
        mode: VariableUpdate,
        /// What to do.
        advice: &'static str,
    },
    /// Two options that exclude each other.
    #[error("{0} and {1} exclude each other: leave out one of them")]
    Both(&'static str, &'static str),
    /// A number that is out of its range.
    #[error("{what} is {found}: give {range}")]
    Range {
        /// Which number.
        what: &'static str,
        /// What was given.
        found: String,
        /// What may be given.
        range: &'static str,
    },
    /// An all-reduce that cannot be read, or is not there.
    #[error("the all-reduce '{spec}': {why}")]
    AllReduce {
        /// As it was given.
        spec: String,
        /// Why not.
        why: String,
    },
    /// The towers do not have the same variables.
    #[error(
        "tower {tower} has {found} variables to train, and tower 0 has {first}: build the same model in each tower"
    )]
    Towers {
        /// The tower.
        tower: usize,
        /// Its variables.
        found: usize,
        /// Those of the first tower.
        first: usize,
    },
    /// A tower that makes a variable of its own, where towers share them.
    #[error(
        "tower {tower} makes variable '{variable}' anew: make it with a layer or get_variable, so that towers share it"
    )]
    Unshared {
        /// The tower.
        tower: usize,
        /// The variable.
        variable: String,
    },
    /// Workers that have not come to where others wait for them.
    #[error(
        "{missing} of {workers} workers have not come within {waited:?}: start them, or look at what keeps them"
    )]
    Absent {
        /// How many.
        missing: i64,
        /// Of how many.
        workers: u32,
        /// For how long they were waited for.
        waited: std::time::Duration,
    },
    /// A flag of a task that cannot be read.
    #[error("{flag} {value}: give a number from 0 on")]
    Flags {
        /// The flag.
        flag: &'static str,
        /// What was given.
        value: String,
    },
    /// A cluster that cannot be.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Cluster(#[from] thalweg_dist::cluster::SpecError),
    /// A server that cannot be started.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Server(#[from] thalweg_dist::ServerError),
    /// Variables did not get their first values.
    #[error(transparent)]
    Train(#[from] TrainError),
}

fn names() -> String {
    VariableUpdate::ALL.map(VariableUpdate::name).join(", ")
}
