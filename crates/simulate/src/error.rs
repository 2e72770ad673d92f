//! Errors of simulations.

use std::path::PathBuf;

use thiserror::Error;

/// Error of a simulation, or of its cluster file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// A cluster file is not read.
    #[error("the cluster file {} is not read: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        source: std::io::Error,
    },
    /// A cluster file has a mistake.
    #[error("{origin}, line {line}: {reason}")]
    File {
        /// Name of the file.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Mistake, and the remedy.
        reason: String,
    },
    /// No model has this name.
    #[error("no network is called '{name}' for {data}: `cnn_benchmarks --help` lists them")]
    Model {
        /// Name.
        name: String,
        /// Data set.
        data: String,
    },
    /// A graph of a file cannot be used.
    #[error("{origin}: {reason}")]
    Graph {
        /// Name of the file.
        origin: String,
        /// Reason.
        reason: String,
    },
    /// A simulation would take too much memory.
    #[error("a step has {activities} activities, of which {most} fit: simulate fewer workers")]
    Size {
        /// Activities of all workers.
        activities: usize,
        /// Maximum.
        most: usize,
    },
    /// The graph has no value that a worker sends to a server.
    #[error(
        "no variable of the graph is updated by the step: fetch the operation that trains, as --fetch train_step"
    )]
    NoUpdate,
    /// The training is not built.
    #[error(transparent)]
    Parallel(#[from] thalweg_parallel::ParallelError),
    /// The graph is not placed or cut.
    #[error(transparent)]
    Plan(#[from] thalweg_plan::SessionError),
}

/// Result of a simulation.
pub type Result<T> = std::result::Result<T, SimulateError>;
