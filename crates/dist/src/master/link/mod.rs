//! A master's session on one task: opened when a step first needs it, and again after a loss.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use thalweg_graph::DeviceSpec;
use thalweg_session::Event;
use thalweg_tensor::sync::Unpoisoned;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cluster::spec::{ClusterSpec, TaskName, task_label};
use crate::error::{Cause, ClusterError};
use crate::metrics::counters::GaugeGuard;
use crate::transport::frames::Frames;
use crate::transport::messages::header::Kind;
use crate::transport::peer_stats::LossEpoch;
use crate::transport::peers::{Peer, Peers, ResponseFrames};
use crate::transport::processes::{self, Process};
use crate::transport::{messages as wire, version};
use crate::worker::state::{Worker, WorkerSession};

/// Pause before a task that does not answer yet is called again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Route to a task.
#[derive(Clone)]
pub(crate) enum TaskRoute {
    /// The task is the process of the master.
    Local(Arc<Worker>),
    /// The task is called over the network.
    Remote(Arc<Peer>),
}

impl TaskRoute {
    pub(crate) fn task(&self) -> &TaskName {
        match self {
            TaskRoute::Local(worker) => &worker.task,
            TaskRoute::Remote(peer) => &peer.task,
        }
    }
}

/// One task of a master's session.
pub(crate) struct TaskLink {
    pub(crate) way: TaskRoute,
    /// The name of the task in the session's cluster. The task itself may have another one.
    name: TaskName,
    /// Held while the session is being opened.
    opening: tokio::sync::Mutex<()>,
    known: Mutex<LinkState>,
    made: AtomicU64,
}

#[derive(Default)]
struct LinkState {
    open: Option<Arc<OpenSession>>,
    incarnation: Option<u64>,
    /// The names that the task gives them; `None` until the task was reached.
    devices: Option<Vec<DeviceSpec>>,
}

/// An open session on a task. A drop closes it.
pub(crate) struct OpenSession {
    /// Unique among the openings of this link.
    pub(crate) generation: u64,
    /// The session itself, if the task is this process.
    pub(crate) here: Option<(Arc<Worker>, Arc<WorkerSession>)>,
    handle: String,
    /// Number of the opening, if the task is another process.
    pub(crate) opening: u64,
    lost: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
}

impl OpenSession {
    /// `true` while it is not lost.
    pub(crate) fn is_open(&self) -> bool {
        let ended = |(worker, session): &(Arc<Worker>, Arc<WorkerSession>)| {
            session.is_closed() || worker.has_ended() || worker.is_current().is_err()
        };
        !self.lost.load(Ordering::Acquire) && !self.here.as_ref().is_some_and(ended)
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
        if let Some((worker, session)) = &self.here {
            worker.close(&self.handle, session);
        }
    }
}

/// The device of a task, in the name of another one.
fn in_the_name_of((job, index): &TaskName, device: DeviceSpec) -> DeviceSpec {
    DeviceSpec {
        job: Some(job.as_str().into()),
        task: Some(*index),
        ..device
    }
}

impl TaskLink {
    /// Returns the link to a task that the session's cluster has by the same name.
    pub(crate) fn new(way: TaskRoute) -> TaskLink {
        let name = way.task().clone();
        TaskLink::named(way, name)
    }

    /// Returns the link to a task that has this name in the session's cluster.
    pub(crate) fn named(way: TaskRoute, name: TaskName) -> TaskLink {
        let devices = match &way {
            TaskRoute::Local(worker) => Some(worker.devices()),
            TaskRoute::Remote(_) => None,
        };
        TaskLink {
            way,
            name,
            opening: tokio::sync::Mutex::default(),
            known: Mutex::new(LinkState {
                devices,
                ..LinkState::default()
            }),
            made: AtomicU64::new(0),
        }
    }

    fn known(&self) -> MutexGuard<'_, LinkState> {
        self.known.lock().unpoisoned()
    }

    /// Returns its name in the session's cluster.
    pub(crate) fn name(&self) -> &TaskName {
        &self.name
    }

    /// Returns its devices, by their names in the session's cluster. A CPU is assumed while they are not known.
    pub(crate) fn devices(&self) -> Vec<DeviceSpec> {
        let assumed = || {
            vec![DeviceSpec {
                replica: Some(0),
                device_type: Some("CPU".into()),
                index: Some(0),
                ..DeviceSpec::default()
            }]
        };
        let devices = self.known().devices.clone().unwrap_or_else(assumed);
        let named = devices.into_iter().map(|d| in_the_name_of(&self.name, d));
        named.collect()
    }

    /// A device of the task by the name that the task gives it; `None` until it was reached.
    fn own_device(&self) -> Option<DeviceSpec> {
        self.known().devices.as_ref()?.first().cloned()
    }

    /// Returns devices of the cluster with those of this task by the names that it gives them.
    pub(crate) fn own_names(&self, devices: &[DeviceSpec]) -> Vec<DeviceSpec> {
        let Some(own) = self.own_device() else {
            return devices.to_vec();
        };
        let (job, index) = &self.name;
        let to_own = |d: &DeviceSpec| match d.job.as_deref() == Some(job) && d.task == Some(*index)
        {
            true => DeviceSpec {
                job: own.job.clone(),
                task: own.task,
                ..d.clone()
            },
            false => d.clone(),
        };
        devices.iter().map(to_own).collect()
    }

    /// Gives the devices of a trace of this task their names in the session's cluster.
    pub(crate) fn rename(&self, events: &mut [Event]) {
        let own = self.own_device();
        let same = |own: &DeviceSpec| {
            own.job.as_deref() == Some(&*self.name.0) && own.task == Some(self.name.1)
        };
        if own.as_ref().is_none_or(same) {
            return;
        }
        for event in events {
            if let Ok(device) = DeviceSpec::parse(&event.device) {
                event.device = in_the_name_of(&self.name, device).to_string();
            }
        }
    }

    /// `true` once the devices of the task are known.
    pub(crate) fn is_known(&self) -> bool {
        self.known().devices.is_some()
    }

    fn current(&self) -> Option<Arc<OpenSession>> {
        let open = self.known().open.clone();
        open.filter(|o| o.is_open())
    }

    /// `true` if its session is open, or was never opened.
    pub(crate) fn is_intact(&self) -> bool {
        self.known().incarnation.is_none() || self.current().is_some()
    }

    /// Closes the session on it.
    pub(crate) fn close(&self) {
        let open = self.known().open.take();
        drop(open);
    }

    /// Returns the open session, or opens one.
    ///
    /// # Errors
    /// The task is not reached, or is another process than before.
    pub(crate) async fn open(
        &self,
        asked: &wire::Open,
        runtime: &Handle,
    ) -> Result<Arc<OpenSession>, ClusterError> {
        if let Some(open) = self.current() {
            return Ok(open);
        }
        let _opening = self.opening.lock().await;
        if let Some(open) = self.current() {
            return Ok(open);
        }
        self.close();
        let generation = self.made.fetch_add(1, Ordering::Relaxed);
        let (open, incarnation, devices) = match &self.way {
            TaskRoute::Local(worker) => {
                let master = Some((worker.task.clone(), worker.incarnation));
                let session =
                    worker.open_in(&asked.session, 0, asked.isolated, master, &asked.tasks)?;
                let open = OpenSession {
                    generation,
                    here: Some((worker.clone(), session)),
                    handle: asked.session.clone(),
                    opening: 0,
                    lost: Arc::default(),
                    keeper: None,
                };
                (open, worker.incarnation, worker.devices())
            }
            TaskRoute::Remote(peer) => {
                let first = !self.is_known();
                let opening = peer.platform.random_u64();
                let asked = &wire::Open {
                    opening,
                    ..asked.clone()
                };
                let (opened, answer) = open_stream(peer, asked, first).await?;
                let lost = Arc::new(AtomicBool::new(false));
                let (since, _) = peer.peer_stats.note_connected();
                let keeper = runtime.spawn(watch_stream(peer.clone(), answer, lost.clone(), since));
                let devices = opened.devices.iter().map(|d| DeviceSpec::parse(d));
                let devices: Result<Vec<_>, _> = devices.collect();
                let devices = devices.map_err(|e| {
                    let text = format!("{}: {e}", peer.described());
                    ClusterError::new(Cause::Protocol, text).at(&peer.task)
                })?;
                let open = OpenSession {
                    generation,
                    here: None,
                    handle: asked.session.clone(),
                    opening,
                    lost,
                    keeper: Some(keeper),
                };
                (open, opened.incarnation, devices)
            }
        };
        let open = Arc::new(open);
        let mut known = self.known();
        known.open = Some(open.clone());
        known.devices = Some(devices);
        let before = known.incarnation.replace(incarnation);
        if before.is_some() {
            let (job, index) = &self.name;
            let (peer, restarted) = (task_label(job, *index), before != Some(incarnation));
            tracing::info!(peer, restarted, "peer reached again");
        }
        let (cause, why) = match before {
            Some(before) if before != incarnation => {
                (Cause::Restarted, "has restarted since this session used it")
            }
            // State that is the session's own has ended with its stream.
            Some(_) if asked.isolated => (Cause::SessionLost, "was not reached for a while"),
            _ => return Ok(open),
        };
        let task @ (job, index) = &self.name;
        let text = format!(
            "{} {why}: what its variables and queues held is lost. Initialize or \
             restore them; the session can be used again",
            task_label(job, *index)
        );
        Err(ClusterError::new(cause, text).at(task))
    }
}

/// Opens a session over the network. A task that was never reached (`first`) may still have to start.
async fn open_stream(
    peer: &Arc<Peer>,
    asked: &wire::Open,
    first: bool,
) -> Result<(wire::Opened, ResponseFrames), ClusterError> {
    let timeouts = peer.timeouts();
    let began = Instant::now();
    let _waits = GaugeGuard::begin(&peer.peer_stats.waiting);
    loop {
        let request = Frames::of(Kind::Open(wire::Open {
            version: Some(version::own_version()),
            known: peer.processes.known_to(&peer.task),
            ..asked.clone()
        }));
        let opened = async {
            let mut answer = peer.call("Open", request).await?;
            match peer.next(&mut answer).await? {
                Kind::Opened(opened) => {
                    check_peer(peer, asked, &opened)?;
                    Ok((opened, answer))
                }
                _ => Err(peer.unreachable("it has sent what is no answer")),
            }
        };
        // A connection without a sign of life is lost after `heartbeat`. This bounds the wait on a full and slow
        // line, and for a task that reads and does not answer.
        let limit = timeouts.connect.max(timeouts.heartbeat);
        let late = || {
            let text = format!("no answer within {:.1} s", limit.as_secs_f64());
            Err(peer.no_contact(Cause::Silent, &text))
        };
        let result = tokio::time::timeout(limit, opened).await;
        match result.unwrap_or_else(|_| late()) {
            Err(e) if e.cause.is_loss() && first && began.elapsed() < timeouts.connect => {
                tokio::time::sleep(RETRY_AFTER).await;
            }
            result => return result,
        }
    }
}

/// Checks that a task that has answered uses this protocol version, and is the newest process of its name.
fn check_peer(peer: &Peer, asked: &wire::Open, opened: &wire::Opened) -> Result<(), ClusterError> {
    let own = match &*asked.job {
        "" => "this client".to_owned(),
        job => task_label(job, asked.index),
    };
    version::check_version(&own, &peer.described(), opened.version.as_ref())
        .map_err(|e| e.at(&peer.task))?;
    let process = Process {
        incarnation: opened.incarnation,
        started: opened.started,
    };
    let now = peer.platform.unix_micros();
    peer.processes
        .observe(&peer.task, process, now, &peer.described())?;
    // Notes what it knows of the caller's own task; the caller checks that before it opens the next session.
    let of_own =
        |p: &&wire::Process| !p.job.is_empty() && (&p.job, p.index) == (&asked.job, asked.index);
    for own in opened.known.iter().filter(of_own) {
        let (task, process) = processes::of_message(own.clone());
        let _ = peer.processes.observe(&task, process, now, "");
    }
    Ok(())
}

/// Watches a session's stream until it ends.
async fn watch_stream(
    peer: Arc<Peer>,
    mut answer: ResponseFrames,
    lost: Arc<AtomicBool>,
    since: LossEpoch,
) {
    let why = loop {
        if let Err(why) = peer.next(&mut answer).await {
            break why;
        }
    };
    lost.store(true, Ordering::Release);
    peer.peer_stats.note_lost(since, &why.message);
}

/// Asks a task for its description; `first` if it may still have to start.
///
/// # Errors
/// It is not reached.
pub(crate) async fn probe(peer: &Arc<Peer>, first: bool) -> Result<wire::Opened, ClusterError> {
    let asked = wire::Open {
        session: format!("look-{:016x}", peer.platform.random_u64()),
        isolated: true,
        ..wire::Open::default()
    };
    Ok(open_stream(peer, &asked, first).await?.0)
}

/// Asks a task for its cluster and its own name.
///
/// # Errors
/// It is not reached.
pub(crate) async fn fetch_cluster(
    peer: &Arc<Peer>,
) -> Result<(ClusterSpec, TaskName), ClusterError> {
    let opened = probe(peer, true).await?;
    let mut jobs: BTreeMap<String, BTreeMap<u32, String>> = BTreeMap::new();
    for task in opened.tasks {
        let job = jobs.entry(task.job).or_default();
        job.insert(task.index, task.address);
    }
    let cluster = ClusterSpec::sparse(jobs);
    let cluster = cluster.map_err(|e| {
        let text = format!("{}: {e}", peer.described());
        ClusterError::new(Cause::Protocol, text).at(&peer.task)
    })?;
    Ok((cluster, (opened.job, opened.index)))
}

/// Returns the routes to the other tasks of a cluster, as the filters select them.
pub(crate) fn other_tasks(
    cluster: &ClusterSpec,
    task: &TaskName,
    peers: &Peers,
    filters: &[String],
) -> Result<Vec<TaskRoute>, ClusterError> {
    let filters = filters.iter().map(|f| {
        let spec = thalweg_graph::DeviceSpec::parse(f);
        spec.map_err(|e| ClusterError::invalid(format!("device filter '{f}': {e}")))
    });
    let filters = filters.collect::<Result<Vec<_>, ClusterError>>()?;
    let mut ways = Vec::new();
    for job in cluster.jobs() {
        for (index, address) in cluster.tasks(job) {
            let wanted = |f: &thalweg_graph::DeviceSpec| {
                f.job.as_deref().is_none_or(|j| j == job) && f.task.is_none_or(|t| t == index)
            };
            let other = (job.to_owned(), index);
            if other != *task && (filters.is_empty() || filters.iter().any(wanted)) {
                ways.push(TaskRoute::Remote(peers.get(&other, address)?));
            }
        }
    }
    Ok(ways)
}

#[cfg(test)]
mod tests;
