//! Replacement of a task's process by a newer one.

use std::collections::BTreeMap;

use thalweg_tensor::sync::Unpoisoned;

use super::state::{Worker, WorkerSession};
use crate::cluster::spec::{TaskName, task_label, task_label_at};
use crate::error::ClusterError;
use crate::transport::messages as wire;
use crate::transport::processes::{self, Process};

impl Worker {
    /// Returns the identity of this process.
    pub(crate) fn process(&self) -> Process {
        Process {
            incarnation: self.incarnation,
            started: self.started,
        }
    }

    /// Returns the name and address of a task: `/job:ps/task:0 at 10.0.0.1:2222`.
    pub(crate) fn described(&self, task: &TaskName) -> String {
        let (job, index) = task;
        match self.cluster.address(job, *index) {
            Ok(address) => task_label_at(task, address),
            Err(_) => task_label(job, *index),
        }
    }

    /// Checks that no newer process is known to have replaced this one.
    ///
    /// # Errors
    /// A newer process has replaced it.
    pub(crate) fn is_current(&self) -> Result<(), ClusterError> {
        self.replaced.get().map_or(Ok(()), |e| Err(e.clone()))
    }

    /// Notes the newest processes of this cluster's tasks, as a caller knows them.
    pub(crate) fn note_known_processes(&self, known: Vec<wire::Process>) {
        for (task, process) in known.into_iter().map(processes::of_message) {
            if self.cluster.address(&task.0, task.1).is_ok() {
                // An old process is not noted.
                let _ = self.note_process(&task, process);
            }
        }
    }

    /// Notes a process of another task. Sessions of its older processes end.
    ///
    /// # Errors
    /// A newer process is known.
    pub(crate) fn note_process(
        &self,
        task: &TaskName,
        process: Process,
    ) -> Result<(), ClusterError> {
        let known = &self.peers.processes;
        if known.observe(
            task,
            process,
            self.platform.unix_micros(),
            &self.described(task),
        )? {
            let of_older = |session: &WorkerSession| {
                session.master.as_ref() == Some(task) && session.of != process.incarnation
            };
            let mut sessions = self.sessions.lock().unpoisoned();
            let all = std::mem::take(&mut *sessions);
            let (ended, kept): (BTreeMap<_, _>, _) =
                all.into_iter().partition(|(_, s)| of_older(s));
            *sessions = kept;
            for session in ended.into_values() {
                self.note(&sessions, &session);
                session.end("a newer process has taken the place of its master");
            }
        }
        Ok(())
    }

    /// Refuses all further calls and ends all sessions if a newer process of this task is known.
    ///
    /// # Errors
    /// A newer process is known.
    pub(crate) fn check_not_replaced(&self) -> Result<(), ClusterError> {
        self.is_current()?;
        let known = &self.peers.processes;
        let (now, described) = (self.platform.unix_micros(), self.described(&self.task));
        let own = known.observe(&self.task, self.process(), now, &described);
        let Err(replaced) = own else { return Ok(()) };
        tracing::warn!("{replaced}");
        let mut sessions = self.sessions.lock().unpoisoned();
        // Set here only.
        let _ = self.replaced.set(replaced.clone());
        for session in std::mem::take(&mut *sessions).into_values() {
            self.note(&sessions, &session);
            session.fail(replaced.clone());
        }
        Err(replaced)
    }
}
