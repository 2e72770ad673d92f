//! Points of a grid.

use std::fmt::{Display, Formatter};

use serde::{Deserialize, Serialize};

/// Images of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    /// Images that the program makes itself.
    Synthetic,
    /// Images of files.
    Real,
}

/// Name, as in tables.
impl Display for Data {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Data::Synthetic => "synthetic",
            Data::Real => "real",
        })
    }
}

/// Settings of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    /// Way to update variables, as of the flag `--variable_update`.
    pub mode: String,
    /// Images of a run.
    pub data: Data,
    /// Images of a step of one task.
    pub batch: u32,
    /// Number of workers or ranks; 1 without servers is a process that trains alone.
    pub tasks: u32,
    /// Number of parameter servers; 0 for ranks and for one process.
    pub servers: u32,
}

impl Point {
    /// `true` for a process that trains alone: the speed to which others are compared.
    pub fn is_alone(&self) -> bool {
        self.tasks == 1 && self.servers == 0
    }

    /// Name of the point's files, of letters, digits, `_` and `-` alone: `horovod-4-tasks-0-servers-batch-32-synthetic`.
    pub fn file_stem(&self) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric();
        let mode = self.mode.chars();
        let mode: String = mode.map(|c| if is_plain(c) { c } else { '_' }).collect();
        format!(
            "{mode}-{}-tasks-{}-servers-batch-{}-{}",
            self.tasks, self.servers, self.batch, self.data
        )
    }
}

/// `horovod, 4 tasks, batch 32, synthetic`.
impl Display for Point {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} tasks", self.mode, self.tasks)?;
        if self.servers > 0 {
            write!(f, ", {} servers", self.servers)?;
        }
        write!(f, ", batch {}, {}", self.batch, self.data)
    }
}
