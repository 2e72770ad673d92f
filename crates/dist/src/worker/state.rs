//! A task as its masters see it, and the sessions that they have on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use thalweg_graph::DeviceSpec;
use thalweg_session::{Engine, Runner, SessionOptions};
use tokio::sync::watch;
use tokio::time::Instant;

use super::completion::CompletionState;
use super::registered_part::RegisteredPart;
use super::stamps::StampLog;
use super::step::WorkerStep;
use super::turns::TurnRegistry;
use crate::cluster::spec::{ClusterSpec, TaskName};
use crate::error::{Cause, ClusterError};
use crate::limit_names::SESSIONS;
use crate::limits::server_limits::Limits;
use crate::metrics::counters::Counters;
use crate::runtime::lock::locked;
use crate::runtime::platform::Platform;
use crate::transport::messages as wire;
use crate::transport::parts::ops::{self, OpTable};
use crate::transport::peers::Peers;
use crate::transport::processes::Process;
use crate::transport::shared_memory::lender::{Lender, Loans};

/// What is said to who comes while a task drains.
pub(crate) const DRAINING: &str =
    "the task drains: it ends when its steps have, and takes nothing new. Use another one";

/// A task as its masters see it.
pub(crate) struct Worker {
    pub(crate) engine: Engine,
    pub(crate) options: SessionOptions,
    pub(crate) limits: Limits,
    pub(crate) cluster: ClusterSpec,
    pub(crate) task: TaskName,
    pub(crate) peers: Arc<Peers>,
    /// Tells this process from one that was there before it at the same address.
    pub(crate) incarnation: u64,
    /// When it started, in microseconds since 1970.
    pub(super) started: u64,
    pub(crate) platform: Arc<dyn Platform>,
    pub(super) ops: OpTable,
    /// What is lent to co-located tasks, where the task has memory that it may share.
    pub(crate) lender: Option<Arc<Lender>>,
    /// By handle, in an order that is the same each time, as steps are.
    pub(super) sessions: Mutex<BTreeMap<String, Arc<WorkerSession>>>,
    ends: AtomicBool,
    /// Set where a newer process is known to have taken its place.
    pub(super) replaced: OnceLock<ClusterError>,
    /// Whether it takes no new sessions, and waits for the steps that run.
    drains: AtomicBool,
    pub(super) steps: Arc<()>,
    /// What it has done.
    pub(crate) counts: Arc<Counters>,
    /// Changed with `sessions` held where those change.
    pub(crate) completion: watch::Sender<CompletionState>,
    pub(super) once: StampLog,
    /// The turns of synchronous trainings that this task coordinates.
    pub(crate) turns: TurnRegistry,
}

/// What one master has here.
pub(crate) struct WorkerSession {
    pub(super) runner: Arc<Runner>,
    pub(super) parts: Mutex<SessionParts>,
    pub(super) steps: Mutex<BTreeMap<u64, Arc<WorkerStep>>>,
    /// Which opening of the session this is.
    opening: u64,
    /// The task that its master is of.
    pub(super) master: Option<TaskName>,
    /// The incarnation of the master's process.
    pub(super) of: u64,
    /// Set to true when it is closed.
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
        let shares = peers.options.shared_memory && options.shared > 0;
        let (incarnation, started) = (platform.random_u64(), platform.unix_micros());
        let process = Process {
            incarnation,
            started,
        };
        let counts = peers.counts.clone();
        // Others are compared with it.
        let _ = peers.processes.observe(&task, process, started, "");
        Worker {
            lender: shares.then(Arc::default),
            engine,
            options,
            limits,
            cluster,
            task,
            peers,
            incarnation,
            started,
            platform,
            ops: ops::ops(),
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

    /// Makes a session of this handle.
    ///
    /// # Errors
    /// There are as many as may be, or the process is not the task's any more.
    pub(crate) fn open(
        &self,
        handle: &str,
        opening: u64,
        isolated: bool,
        master: Option<(TaskName, u64)>,
    ) -> Result<Arc<WorkerSession>, ClusterError> {
        self.look()?;
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
            master,
            of: of.unwrap_or_default(),
            closed: watch::Sender::new(false),
        });
        let mut sessions = locked(&self.sessions);
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
            return Err(self
                .counts
                .counted(ClusterError::limit_exceeded(SESSIONS, text)));
        }
        // A master that opens it anew has lost the one before.
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

    /// Ends a session: its steps fail, its parts are forgotten.
    pub(crate) fn close(&self, handle: &str, session: &Arc<WorkerSession>) {
        let mut sessions = locked(&self.sessions);
        // Another one may have taken its place.
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

    /// The session of this handle.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn session(&self, handle: &str) -> Result<Arc<WorkerSession>, ClusterError> {
        let found = locked(&self.sessions).get(handle).cloned();
        found.ok_or_else(|| {
            let text =
                "this task does not have the session: it has restarted, or had lost its master";
            ClusterError::new(Cause::SessionLost, text)
        })
    }

    /// The session of this handle, for a master that has opened it with this number.
    ///
    /// # Errors
    /// There is none, or it was opened anew.
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

    /// Whether it has been shut down.
    pub(crate) fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Whether it takes no new sessions.
    pub(crate) fn drains(&self) -> bool {
        self.drains.load(Ordering::SeqCst)
    }

    /// Takes no new sessions from now on.
    pub(crate) fn drain(&self) {
        self.drains.store(true, Ordering::SeqCst);
    }

    /// How many parts of steps run.
    pub(crate) fn running(&self) -> usize {
        Arc::strong_count(&self.steps) - 1
    }

    /// Takes nothing new, and ends what runs.
    pub(crate) fn end(&self) {
        let mut sessions = locked(&self.sessions);
        self.ends.store(true, Ordering::Release);
        for session in std::mem::take(&mut *sessions).into_values() {
            self.note(&sessions, &session);
            session.end("the task was shut down");
        }
    }

    /// Loans for a caller that has a socket to this incarnation; none where there is none.
    pub(crate) fn loans(&self, colocated: u64) -> Option<Loans> {
        let lender = self.lender.clone();
        lender
            .filter(|_| colocated == self.incarnation)
            .map(Loans::new)
    }

    /// Where descriptors of what is lent come from.
    pub(crate) fn colocation(&self) -> Option<wire::Colocation> {
        let (most, timeout) = (self.limits.sessions, self.peers.options.timeouts.heartbeat);
        let lender = self.lender.as_ref()?;
        let said = lender.socket(self.platform.runtime(), most, timeout)?;
        Some(wire::Colocation {
            incarnation: self.incarnation,
            ..said
        })
    }

    /// The names of its devices.
    pub(crate) fn devices(&self) -> Vec<DeviceSpec> {
        let devices = self.engine.devices().iter();
        devices.map(|d| d.name().clone()).collect()
    }

    /// Empties containers; the default one where none is named.
    pub(crate) fn clear(&self, containers: &[String]) {
        match containers {
            [] => self.engine.store().clear(""),
            some => some.iter().for_each(|c| {
                // TensorFlow's default container has the name of the job.
                let name = if *c == self.options.job { "" } else { c };
                self.engine.store().clear(name);
            }),
        }
        self.end_plans();
    }

    /// Ends the sessions that share the variables of this task. Their parts hold what was in the containers when they
    /// were made, and would go on with it beside what others make anew.
    fn end_plans(&self) {
        let mut sessions = locked(&self.sessions);
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

    /// Notes whether the master of a session has one still.
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
                // What a peer calls itself is kept only where it is a task of the cluster.
                if was && self.cluster.address(&master.0, master.1).is_ok() {
                    completion.left.insert(master.clone(), Instant::now());
                }
                was
            }
        });
    }

    /// The numbers of the tasks of `job` whose sessions are open here.
    pub(crate) fn present(&self, job: &str) -> BTreeSet<u32> {
        let completion = self.completion.borrow();
        let own = completion.here.iter().filter(|(j, _)| j == job);
        own.map(|(_, i)| *i).collect()
    }

    /// The numbers of the tasks of `job` that have said that they have done their work.
    pub(crate) fn finished(&self, job: &str) -> BTreeSet<u32> {
        let completion = self.completion.borrow();
        let own = completion.finished.keys().filter(|(j, _)| j == job);
        own.map(|(_, i)| *i).collect()
    }

    /// How many sessions and steps there are, and the bytes in use on its devices.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize, usize) {
        let devices = self.engine.devices().iter();
        let bytes = devices.map(|d| d.memory().used()).sum();
        (locked(&self.sessions).len(), self.running(), bytes)
    }

    /// Notes that a task has done its work.
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
    /// The step of this number, made where it is the first that is heard of it.
    ///
    /// # Errors
    /// The session is closed.
    pub(crate) fn step(&self, number: u64) -> Result<Arc<WorkerStep>, ClusterError> {
        let mut steps = locked(&self.steps);
        if self.is_closed() {
            return Err(ClusterError::new(
                Cause::SessionLost,
                "the session was closed",
            ));
        }
        Ok(steps.entry(number).or_default().clone())
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    pub(super) fn forget(&self, number: u64, step: &Arc<WorkerStep>) {
        let mut steps = locked(&self.steps);
        if steps.get(&number).is_some_and(|s| Arc::ptr_eq(s, step)) {
            steps.remove(&number);
        }
    }

    /// The part of this number.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn part(&self, number: u64) -> Result<Arc<RegisteredPart>, ClusterError> {
        let found = locked(&self.parts).kept.get(&number).cloned();
        found.ok_or_else(|| ClusterError::invalid(format!("the session has no part {number}")))
    }

    /// Forgets a part.
    pub(crate) fn drop_part(&self, number: u64) {
        locked(&self.parts).kept.remove(&number);
    }

    pub(super) fn end(&self, why: &str) {
        self.fail(ClusterError::new(Cause::SessionLost, why));
    }

    pub(super) fn fail(&self, why: ClusterError) {
        let mut steps = locked(&self.steps);
        self.closed.send_replace(true);
        let failure = why.derived();
        let steps = std::mem::take(&mut *steps);
        steps.values().for_each(|s| s.fail(failure.clone()));
    }
}
