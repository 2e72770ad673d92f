//! One task's side of steps: the parts that it was handed, and how they run.

mod service;
pub(crate) mod step;

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_graph::{DeviceSpec, Fact, Tensor};
use thalweg_session::{Cancel, Engine, PartPlan, RunOptions, Runner, SessionOptions, TASK_ENDS};
use thalweg_session::{TaskChannel, TaskPart};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Code;

use crate::cluster::{ClusterSpec, Task};
use crate::limits::Limits;
use crate::peers::{Peer, Peers};
use crate::status::Status;
use crate::wire::frames::Frames;
use crate::wire::messages as wire;
use crate::wire::messages::header::Kind;
use crate::wire::part::{self, Ops, PartLimits};

pub(crate) use service::WorkerService;
use step::{Channels, Failure, Routes, Step};

/// A task as its masters see it.
pub(crate) struct Worker {
    pub(crate) engine: Engine,
    pub(crate) options: SessionOptions,
    pub(crate) limits: Limits,
    pub(crate) cluster: ClusterSpec,
    pub(crate) task: Task,
    pub(crate) peers: Arc<Peers>,
    /// Tells this process from one that was there before it at the same address.
    pub(crate) incarnation: u64,
    runtime: Handle,
    ops: Ops,
    sessions: Mutex<HashMap<String, Arc<WorkerSession>>>,
    ends: AtomicBool,
    steps: Arc<()>,
    /// The tasks that have said that their work is done.
    pub(crate) finished: watch::Sender<Vec<Task>>,
}

/// What one master has here.
pub(crate) struct WorkerSession {
    runner: Arc<Runner>,
    parts: Mutex<Parts>,
    steps: Mutex<HashMap<u64, Arc<Step>>>,
    /// The task that its master is of.
    master: Option<Task>,
    /// Set to true when it is closed.
    closed: watch::Sender<bool>,
}

#[derive(Default)]
struct Parts {
    made: u64,
    kept: HashMap<u64, Arc<Part>>,
}

/// A part that is ready to run.
pub(crate) struct Part {
    plan: Arc<PartPlan>,
    /// What is known of its feeds, in their order.
    pub(crate) feeds: Vec<Fact>,
    routes: Arc<Routes>,
    /// The tasks that it receives from.
    sources: Vec<(u32, Arc<Peer>)>,
    /// The number that the master gave this task.
    task: u32,
    /// Whether a step of it may take any time.
    long: bool,
    /// How long its last step took, in microseconds.
    last: AtomicU64,
}

/// What is shorter runs where it came in: to hand it to another thread would take as long.
const SHORT: Duration = Duration::from_micros(50);

impl Part {
    /// Whether it may run on a thread of the network: its steps all take the same time, and the last was
    /// short.
    fn is_short(&self) -> bool {
        let last = Duration::from_micros(self.last.load(Ordering::Relaxed));
        last < SHORT && !self.long
    }

    fn took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.last.store(micros, Ordering::Relaxed);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    pub(crate) fn new(
        engine: Engine,
        options: SessionOptions,
        limits: Limits,
        (cluster, task): (ClusterSpec, Task),
        peers: Arc<Peers>,
        runtime: Handle,
    ) -> Worker {
        Worker {
            engine,
            options,
            limits,
            cluster,
            task,
            peers,
            incarnation: RandomState::new().hash_one("incarnation"),
            runtime,
            ops: part::ops(),
            sessions: Mutex::default(),
            ends: AtomicBool::new(false),
            steps: Arc::default(),
            finished: watch::Sender::default(),
        }
    }

    /// Makes a session of this handle.
    ///
    /// # Errors
    /// There are as many as may be.
    pub(crate) fn open(
        &self,
        handle: &str,
        isolated: bool,
        master: Option<Task>,
    ) -> Result<Arc<WorkerSession>, Status> {
        let engine = match isolated {
            true => self.engine.isolated(),
            false => self.engine.clone(),
        };
        let session = Arc::new(WorkerSession {
            runner: Arc::new(Runner::new(engine, self.options.clone())),
            parts: Mutex::default(),
            steps: Mutex::default(),
            master,
            closed: watch::Sender::new(false),
        });
        let mut sessions = locked(&self.sessions);
        if self.ends.load(Ordering::Acquire) {
            return Err(Status::new(Code::Unavailable, "the task is shutting down"));
        }
        if sessions.len() >= self.limits.sessions {
            let text = format!(
                "this task has {} sessions, as many as it may: close one",
                sessions.len()
            );
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        // A master that opens it anew has lost the one before.
        let before = sessions.insert(handle.to_owned(), session.clone());
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
        }
        drop(sessions);
        session.end("its session was closed");
    }

    /// The session of this handle.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn session(&self, handle: &str) -> Result<Arc<WorkerSession>, Status> {
        let found = locked(&self.sessions).get(handle).cloned();
        found.ok_or_else(|| {
            let text =
                "this task does not have the session: it has restarted, or had lost its master";
            Status::new(Code::Aborted, text)
        })
    }

    /// Whether it has been shut down.
    pub(crate) fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Takes nothing new, and ends what runs.
    pub(crate) fn end(&self) {
        let mut sessions = locked(&self.sessions);
        self.ends.store(true, Ordering::Release);
        for (_, session) in sessions.drain() {
            session.end("the task was shut down");
        }
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
    }

    /// The numbers of the tasks of `job` whose sessions are open here.
    pub(crate) fn present(&self, job: &str) -> BTreeSet<u32> {
        let sessions = locked(&self.sessions);
        let masters = sessions.values().filter_map(|s| s.master.as_ref());
        masters.filter(|(j, _)| j == job).map(|(_, i)| *i).collect()
    }

    /// Notes that a task has done its work.
    pub(crate) fn finish(&self, task: Task) {
        self.finished.send_if_modified(|all| {
            let new = !all.contains(&task) && self.cluster.address(&task.0, task.1).is_ok();
            if new {
                all.push(task);
            }
            new
        });
    }

    /// Keeps a part that came as a message; gives its number.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn register(
        &self,
        session: &WorkerSession,
        message: &wire::Part,
        values: Vec<Tensor>,
    ) -> Result<u64, Status> {
        let limits = PartLimits {
            nodes: self.limits.graph_nodes,
            expanded_bytes: self.limits.expanded_bytes,
        };
        let part = part::decoded(message, values.into_iter(), &self.ops, limits)?;
        let own = |number: u32| {
            let name = message.devices.get(number as usize);
            let name = name.ok_or_else(|| Status::invalid("a node stands on no device"))?;
            self.device(name)
        };
        let devices = part.devices.iter().map(|&d| own(d));
        let devices = devices.collect::<Result<_, Status>>()?;
        let peers = message.peers.iter();
        let peers = peers.map(|t| (t.number, (t.job.clone(), t.index)));
        self.keep(session, part, devices, &message.channels, &peers.collect())
    }

    /// The number of a device of this task.
    ///
    /// # Errors
    /// It has none of this name.
    pub(crate) fn device(&self, name: &str) -> Result<u32, Status> {
        let mut devices = self.engine.devices().iter();
        let found = devices.position(|d| d.name().to_string() == name);
        let missing = || Status::invalid(format!("there is no device {name} here"));
        found.map(|i| i as u32).ok_or_else(missing)
    }

    /// Keeps a part of a master in this process, which names devices and tasks by number.
    ///
    /// # Errors
    /// As [`Worker::keep`].
    pub(crate) fn keep_own(
        &self,
        session: &WorkerSession,
        part: TaskPart,
        channels: &[TaskChannel],
        devices: &[DeviceSpec],
        tasks: &[Task],
    ) -> Result<u64, Status> {
        let own = |&d: &u32| self.device(&devices[d as usize].to_string());
        let own = part.devices.iter().map(own).collect::<Result<_, _>>()?;
        let peers = tasks.iter().cloned().enumerate();
        let peers = peers.map(|(i, task)| (i as u32, task)).collect();
        let channels = part::channels(part.task, channels);
        self.keep(session, part, own, &channels, &peers)
    }

    /// Keeps a part; gives its number.
    ///
    /// # Errors
    /// It cannot be planned, or there are as many as may be.
    fn keep(
        &self,
        session: &WorkerSession,
        part: TaskPart,
        devices: Vec<u32>,
        channels: &[wire::Channel],
        peers: &HashMap<u32, Task>,
    ) -> Result<u64, Status> {
        let mut routes = Routes::default();
        let mut facts: HashMap<i64, Fact> = HashMap::new();
        for (_, node) in part.graph.nodes() {
            if node.op.name == TASK_ENDS.recv.name
                && let Some(thalweg_graph::Attr::Int(channel)) = node.attrs.get("channel")
            {
                facts.insert(*channel, node.outputs[0].clone());
            }
        }
        let mut sources: Vec<(u32, Arc<Peer>)> = Vec::new();
        for channel in channels {
            if channel.sends {
                routes.sends.insert(channel.number, channel.peer);
                continue;
            }
            let fact = facts.remove(&channel.number);
            let fact = fact.ok_or_else(|| Status::invalid("a channel ends nowhere"))?;
            routes.receives.insert(channel.number, (channel.peer, fact));
            if sources.iter().any(|(number, _)| *number == channel.peer) {
                continue;
            }
            let task = peers.get(&channel.peer);
            let task = task.ok_or_else(|| Status::invalid("a channel comes from nowhere"))?;
            // Only tasks of the cluster are reached, whatever a master says.
            let address = self.cluster.address(&task.0, task.1);
            let address = address.map_err(|e| Status::invalid(e.to_string()))?;
            sources.push((channel.peer, self.peers.get(task, address)?));
        }
        let feeds = part.feeds.iter();
        let feeds = feeds.map(|(_, n)| part.graph.node(*n).outputs[0].clone());
        let feeds = feeds.collect();
        let task = part.task;
        let plan = session.runner.prepare(&part, devices);
        let plan = plan.map_err(|e| Status::from(&e))?;
        let mut parts = locked(&session.parts);
        if parts.kept.len() >= self.limits.parts {
            let text = format!(
                "a session may have {} parts of steps: run fewer steps of different fetches, or \
                 feeds of fewer shapes",
                self.limits.parts
            );
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        parts.made += 1;
        let number = parts.made;
        let part = Part {
            long: plan.may_take_long(),
            plan: Arc::new(plan),
            feeds,
            routes: Arc::new(routes),
            sources,
            task,
            last: AtomicU64::new(u64::MAX),
        };
        parts.kept.insert(number, Arc::new(part));
        Ok(number)
    }

    /// Runs a part of a step; gives its fetches once all that it sends has been taken. Dropping this
    /// ends it.
    pub(crate) async fn run(
        self: &Arc<Self>,
        session: &Arc<WorkerSession>,
        handle: &str,
        part: Arc<Part>,
        step: u64,
        feeds: Vec<Tensor>,
        limit: Option<Duration>,
    ) -> Result<Vec<Tensor>, Failure> {
        let room = self.steps.clone();
        if Arc::strong_count(&room) > self.limits.steps + 1 {
            let text = format!(
                "this task runs {} steps, as many as it may",
                self.limits.steps
            );
            return Err(Status::new(Code::ResourceExhausted, text).into());
        }
        check_feeds(&part.feeds, &feeds)?;
        let running = Running {
            session: session.clone(),
            step: session.step(step)?,
            number: step,
            cancel: Cancel::new(),
        };
        running.step.begin(&part.routes, &running.cancel)?;
        // Dropped with this call, they end.
        let mut receiving = JoinSet::new();
        for (from, peer) in &part.sources {
            let request = wire::Receive {
                session: handle.to_owned(),
                step,
                task: part.task,
            };
            let (step, routes) = (running.step.clone(), part.routes.clone());
            let receive = receive(peer.clone(), *from, request, step, routes);
            receiving.spawn_on(receive, &self.runtime);
        }
        let mut options = RunOptions::cancelled_by(&running.cancel);
        options.timeout = limit;
        let work = {
            let runner = session.runner.clone();
            let channels = Channels {
                step: running.step.clone(),
                routes: part.routes.clone(),
            };
            let part = part.clone();
            move || {
                let began = Instant::now();
                let done = runner.run_part(&part.plan, &feeds, &channels, &options);
                part.took(began.elapsed());
                // What it has sent may be taken while nobody waits for its end any more.
                drop(room);
                done
            }
        };
        let done = match part.is_short() {
            true => work(),
            false => self.runtime.spawn_blocking(work).await.map_err(|e| {
                let text = format!("a defect of the task: {e}. Please report it");
                Failure::own(Status::new(Code::Internal, text))
            })?,
        };
        match done {
            Ok((fetched, _)) => {
                running.step.all_sent();
                running.step.taken().await?;
                Ok(fetched.into_values().flatten().collect())
            }
            Err(error) => {
                let failure = running.step.failure();
                let own = || Failure::own(Status::from(&error));
                let failure = failure.unwrap_or_else(own);
                running.step.fail(failure.clone());
                Err(failure)
            }
        }
    }
}

/// A part that runs; what is left of it ends when this is dropped.
struct Running {
    session: Arc<WorkerSession>,
    step: Arc<Step>,
    number: u64,
    cancel: Cancel,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
        let status = Status::new(Code::Cancelled, "the step was ended by its master");
        self.step.fail(Failure::derived(status));
        self.session.forget(self.number, &self.step);
    }
}

impl WorkerSession {
    /// The step of this number, made where it is the first that is heard of it.
    ///
    /// # Errors
    /// The session is closed.
    pub(crate) fn step(&self, number: u64) -> Result<Arc<Step>, Status> {
        let mut steps = locked(&self.steps);
        if *self.closed.borrow() {
            return Err(Status::new(Code::Aborted, "the session was closed"));
        }
        Ok(steps.entry(number).or_default().clone())
    }

    fn forget(&self, number: u64, step: &Arc<Step>) {
        let mut steps = locked(&self.steps);
        if steps.get(&number).is_some_and(|s| Arc::ptr_eq(s, step)) {
            steps.remove(&number);
        }
    }

    /// The part of this number.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn part(&self, number: u64) -> Result<Arc<Part>, Status> {
        let found = locked(&self.parts).kept.get(&number).cloned();
        found.ok_or_else(|| Status::invalid(format!("the session has no part {number}")))
    }

    /// Forgets a part.
    pub(crate) fn drop_part(&self, number: u64) {
        locked(&self.parts).kept.remove(&number);
    }

    fn end(&self, why: &str) {
        let mut steps = locked(&self.steps);
        self.closed.send_replace(true);
        let failure = Failure::derived(Status::new(Code::Aborted, why));
        steps.drain().for_each(|(_, s)| s.fail(failure.clone()));
    }
}

fn check_feeds(facts: &[Fact], feeds: &[Tensor]) -> Result<(), Status> {
    if facts.len() != feeds.len() {
        let text = format!("the part takes {} feeds, {} came", facts.len(), feeds.len());
        return Err(Status::invalid(text));
    }
    for (fact, feed) in facts.iter().zip(feeds) {
        if fact.dtype != feed.dtype() || !fact.shape.admits(feed.dims()) {
            let text = format!("a feed is {}{}, not {fact}", feed.dtype(), feed.shape());
            return Err(Status::invalid(text));
        }
    }
    Ok(())
}

/// What comes from another task, or why it does not.
async fn receive(
    peer: Arc<Peer>,
    from: u32,
    request: wire::Receive,
    step: Arc<Step>,
    routes: Arc<Routes>,
) {
    let received = async {
        let request = Frames::of(Kind::Receive(request));
        let mut answer = peer.call("Receive", request).await.map_err(Failure::own)?;
        loop {
            let next = peer.next(&mut answer).await;
            match next.map_err(|(status, derived)| Failure { status, derived })? {
                Kind::Value(header) => {
                    let value = peer.tensor(&mut answer, &header).await?;
                    step.deliver(&routes, from, header.number, value);
                }
                Kind::End(_) => return Ok(()),
                _ => {
                    let text = format!("{} has sent what is no value", peer.described());
                    return Err(Failure::own(Status::new(Code::Internal, text)));
                }
            }
        }
    };
    if let Err(failure) = received.await {
        step.fail(failure);
    }
}

/// A part as a message: what goes to a task, whoever it is.
pub(crate) struct Sealed {
    pub(crate) message: wire::Part,
    pub(crate) values: Vec<Tensor>,
}

impl Sealed {
    /// Of the task that runs it, with the names of all devices and tasks by number.
    ///
    /// # Errors
    /// It has what cannot be sent.
    pub(crate) fn new(
        part: &TaskPart,
        channels: &[TaskChannel],
        devices: &[DeviceSpec],
        tasks: &[Task],
    ) -> Result<Sealed, Status> {
        let (mut message, values) = part::encoded(part, channels)?;
        message.devices = devices.iter().map(ToString::to_string).collect();
        let tasks = tasks.iter().enumerate();
        message.peers = tasks
            .map(|(number, (job, index))| wire::Task {
                job: job.clone(),
                index: *index,
                number: number as u32,
                ..wire::Task::default()
            })
            .collect();
        Ok(Sealed { message, values })
    }
}
