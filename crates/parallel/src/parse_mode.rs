//! Parsing of modes by their names on the command line.

use std::str::FromStr;

use crate::error::ParallelError;
use crate::mode::VariableUpdate;

impl FromStr for VariableUpdate {
    type Err = ParallelError;

    fn from_str(text: &str) -> Result<VariableUpdate, ParallelError> {
        let mut all = VariableUpdate::ALL.into_iter();
        let found = all.find(|mode| mode.name() == text);
        found.ok_or_else(|| ParallelError::UnknownMode(text.to_owned()))
    }
}
