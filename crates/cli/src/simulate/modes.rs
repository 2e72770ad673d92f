//! Exchanges of gradients, and their predictions.

use clap::ValueEnum;
use thalweg_simulate::{Candidate, best};

/// Exchanges to predict.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum ModeChoice {
    /// Every one
    All,
    /// Values and gradients between workers and servers
    ParameterServer,
    /// Gradients to servers, updated values back to copies on the workers
    DistributedReplicated,
    /// Gradients between ranks
    AllReduce,
}

impl ModeChoice {
    pub(super) const EACH: [ModeChoice; 3] = [
        ModeChoice::ParameterServer,
        ModeChoice::DistributedReplicated,
        ModeChoice::AllReduce,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            ModeChoice::All => "all",
            ModeChoice::ParameterServer => "parameter_server",
            ModeChoice::DistributedReplicated => "distributed_replicated",
            ModeChoice::AllReduce => "all_reduce",
        }
    }
}

/// Predictions of a mode.
pub(super) struct ModePredictions {
    pub(super) mode: ModeChoice,
    /// `true` with staged values.
    pub(super) staged: bool,
    /// By number of servers; of all-reduce, one with 0.
    pub(super) candidates: Vec<Candidate>,
}

impl ModePredictions {
    /// Name in tables.
    pub(super) fn name(&self) -> String {
        let staged = if self.staged { ", staged" } else { "" };
        format!("{}{staged}", self.mode.name())
    }

    pub(super) fn best(&self) -> Option<&Candidate> {
        best(&self.candidates)
    }
}
