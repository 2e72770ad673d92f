//! A task, and the sessions of its masters.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use thalweg_graph::DeviceSpec;
use thalweg_session::{Engine, Runner, SessionOptions};
use thalweg_tensor::sync::Unpoisoned;
use tokio::sync::watch;
use tokio::time::Instant;

use super::completion::CompletionState;
use super::registered_part::RegisteredPart;
use super::session_cluster::{SessionCluster, session_cluster};
use super::stamps::StampLog;
use super::step::WorkerStep;
use super::turns::TurnRegistry;
use crate::cluster::spec::{ClusterSpec, TaskName};
use crate::error::{Cause, ClusterError};
use crate::limits::server_limits::Limits;
use crate::limits::settings::limit_name;
use crate::metrics::counters::Counters;
use crate::runtime::platform::Platform;
use crate::transport::messages as wire;
use crate::transport::parts::ops::{self, OpTable};
use crate::transport::peers::Peers;
use crate::transport::processes::Process;
use crate::transport::shared_memory::lender::{Lender, Loans};

/// Message of a draining task to new sessions and steps.
pub(crate) const DRAINING: &str =
    "the task drains: it ends when its steps have, and takes nothing new. Use another one";

/// State of a task, as its masters use it.
pub(crate) struct Worker {
    pub(crate) engine: Engine,
    pub(crate) options: SessionOptions,
    pub(crate) limits: Limits,
    pub(crate) cluster: ClusterSpec,
    pub(crate) task: TaskName,
    pub(crate) peers: Arc<Peers>,
    /// Unique number of this process, different from earlier processes at the same address.
    pub(crate) incarnation: u64,
    /// Start time, in microseconds since 1970.
    pub(super) started: u64,
    pub(crate) platform: Arc<dyn Platform>,
    pub(super) ops: OpTable,
    /// Loans to co-located tasks, if the task has shared memory.
    pub(crate) lender: Option<Arc<Lender>>,
    /// By handle. The order is deterministic, as is that of steps.
    pub(super) sessions: Mutex<BTreeMap<String, Arc<WorkerSession>>>,
    ends: AtomicBool,
    /// Set once a newer process is known to have replaced this one.
    pub(super) replaced: OnceLock<ClusterError>,
    /// `true` once it drains: it refuses new sessions and waits for running steps.
    drains: AtomicBool,
    pub(super) steps: Arc<()>,
    /// Counters.
    pub(crate) counts: Arc<Counters>,
    /// Changed with `sessions` locked where those change.
    pub(crate) completion: watch::Sender<CompletionState>,
    pub(super) once: StampLog,
    /// Turns of the synchronous trainings that this task coordinates.
    pub(crate) turns: TurnRegistry,
}

/// Session of one master on this task.
pub(crate) struct WorkerSession {
    pub(super) runner: Arc<Runner>,
    pub(super) parts: Mutex<SessionParts>,
    pub(super) steps: Mutex<BTreeMap<u64, Arc<WorkerStep>>>,
    /// Number of the opening of the session, chosen by the master.
    opening: u64,
    /// Cluster of the session's own.
    pub(super) cluster: Option<SessionCluster>,
    /// Task of the master.
    pub(super) master: Option<TaskName>,
    /// Incarnation of the master's process.
    pub(super) of: u64,
    /// `true` once it is closed.
    pub(super) closed: watch::Sender<bool>,
}

#[derive(Default)]
pub(super) struct SessionParts {
    pub(super) made: u64,
    pub(super) kept: HashMap<u64, Arc<RegisteredPart>>,
}

impl Worker {
    pub(crate) fn new(
        engine: Engine,
        options: SessionOptions,
        limits: Limits,
        (cluster, task): (ClusterSpec, TaskName),
        peers: Arc<Peers>,
        platform: Arc<dyn Platform>,
    ) -> Worker {
        let shares = peers.options.shared_memory && options.has_shared_memory();
        let (incarnation, started) = (platform.random_u64(), platform.unix_micros());
        let process = Process {
            incarnation,
            started,
        };
        let counts = peers.counts.clone();
        // Other processes are compared with it.
        let _ = peers.processes.observe(&task, process, started, "");
        Worker {
            lender: shares.then(Arc::default),
            engine,
            ops: ops::ops(options.op_set()),
            options,
            limits,
            cluster,
            task,
            peers,
            incarnation,
            started,
            platform,
            sessions: Mutex::default(),
            ends: AtomicBool::new(false),
            replaced: OnceLock::new(),
            drains: AtomicBool::new(false),
            steps: Arc::default(),
            counts,
            completion: watch::Sender::default(),
            once: StampLog::default(),
            turns: TurnRegistry::default(),
        }
    }

    /// Opens a session with this handle.
    ///
    /// # Errors
    /// As [`Worker::open_in`].
    #[cfg(any(test, fuzzing))]
    pub(crate) fn open(
        &self,
        handle: &str,
        opening: u64,
        isolated: bool,
        master: Option<(TaskName, u64)>,
    ) -> Result<Arc<WorkerSession>, ClusterError> {
        self.open_in(handle, opening, isolated, master, &[])
    }

    /// Opens a session with this handle, in a cluster of its own if there are `tasks`.
    ///
    /// # Errors
    /// The limit of sessions is reached, a newer process has replaced this one, or the cluster cannot be used.
    pub(crate) fn open_in(
        &self,
        handle: &str,
        opening: u64,
        isolated: bool,
        master: Option<(TaskName, u64)>,
        tasks: &[wire::Task],
    ) -> Result<Arc<WorkerSession>, ClusterError> {
        self.check_not_replaced()?;
        let cluster = session_cluster(&self.cluster, &self.peers, tasks)?;
        let engine = match isolated {
            true => self.engine.isolated(),
            false => self.engine.clone(),
        };
        let (master, of) = master.unzip();
        let session = Arc::new(WorkerSession {
            runner: Arc::new(Runner::new(engine, self.options.clone())),
            parts: Mutex::default(),
            steps: Mutex::default(),
            opening,
            cluster,
            master,
            of: of.unwrap_or_default(),
            closed: watch::Sender::new(false),
        });
        let mut sessions = self.sessions.lock().unpoisoned();
        self.is_current()?;
        if self.ends.load(Ordering::Acquire) {
            return Err(ClusterError::new(
                Cause::ShutDown,
                "the task is shutting down",
            ));
        }
        if self.drains() {
            return Err(ClusterError::new(Cause::ShutDown, DRAINING));
        }
        if sessions.len() >= self.limits.sessions {
            let text = format!(
                "this task has {} sessions, as many as it may: close one",
                sessions.len()
            );
            return Err(self.counts.counted(ClusterError::limit_exceeded(
                const { limit_name("sessions") },
                text,
            )));
        }
        // A master that opens the handle again has lost the previous session.
        let before = sessions.insert(handle.to_owned(), session.clone());
        self.note(&sessions, &session);
        if let Some(before) = &before {
            self.note(&sessions, before);
        }
        drop(sessions);
        if let Some(before) = before {
            before.end("its master has opened it anew");
        }
        Ok(session)
    }

    /// Closes a session: its steps fail, its parts are dropped.
    pub(crate) fn close(&self, handle: &str, session: &Arc<WorkerSession>) {
        let mut sessions = self.sessions.lock().unpoisoned();
        // Another session may have taken the handle.
        if sessions
            .get(handle)
            .is_some_and(|s| Arc::ptr_eq(s, session))
        {
            sessions.remove(handle);
            self.note(&sessions, session);
        }
        drop(sessions);
        session.end("its session was closed");
    }

    /// Returns the session of this handle.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn session(&self, handle: &str) -> Result<Arc<WorkerSession>, ClusterError> {
        let found = self.sessions.lock().unpoisoned().get(handle).cloned();
        found.ok_or_else(|| {
            let text =
                "this task does not have the session: it has restarted, or had lost its master";
            ClusterError::new(Cause::SessionLost, text)
        })
    }

    /// Returns the session of this handle and this opening.
    ///
    /// # Errors
    /// There is none, or the handle was opened again.
    pub(crate) fn opened(
        &self,
        handle: &str,
        opening: u64,
    ) -> Result<Arc<WorkerSession>, ClusterError> {
        let session = self.session(handle)?;
        match session.opening == opening {
            true => Ok(session),
            false => {
                let text = "the session was opened anew since this was asked for";
                Err(ClusterError::new(Cause::SessionLost, text))
            }
        }
    }

    /// `true` once it is shut down.
    pub(crate) fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// `true` once it drains.
    pub(crate) fn drains(&self) -> bool {
        self.drains.load(Ordering::SeqCst)
    }

    /// Refuses new sessions from now on.
    pub(crate) fn drain(&self) {
        self.drains.store(true, Ordering::SeqCst);
    }

    /// Returns the number of running parts.
    pub(crate) fn running(&self) -> usize {
        Arc::strong_count(&self.steps) - 1
    }

    /// Refuses new work, and ends all sessions.
    pub(crate) fn end(&self) {
        let mut sessions = self.sessions.lock().unpoisoned();
        self.ends.store(true, Ordering::Release);
        for session in std::mem::take(&mut *sessions).into_values() {
            self.note(&sessions, &session);
            session.end("the task was shut down");
        }
    }

    /// Returns loans for a caller that is connected to the socket of this incarnation.
    pub(crate) fn loans(&self, colocated: u64) -> Option<Loans> {
        let lender = self.lender.clone();
        lender
            .filter(|_| colocated == self.incarnation)
            .map(Loans::new)
    }

    /// Returns the address of the socket for descriptors of loans.
    pub(crate) fn colocation(&self) -> Option<wire::Colocation> {
        let (most, timeout) = (self.limits.sessions, self.peers.options.timeouts.heartbeat);
        let lender = self.lender.as_ref()?;
        let said = lender.socket(self.platform.runtime(), most, timeout)?;
        Some(wire::Colocation {
            incarnation: self.incarnation,
            ..said
        })
    }

    /// Returns the names of its devices.
    pub(crate) fn devices(&self) -> Vec<DeviceSpec> {
        let devices = self.engine.devices().iter();
        devices.map(|d| d.name().clone()).collect()
    }

    /// Clears containers; the default one if none is named.
    pub(crate) fn clear(&self, containers: &[String]) {
        match containers {
            [] => self.engine.store().clear(""),
            some => some.iter().for_each(|c| {
                // TensorFlow's default container has the name of the job.
                let name = if c == self.options.job() { "" } else { c };
                self.engine.store().clear(name);
            }),
        }
        self.end_plans();
    }

    /// Ends the sessions that share the variables of this task. Their parts hold the old contents of the containers,
    /// and would go on with them beside newly made variables.
    fn end_plans(&self) {
        let mut sessions = self.sessions.lock().unpoisoned();
        let mut ended = Vec::new();
        sessions.retain(|_, session| {
            let shares = std::ptr::eq(session.runner.engine().store(), self.engine.store());
            ended.extend(shares.then(|| session.clone()));
            !shares
        });
        ended.iter().for_each(|s| self.note(&sessions, s));
        drop(sessions);
        for session in ended {
            session.end("containers of this task were emptied: initialize or restore variables");
        }
    }

    /// Updates the completion state of a session's master after `sessions` has changed.
    pub(super) fn note(
        &self,
        sessions: &BTreeMap<String, Arc<WorkerSession>>,
        session: &WorkerSession,
    ) {
        let Some(master) = &session.master else {
            return;
        };
        let here = (sessions.values()).any(|s| s.master.as_ref() == Some(master));
        self.completion.send_if_modified(|completion| match here {
            true => completion.here.insert(master.clone()),
            false => {
                let was = completion.here.remove(master);
                // Names that peers send are kept only if they are tasks of the cluster.
                if was && self.cluster.address(&master.0, master.1).is_ok() {
                    completion.left.insert(master.clone(), Instant::now());
                }
                was
            }
        });
    }

    /// Returns the numbers of the tasks of `job` with open sessions here.
    pub(crate) fn present(&self, job: &str) -> BTreeSet<u32> {
        let completion = self.completion.borrow();
        let own = completion.here.iter().filter(|(j, _)| j == job);
        own.map(|(_, i)| *i).collect()
    }

    /// Returns the numbers of the tasks of `job` that have finished their work.
    pub(crate) fn finished(&self, job: &str) -> BTreeSet<u32> {
        let completion = self.completion.borrow();
        let own = completion.finished.keys().filter(|(j, _)| j == job);
        own.map(|(_, i)| *i).collect()
    }

    /// Returns the numbers of sessions and steps, and the bytes in use on its devices.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize, usize) {
        let devices = self.engine.devices().iter();
        let bytes = devices.map(|d| d.memory().used()).sum();
        (
            self.sessions.lock().unpoisoned().len(),
            self.running(),
            bytes,
        )
    }

    /// Notes that a task has finished its work.
    pub(crate) fn finish(&self, task: TaskName) {
        if self.cluster.address(&task.0, task.1).is_err() {
            return;
        }
        self.peers.peer_stats.with(&task).note_finished();
        self.completion.send_if_modified(|completion| {
            let new = !completion.finished.contains_key(&task);
            if new {
                completion.finished.insert(task, Instant::now());
            }
            new
        });
    }
}

impl WorkerSession {
    /// Returns the step of this number; the first call creates it.
    ///
    /// # Errors
    /// The session is closed.
    pub(crate) fn step(&self, number: u64) -> Result<Arc<WorkerStep>, ClusterError> {
        let mut steps = self.steps.lock().unpoisoned();
        if self.is_closed() {
            return Err(ClusterError::new(
                Cause::SessionLost,
                "the session was closed",
            ));
        }
        Ok(steps.entry(number).or_default().clone())
    }

    /// `true` once it is closed.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    pub(super) fn forget(&self, number: u64, step: &Arc<WorkerStep>) {
        let mut steps = self.steps.lock().unpoisoned();
        if steps.get(&number).is_some_and(|s| Arc::ptr_eq(s, step)) {
            steps.remove(&number);
        }
    }

    /// Returns the part of this number.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn part(&self, number: u64) -> Result<Arc<RegisteredPart>, ClusterError> {
        let found = self.parts.lock().unpoisoned().kept.get(&number).cloned();
        found.ok_or_else(|| ClusterError::invalid(format!("the session has no part {number}")))
    }

    /// Drops a part.
    pub(crate) fn drop_part(&self, number: u64) {
        self.parts.lock().unpoisoned().kept.remove(&number);
    }

    pub(super) fn end(&self, why: &str) {
        self.fail(ClusterError::new(Cause::SessionLost, why));
    }

    pub(super) fn fail(&self, why: ClusterError) {
        let mut steps = self.steps.lock().unpoisoned();
        self.closed.send_replace(true);
        let failure = why.derived();
        let steps = std::mem::take(&mut *steps);
        steps.values().for_each(|s| s.fail(failure.clone()));
    }
}

#[cfg(test)]
mod tests;
