//! The newest known process of each task.
//!
//! A replaced process may still run, behind a pulled cable for example, and come back. A task that knows the newer
//! process does not return to the old one, and notifies it. The old process then refuses all calls: its state is
//! outdated.
//!
//! Processes of one task are ordered by their start times, by the clocks of their machines. A start time in the
//! future is replaced by the time of the first contact, so that a clock that was ahead does not block later
//! processes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use thalweg_tensor::sync::Unpoisoned;

use super::messages as wire;
use crate::cluster::spec::TaskName;
use crate::error::{Cause, ClusterError};

/// Identity of a process of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Unique number of the process.
    pub(crate) incarnation: u64,
    /// Start time, in microseconds since 1970.
    pub(crate) started: u64,
}

/// The newest known process of each task.
#[derive(Default)]
pub(crate) struct Processes(Mutex<BTreeMap<TaskName, TaskProcesses>>);

struct TaskProcesses {
    newest: Process,
    /// Incarnations of the last processes that it has replaced.
    replaced: Vec<u64>,
}

/// Maximum number of replaced processes that are remembered for a task.
const MAX_REMEMBERED: usize = 16;

impl Processes {
    fn known(&self) -> MutexGuard<'_, BTreeMap<TaskName, TaskProcesses>> {
        self.0.lock().unpoisoned()
    }

    /// Notes a process of a task. `true` if it replaces another one. `now` is this machine's time, in microseconds
    /// since 1970.
    ///
    /// # Errors
    /// A newer process is known; `described` names the task in the message.
    pub(crate) fn observe(
        &self,
        task: &TaskName,
        process: Process,
        now: u64,
        described: &str,
    ) -> Result<bool, ClusterError> {
        let process = Process {
            started: process.started.min(now),
            ..process
        };
        let mut all = self.known();
        let Some(known) = all.get_mut(task) else {
            let newest = process;
            let replaced = Vec::new();
            all.insert(task.clone(), TaskProcesses { newest, replaced });
            return Ok(false);
        };
        if known.newest.incarnation == process.incarnation {
            return Ok(false);
        }
        let was_replaced = known.replaced.contains(&process.incarnation);
        if was_replaced || process.started < known.newest.started {
            let seconds = known.newest.started.saturating_sub(process.started) as f64 / 1e6;
            let text = format!(
                "{described} is an old process: one that started {seconds:.1} s later has taken its place. End the \
                 old one; if it is the new one, set its machine's clock"
            );
            return Err(ClusterError::new(Cause::Replaced, text).at(task));
        }
        if known.replaced.len() == MAX_REMEMBERED {
            known.replaced.remove(0);
        }
        known.replaced.push(known.newest.incarnation);
        known.newest = process;
        Ok(true)
    }

    /// Returns the processes that `to` has to know: its own newest one, and those that have replaced others.
    pub(crate) fn known_to(&self, to: &TaskName) -> Vec<wire::Process> {
        let all = self.known();
        let told = all
            .iter()
            .filter(|(t, k)| *t == to || !k.replaced.is_empty());
        told.map(|(task, k)| message(task, k.newest)).collect()
    }
}

/// Encodes a task's process.
pub(crate) fn message((job, index): &TaskName, process: Process) -> wire::Process {
    wire::Process {
        job: job.clone(),
        index: *index,
        incarnation: process.incarnation,
        started: process.started,
    }
}

/// Decodes a task and its process.
pub(crate) fn of_message(message: wire::Process) -> (TaskName, Process) {
    let process = Process {
        incarnation: message.incarnation,
        started: message.started,
    };
    ((message.job, message.index), process)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 10_000_000;

    fn process(incarnation: u64, started: u64) -> Process {
        Process {
            incarnation,
            started,
        }
    }

    #[test]
    fn an_older_process_of_a_task_is_refused() {
        let known = Processes::default();
        let task = ("ps".to_owned(), 0);
        let meet = |p| known.observe(&task, p, NOW, "/job:ps/task:0 at 10.0.0.1:2222");
        let (old, new) = (process(1, 1_000_000), process(2, 3_000_000));
        assert!(!meet(old).unwrap());
        assert!(!meet(old).unwrap());
        assert!(meet(new).unwrap());
        let error = meet(old).unwrap_err();
        assert_eq!(
            (error.cause, &error.task),
            (Cause::Replaced, &Some(task.clone()))
        );
        assert!(error.message.contains("2.0 s later"), "{error}");
        assert!(!meet(new).unwrap());
    }

    #[test]
    fn a_process_whose_clock_was_ahead_can_be_replaced() {
        let known = Processes::default();
        let task = ("ps".to_owned(), 0);
        let (ahead, right) = (process(1, 1000 * NOW), process(2, NOW + 5));
        assert!(!known.observe(&task, ahead, NOW, "").unwrap());
        assert!(known.observe(&task, right, NOW + 10, "").unwrap());
        let error = known.observe(&task, ahead, NOW + 20, "").unwrap_err();
        assert_eq!(error.cause, Cause::Replaced);
    }

    #[test]
    fn a_callee_learns_of_its_own_and_of_replaced_processes() {
        let known = Processes::default();
        let names: Vec<TaskName> = (0..3).map(|i| ("ps".to_owned(), i)).collect();
        for name in &names {
            known.observe(name, process(1, 1), NOW, "").unwrap();
        }
        known.observe(&names[1], process(2, 2), NOW, "").unwrap();
        let told = |to: &TaskName| -> Vec<(u32, u64)> {
            let told = known.known_to(to).into_iter().map(of_message);
            told.map(|(t, p)| (t.1, p.incarnation)).collect()
        };
        assert_eq!(told(&names[0]), [(0, 1), (1, 2)]);
        assert_eq!(told(&names[1]), [(1, 2)]);
    }
}
