//! Scaling studies: a program over a grid of tasks, parameter servers, batches, modes and data, several runs of each point.
//!
//! - [`Grid`] lists the [`Point`]s of a study.
//! - [`StudyProgram`] runs the program at a point: alone, or by `thalweg launch`.
//! - [`RunFile`] keeps a record of each run in a file, so that an interrupted study goes on.
//! - [`Summary`] has the statistics of each point, its efficiency, and the best number of servers.
//!
//! The form is that of the study of distributed TensorFlow which the project began with: five runs of each point, 10 steps of
//! warm-up and 100 measured ones, and the best number of servers for each number of workers.

mod error;
mod grid;
mod outcome;
mod point;
mod program;
pub mod report;
mod run_file;
mod statistics;
mod summary;

pub use error::{Result, StudyError};
pub use grid::{Grid, Scaling};
pub use outcome::{Outcome, Speed, StepShares, printed_objects};
pub use point::{Data, Point};
pub use program::StudyProgram;
pub use run_file::{RunFile, RunRecord};
pub use statistics::SampleStatistics;
pub use summary::{PointSummary, Summary};
