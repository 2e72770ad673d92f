//! A session on one task, as its master holds it: opened when a step first needs it, and again when
//! it was lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use thalweg_graph::DeviceSpec;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cluster::spec::{ClusterSpec, TaskName, shown};
use crate::error::{Cause, ClusterError};
use crate::metrics::counters::Waits;
use crate::runtime::lock::locked;
use crate::transport::contacts::Since;
use crate::transport::frames::Frames;
use crate::transport::messages::header::Kind;
use crate::transport::peers::{Answer, Peer, Peers};
use crate::transport::processes::{self, Process};
use crate::transport::{messages as wire, version};
use crate::worker::state::{Worker, WorkerSession};

/// How long to wait before a task that does not answer yet is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// How a task is reached.
#[derive(Clone)]
pub(crate) enum Way {
    /// It is the process of the master.
    Here(Arc<Worker>),
    /// Over the network.
    There(Arc<Peer>),
}

impl Way {
    pub(crate) fn task(&self) -> &TaskName {
        match self {
            Way::Here(worker) => &worker.task,
            Way::There(peer) => &peer.task,
        }
    }
}

/// One task of a master's session.
pub(crate) struct Link {
    pub(crate) way: Way,
    /// Held while the session is being opened.
    opening: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
    made: AtomicU64,
}

#[derive(Default)]
struct Known {
    open: Option<Arc<Opened>>,
    incarnation: Option<u64>,
    /// None until it was reached.
    devices: Option<Vec<DeviceSpec>>,
}

/// An open session on a task. It ends when this is dropped.
pub(crate) struct Opened {
    /// No other of the link has it.
    pub(crate) generation: u64,
    /// The session itself, where it is of this process.
    pub(crate) here: Option<(Arc<Worker>, Arc<WorkerSession>)>,
    handle: String,
    /// What tells its opening from others, where it is another process'.
    pub(crate) opening: u64,
    lost: Arc<AtomicBool>,
    keeper: Option<JoinHandle<()>>,
}

impl Opened {
    /// Whether it has not been lost.
    pub(crate) fn is_open(&self) -> bool {
        let ended = |(worker, session): &(Arc<Worker>, Arc<WorkerSession>)| {
            session.is_closed() || worker.has_ended() || worker.is_current().is_err()
        };
        !self.lost.load(Ordering::Acquire) && !self.here.as_ref().is_some_and(ended)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
        if let Some((worker, session)) = &self.here {
            worker.close(&self.handle, session);
        }
    }
}

impl Link {
    pub(crate) fn new(way: Way) -> Link {
        let devices = match &way {
            Way::Here(worker) => Some(worker.devices()),
            Way::There(_) => None,
        };
        Link {
            way,
            opening: tokio::sync::Mutex::default(),
            known: Mutex::new(Known {
                devices,
                ..Known::default()
            }),
            made: AtomicU64::new(0),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        locked(&self.known)
    }

    /// Its devices, as far as they are known: every task has a CPU.
    pub(crate) fn devices(&self) -> Vec<DeviceSpec> {
        if let Some(devices) = &self.known().devices {
            return devices.clone();
        }
        let (job, index) = self.way.task();
        vec![DeviceSpec {
            job: Some(job.as_str().into()),
            replica: Some(0),
            task: Some(*index),
            device_type: Some("CPU".into()),
            index: Some(0),
        }]
    }

    /// Whether its devices are as it said.
    pub(crate) fn is_known(&self) -> bool {
        self.known().devices.is_some()
    }

    fn current(&self) -> Option<Arc<Opened>> {
        let open = self.known().open.clone();
        open.filter(|o| o.is_open())
    }

    /// Whether its session is open, if there ever was one.
    pub(crate) fn is_whole(&self) -> bool {
        self.known().incarnation.is_none() || self.current().is_some()
    }

    /// Ends the session on it.
    pub(crate) fn close(&self) {
        let open = self.known().open.take();
        drop(open);
    }

    /// The open session; opened where there is none.
    ///
    /// # Errors
    /// The task is not reached, or is another process than it was.
    pub(crate) async fn open(
        &self,
        asked: &wire::Open,
        runtime: &Handle,
    ) -> Result<Arc<Opened>, ClusterError> {
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
            Way::Here(worker) => {
                let master = Some((worker.task.clone(), worker.incarnation));
                let session = worker.open(&asked.session, 0, asked.isolated, master)?;
                let open = Opened {
                    generation,
                    here: Some((worker.clone(), session)),
                    handle: asked.session.clone(),
                    opening: 0,
                    lost: Arc::default(),
                    keeper: None,
                };
                (open, worker.incarnation, worker.devices())
            }
            Way::There(peer) => {
                let first = !self.is_known();
                let opening = peer.platform.number();
                let asked = &wire::Open {
                    opening,
                    ..asked.clone()
                };
                let (opened, answer) = reach(peer, asked, first).await?;
                let lost = Arc::new(AtomicBool::new(false));
                let (since, _) = peer.contact.begin();
                let keeper = runtime.spawn(keep(peer.clone(), answer, lost.clone(), since));
                let devices = opened.devices.iter().map(|d| DeviceSpec::parse(d));
                let devices: Result<Vec<_>, _> = devices.collect();
                let devices = devices.map_err(|e| {
                    let text = format!("{}: {e}", peer.described());
                    ClusterError::new(Cause::Protocol, text).at(&peer.task)
                })?;
                let open = Opened {
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
            let (job, index) = self.way.task();
            let (peer, restarted) = (shown(job, *index), before != Some(incarnation));
            tracing::info!(peer, restarted, "peer reached again");
        }
        let (cause, why) = match before {
            Some(before) if before != incarnation => {
                (Cause::Restarted, "has restarted since this session used it")
            }
            // What is the session's alone ended with its stream.
            Some(_) if asked.isolated => (Cause::SessionLost, "was not reached for a while"),
            _ => return Ok(open),
        };
        let task @ (job, index) = self.way.task();
        let text = format!(
            "{} {why}: what its variables and queues held is lost. Initialize or \
             restore them; the session can be used again",
            shown(job, *index)
        );
        Err(ClusterError::new(cause, text).at(task))
    }
}

/// Opens a session over the network. One that was never reached may still have to start.
async fn reach(
    peer: &Arc<Peer>,
    asked: &wire::Open,
    first: bool,
) -> Result<(wire::Opened, Answer), ClusterError> {
    let timeouts = peer.timeouts();
    let began = Instant::now();
    let _waits = Waits::begin(&peer.contact.waiting);
    loop {
        let request = Frames::of(Kind::Open(wire::Open {
            version: Some(version::own()),
            known: peer.processes.told(&peer.task),
            ..asked.clone()
        }));
        let opened = async {
            let mut answer = peer.call("Open", request).await?;
            match peer.next(&mut answer).await? {
                Kind::Opened(opened) => {
                    admit(peer, asked, &opened)?;
                    Ok((opened, answer))
                }
                _ => Err(peer.lost("it has sent what is no answer")),
            }
        };
        // A connection that moves nothing is lost after `silence`. This bounds the wait for one whose line is full and
        // slow, and for a task that reads and does not answer.
        let limit = timeouts.connect.max(timeouts.heartbeat);
        let late = || {
            let text = format!("no answer within {:.1} s", limit.as_secs_f64());
            Err(peer.gone(Cause::Silent, &text))
        };
        let result = tokio::time::timeout(limit, opened).await;
        match result.unwrap_or_else(|_| late()) {
            Err(e) if e.cause.is_loss() && first && began.elapsed() < timeouts.connect => {
                tokio::time::sleep(AGAIN).await;
            }
            result => return result,
        }
    }
}

/// Looks whether a task that has answered speaks as this program does, and is the newest process of its name.
fn admit(peer: &Peer, asked: &wire::Open, opened: &wire::Opened) -> Result<(), ClusterError> {
    let own = match &*asked.job {
        "" => "this client".to_owned(),
        job => shown(job, asked.index),
    };
    version::agree(&own, &peer.described(), opened.version.as_ref())
        .map_err(|e| e.at(&peer.task))?;
    let process = Process {
        incarnation: opened.incarnation,
        started: opened.started,
    };
    let now = peer.platform.clock();
    peer.processes
        .meet(&peer.task, process, now, &peer.described())?;
    // What it knows of the caller's own task is heard of; the caller looks before it opens the next session.
    let of_own =
        |p: &&wire::Process| !p.job.is_empty() && (&p.job, p.index) == (&asked.job, asked.index);
    for own in opened.known.iter().filter(of_own) {
        let (task, process) = processes::of_message(own.clone());
        let _ = peer.processes.meet(&task, process, now, "");
    }
    Ok(())
}

/// Notices when a session's stream ends.
async fn keep(peer: Arc<Peer>, mut answer: Answer, lost: Arc<AtomicBool>, since: Since) {
    let why = loop {
        if let Err(why) = peer.next(&mut answer).await {
            break why;
        }
    };
    lost.store(true, Ordering::Release);
    peer.contact.lose(since, &why.message);
}

/// What a task says of itself; `first` where it may still have to start.
///
/// # Errors
/// It is not reached.
pub(crate) async fn look(peer: &Arc<Peer>, first: bool) -> Result<wire::Opened, ClusterError> {
    let asked = wire::Open {
        session: format!("look-{:016x}", peer.platform.number()),
        isolated: true,
        ..wire::Open::default()
    };
    Ok(reach(peer, &asked, first).await?.0)
}

/// The cluster that a task is of, and which task it is.
///
/// # Errors
/// It is not reached.
pub(crate) async fn cluster(peer: &Arc<Peer>) -> Result<(ClusterSpec, TaskName), ClusterError> {
    let opened = look(peer, true).await?;
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

/// How the other tasks of a cluster are reached, those that the filters leave.
pub(crate) fn others(
    cluster: &ClusterSpec,
    task: &TaskName,
    peers: &Peers,
    filters: &[String],
) -> Result<Vec<Way>, ClusterError> {
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
                ways.push(Way::There(peers.get(&other, address)?));
            }
        }
    }
    Ok(ways)
}
