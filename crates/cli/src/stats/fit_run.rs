//! Facts of a fit: its time, its ranks, its way to read rows.

use std::fmt;

/// Facts of a fit on this rank.
pub(super) struct FitRun {
    pub(super) seconds: f64,
    pub(super) ranks: usize,
    /// `true` if each pass read the rows anew.
    pub(super) streamed: bool,
}

impl fmt::Display for FitRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ranks in {:.3} s", self.ranks, self.seconds)?;
        match self.streamed {
            true => f.write_str(", rows read in each pass"),
            false => Ok(()),
        }
    }
}
