//! The thread that runs a rank's collectives, and what sessions and programs ask of it.

mod gpus;
mod requests;

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde_json::json;
use thalweg_device::gpu::GpuCollectives;
use thalweg_device::{
    Collective, CollectiveRequest, Collectives, KernelError, PlannedCollective, RankOf, Ticket,
};
use thalweg_tensor::{Memory, Tensor};

use crate::error::{CollectiveError, Result};
use crate::ranks::{Ranks, tag};
use crate::timeline::Timeline;

/// This process as a rank: collectives of sessions, and of the program itself, run one after another on a thread of their
/// own, in the order in which they are asked for.
///
/// ```
/// use std::sync::Arc;
/// use thalweg_collective::{Join, Progress, Ranks};
/// use thalweg_device::{Collective, CollectiveRequest, ReduceOp};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let progress = Arc::new(Progress::start(Ranks::join(&Join::alone())?)?);
/// let sum = progress.call(CollectiveRequest {
///     name: "sum".to_owned(),
///     set: 0,
///     kind: Collective::Reduce { op: ReduceOp::Sum, prescale: 1.0, postscale: 2.0 },
///     input: Tensor::vector(&[1.0f32]),
/// })?;
/// assert_eq!(sum, [Tensor::vector(&[2.0f32])]);
/// # Ok(())
/// # }
/// ```
pub struct Progress {
    shared: Arc<Shared>,
    commands: Mutex<Option<Sender<Command>>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    control: Option<Arc<crate::control::Control>>,
    rank: usize,
    state: Mutex<State>,
    timeline: Mutex<Option<Timeline>>,
    gpus: Mutex<gpus::Gpus>,
}

#[derive(Default)]
struct State {
    /// By number: the members of a set, in order.
    sets: HashMap<i32, Vec<usize>>,
    /// What nodes wait for.
    waits: HashMap<Key, Wait>,
    /// How many sessions there were.
    sessions: u64,
    /// By set: how often its ranks have agreed on a plan.
    agreements: HashMap<i32, u64>,
    /// Digests of what was agreed on.
    agreed: HashSet<u64>,
}

/// A node that waits: the number of its session, and that of its ticket there.
type Key = (u64, u64);

enum Wait {
    /// It runs, or will.
    Pending { ticket: Ticket, name: String },
    /// It has run.
    Done(Result<Vec<Tensor>>),
}

enum Command {
    /// For a node of a step.
    Run(Key, CollectiveRequest, Arc<Memory>, Instant),
    /// For the program.
    Call(CollectiveRequest, Sender<Result<Vec<Tensor>>>, Instant),
    /// A set of ranks.
    AddSet(Vec<usize>, Sender<Result<i32>>),
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: &CollectiveError) {
        if let Some(control) = &self.control {
            control.fail(error);
        }
    }
}

impl Progress {
    /// Starts the thread of a rank.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(ranks: Ranks) -> std::io::Result<Progress> {
        let state = State {
            sets: HashMap::from([(crate::ALL_RANKS, (0..ranks.size()).collect())]),
            ..State::default()
        };
        let shared = Arc::new(Shared {
            control: ranks.control(),
            rank: ranks.rank(),
            state: Mutex::new(state),
            timeline: Mutex::default(),
            gpus: Mutex::default(),
        });
        let (sender, commands) = channel();
        let own = shared.clone();
        let thread = thread::Builder::new().name("collectives".to_owned());
        let thread = thread.spawn(move || own.work(ranks, &commands))?;
        Ok(Progress {
            shared,
            commands: Mutex::new(Some(sender)),
            thread: Some(thread),
        })
    }

    fn send(&self, command: Command) -> Result<()> {
        let ended = || CollectiveError::Ended("the rank has shut down".to_owned());
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = commands.as_ref().ok_or_else(ended)?;
        sender.send(command).map_err(|_| ended())
    }

    /// Runs a collective for the program, and waits for it.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn call(&self, request: CollectiveRequest) -> Result<Vec<Tensor>> {
        let (sender, result) = channel();
        self.send(Command::Call(request, sender, Instant::now()))?;
        received(&result)
    }

    /// Makes a set of ranks: all ranks must do so, those that are not in it too. Gives its number.
    ///
    /// # Errors
    /// As [`Ranks::add_set`].
    pub fn add_set(&self, members: &[usize]) -> Result<i32> {
        let (sender, result) = channel();
        self.send(Command::AddSet(members.to_vec(), sender))?;
        received(&result)
    }

    /// What a session needs to be this rank: its nodes are told from those of other sessions.
    pub fn session(self: &Arc<Progress>) -> Arc<dyn Collectives> {
        let mut state = self.shared.state();
        state.sessions += 1;
        Arc::new(OfSession {
            progress: self.clone(),
            number: state.sessions,
        })
    }

    /// Writes what all collectives do from now on to this timeline, in place of the one before; nothing ends it.
    pub fn timeline(&self, timeline: Option<Timeline>) {
        let open = self.shared.timeline.lock();
        *open.unwrap_or_else(PoisonError::into_inner) = timeline;
    }

    /// What ended the job, if anything did.
    pub fn failure(&self) -> Option<CollectiveError> {
        self.shared.control.as_ref()?.failure()
    }

    /// Whether the job has ended by what another rank did, or did not do in time.
    pub fn is_failure_of_others(&self) -> bool {
        let control = self.shared.control.as_ref();
        control.is_some_and(|control| control.is_failure_of_others())
    }
}

fn received<T>(result: &Receiver<Result<T>>) -> Result<T> {
    let ended = |_| CollectiveError::Ended("the rank has shut down".to_owned());
    result.recv().map_err(ended)?
}

impl Drop for Progress {
    /// What was asked for is done first; then the other ranks hear that this one leaves.
    fn drop(&mut self) {
        self.shared.gpus().clear();
        let commands = self.commands.get_mut();
        drop(commands.unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Runs what is asked for, until nobody asks any more.
    fn work(&self, mut ranks: Ranks, commands: &Receiver<Command>) {
        for command in commands {
            match command {
                Command::Run(key, request, memory, asked) => {
                    let result = self.run(&mut ranks, request, Some(&memory), asked);
                    self.done(key, result);
                }
                Command::Call(request, sender, asked) => {
                    let _ = sender.send(self.run(&mut ranks, request, None, asked));
                }
                Command::AddSet(members, sender) => {
                    let added = ranks.add_set(&members);
                    if let Ok(set) = added {
                        let mut members = members;
                        members.sort_unstable();
                        self.state().sets.insert(set, members);
                    }
                    let _ = sender.send(added);
                }
            }
        }
    }

    /// Runs a collective. Whatever goes wrong ends the job: the other ranks wait for this one.
    fn run(
        &self,
        ranks: &mut Ranks,
        request: CollectiveRequest,
        memory: Option<&Arc<Memory>>,
        asked: Instant,
    ) -> Result<Vec<Tensor>> {
        let (name, what) = (request.name.clone(), phase(&request.kind));
        let began = Instant::now();
        let run = AssertUnwindSafe(|| requests::run(ranks, request, memory));
        let result = catch_unwind(run).unwrap_or_else(|_| {
            let why = format!("'{name}' panicked: please report it");
            Err(CollectiveError::Ended(why))
        });
        if let Err(error) = &result {
            self.fail(error);
        }
        self.note(&name, what, [asked, began, Instant::now()]);
        result
    }

    /// Writes the times of a collective to the timeline, if there is one. One that cannot be written is given up.
    fn note(&self, name: &str, what: &str, [asked, began, ended]: [Instant; 3]) {
        let mut open = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(timeline) = &mut *open else {
            return;
        };
        let written = timeline.span(name, "QUEUE", asked, began);
        let written = written.and_then(|()| timeline.span(name, what, began, ended));
        if let Err(e) = written {
            *open = None;
            if let Some(control) = &self.control {
                control.tell(&format!(
                    "rank {}: no more timeline is written: {e}",
                    self.rank
                ));
            }
        }
    }

    /// Keeps the result of a node, and wakes it; nobody waits for that of a step that has ended.
    fn done(&self, key: Key, result: Result<Vec<Tensor>>) {
        let mut state = self.state();
        let Some(wait) = state.waits.get_mut(&key) else {
            return;
        };
        if let Wait::Pending { ticket, .. } = std::mem::replace(wait, Wait::Done(result)) {
            drop(state);
            ticket.wake();
        }
    }
}

/// What Horovod's timeline calls a collective.
fn phase(kind: &Collective) -> &'static str {
    match kind {
        Collective::Reduce { .. } => "ALLREDUCE",
        Collective::Gather => "ALLGATHER",
        Collective::Broadcast { .. } => "BROADCAST",
        Collective::Scatter { .. } => "REDUCESCATTER",
        Collective::Exchange { .. } => "ALLTOALL",
        Collective::Barrier => "BARRIER",
    }
}

/// An error of a collective as one of a kernel.
fn kernel(error: CollectiveError) -> KernelError {
    KernelError::Invalid(error.to_string())
}

/// A session that is this rank.
struct OfSession {
    progress: Arc<Progress>,
    number: u64,
}

impl Collectives for OfSession {
    fn ranks(&self, set: i32) -> std::result::Result<RankOf, KernelError> {
        let state = self.progress.shared.state();
        let members = state.sets.get(&set).ok_or_else(|| {
            KernelError::Invalid(format!(
                "there is no set {set} of ranks: add it on all ranks first"
            ))
        })?;
        let rank = members.iter().position(|&m| m == self.progress.shared.rank);
        let size = members.len();
        let rank = rank.ok_or_else(|| {
            KernelError::Invalid(format!(
                "rank {} is not in set {set} of ranks",
                self.progress.shared.rank
            ))
        })?;
        Ok(RankOf { rank, size })
    }

    fn run(
        &self,
        ticket: &Ticket,
        memory: &Arc<Memory>,
        request: &mut dyn FnMut() -> std::result::Result<CollectiveRequest, KernelError>,
    ) -> std::result::Result<Option<Vec<Tensor>>, KernelError> {
        let number = (self.number, ticket.number());
        let mut state = self.progress.shared.state();
        match state.waits.remove(&number) {
            Some(Wait::Done(result)) => return result.map(Some).map_err(kernel),
            Some(Wait::Pending { name, .. }) => {
                let ticket = ticket.clone();
                state.waits.insert(number, Wait::Pending { ticket, name });
                return Ok(None);
            }
            None => {}
        }
        drop(state);
        let request = request()?;
        let wait = Wait::Pending {
            ticket: ticket.clone(),
            name: request.name.clone(),
        };
        self.progress.shared.state().waits.insert(number, wait);
        let sent = self.progress.send(Command::Run(
            number,
            request,
            memory.clone(),
            Instant::now(),
        ));
        if let Err(error) = sent {
            self.progress.shared.state().waits.remove(&number);
            return Err(kernel(error));
        }
        Ok(None)
    }

    fn abandon(&self, ticket: u64) {
        let wait = self
            .progress
            .shared
            .state()
            .waits
            .remove(&(self.number, ticket));
        if let Some(Wait::Pending { name, .. }) = wait {
            // The others would wait for ever.
            let why = format!("its step ended while '{name}' waited");
            self.progress.shared.fail(&CollectiveError::Ended(why));
        }
    }

    fn agree(
        &self,
        planned: &[PlannedCollective],
        ended: &dyn Fn() -> bool,
    ) -> std::result::Result<(), KernelError> {
        let mut sets: Vec<i32> = planned.iter().map(|p| p.set).collect();
        sets.sort_unstable();
        sets.dedup();
        for set in sets {
            // Who is not in it waits for nobody.
            self.ranks(set)?;
            let of_set = planned.iter().filter(|p| p.set == set);
            let lines: Vec<String> = of_set.map(ToString::to_string).collect();
            self.progress.shared.agree(set, &lines, ended)?;
        }
        Ok(())
    }

    fn for_gpus(&self) -> Option<&dyn GpuCollectives> {
        Some(self)
    }
}

impl Shared {
    /// Whether all ranks of a set plan these collectives.
    fn agree(
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
                // What this rank has said stays with the coordinator: it cannot compare once more.
                let why = format!("it ended while ranks compared {name}");
                self.fail(&CollectiveError::Ended(why));
                match ended() {
                    true => KernelError::Stopped,
                    false => kernel(error),
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
        Err(kernel(error))
    }
}

/// The first rank whose plan differs, and where.
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
