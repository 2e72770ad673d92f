//! Comparison of the collectives that ranks plan: once, before the first step of a plan.

use serde_json::json;
use thalweg_device::KernelError;

use super::shared::{ProgressShared, kernel_error};
use crate::error::CollectiveError;
use crate::ranks::tag;

impl ProgressShared {
    /// Compares the planned collectives of all ranks of a set.
    ///
    /// # Errors
    /// The first difference; the reason for which the job ended.
    pub(super) fn agree(
        &self,
        set: i32,
        lines: &[String],
        ended: &dyn Fn() -> bool,
    ) -> std::result::Result<(), KernelError> {
        let Some(control) = &self.control else {
            return Ok(());
        };
        let digest = tag(set, &lines.join("\n"));
        let (number, members) = {
            let mut state = self.state();
            if state.agreed.contains(&digest) {
                return Ok(());
            }
            let members = state.sets.get(&set).cloned().unwrap_or_default();
            let number = state.agreements.entry(set).or_default();
            *number += 1;
            (*number, members)
        };
        let name = format!("plan {number} of set {set}");
        let gather = |name: &str, value: &serde_json::Value| {
            let all = control.gather_among(name, value, &members, ended);
            all.map_err(|error| {
                // The coordinator keeps the value of this rank, so ranks cannot compare once more.
                let why = format!("it ended while ranks compared {name}");
                self.fail(&CollectiveError::Ended(why));
                match ended() {
                    true => KernelError::Stopped,
                    false => kernel_error(error),
                }
            })
        };
        let own = json!(format!("{digest:016x}"));
        if gather(&name, &own)?.iter().all(|other| *other == own) {
            self.state().agreed.insert(digest);
            return Ok(());
        }
        let all = gather(&format!("{name}, all of it"), &json!(lines))?;
        let error = difference(&members, &all, lines);
        self.fail(&error);
        Err(kernel_error(error))
    }
}

/// Error with the first rank whose plan differs, and the first difference.
fn difference(members: &[usize], all: &[serde_json::Value], own: &[String]) -> CollectiveError {
    let none = "nothing more";
    for (&rank, theirs) in members.iter().zip(all) {
        let theirs: Vec<&str> = theirs
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|l| l.as_str())
            .collect();
        let most = own.len().max(theirs.len());
        let line = |i: usize| (theirs.get(i).copied(), own.get(i).map(String::as_str));
        if let Some(i) = (0..most).find(|&i| line(i).0 != line(i).1) {
            let (theirs, ours) = line(i);
            return CollectiveError::Differs {
                rank,
                theirs: theirs.unwrap_or(none).to_owned(),
                ours: ours.unwrap_or(none).to_owned(),
            };
        }
    }
    CollectiveError::Ended("ranks plan different collectives".to_owned())
}
