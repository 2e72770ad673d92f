//! Outcomes of runs.

use serde::{Deserialize, Serialize};

/// Speed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Images per second of all tasks.
    pub images_per_second: f64,
    /// Share of a step in which it exchanges values with other tasks, if the program tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<f64>,
    /// Share of a step in which it waits for input, if the program tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// The run has ended well.
    Speed(Speed),
    /// It has failed.
    Error {
        /// The reason.
        error: String,
    },
}
