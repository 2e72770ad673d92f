//! The thread that runs a rank's collectives, and what sessions and programs ask of it.

mod agree;
mod gpus;
mod negotiation;
mod requests;
mod session;
mod work;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use thalweg_device::{CollectiveRequest, Collectives, KernelError, Ticket};
use thalweg_tensor::{Memory, Tensor};

use crate::control::Turn;
use crate::error::{CollectiveError, Result};
use crate::ranks::Ranks;
use crate::timeline::Timeline;
use crate::trace::Trace;
use crate::watch::Watch;
use session::OfSession;
use work::Runner;

/// This process as a rank: collectives of sessions, and of the program itself, run one after another on a thread of their
/// own, in the order in which they are asked for. Where ranks negotiate, they run in the order in which all ranks are ready.
///
/// ```
/// use std::sync::Arc;
/// use thalweg_collective::{Join, Progress, Ranks};
/// use thalweg_device::{Collective, CollectiveRequest, ReduceOp, Reduction};
/// use thalweg_tensor::Tensor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let progress = Arc::new(Progress::start(Ranks::join(&Join::alone())?)?);
/// let sum = progress.call(CollectiveRequest {
///     name: "sum".to_owned(),
///     set: 0,
///     kind: Collective::Reduce(Reduction::of(ReduceOp::Sum).scaled(1.0, 2.0)),
///     input: Tensor::vector(&[1.0f32]),
/// })?;
/// assert_eq!(sum, [Tensor::vector(&[2.0f32])]);
/// # Ok(())
/// # }
/// ```
pub struct Progress {
    shared: Arc<Shared>,
    commands: Mutex<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    control: Option<Arc<crate::control::Control>>,
    rank: usize,
    /// Whether ranks announce each collective before it runs.
    negotiates: bool,
    state: Mutex<State>,
    timeline: Mutex<Option<Timeline>>,
    trace: Mutex<Option<Trace>>,
    watch: Watch,
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

/// A collective that somebody asks for.
struct Asked {
    request: CollectiveRequest,
    /// Where its results lie.
    memory: Option<Arc<Memory>>,
    at: Instant,
    answer: Answer,
}

/// Who hears what becomes of a collective.
enum Answer {
    /// A node of a step.
    Node(Key),
    /// The program.
    Program(Sender<Result<Vec<Tensor>>>),
    /// This rank has joined: it only gives zeros.
    Nobody,
}

enum Command {
    Run(Asked),
    /// A set of ranks.
    AddSet(Vec<usize>, Sender<Result<i32>>),
    /// This rank has no more data.
    Join(Sender<Result<usize>>),
    /// All ranks have come to this, where they negotiate.
    Turn(Turn),
    /// Nobody asks any more.
    End,
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
            negotiates: ranks.negotiates(),
            state: Mutex::new(state),
            timeline: Mutex::default(),
            trace: Mutex::default(),
            watch: ranks.watch().clone(),
            gpus: Mutex::default(),
        });
        let (sender, commands) = channel();
        if let (Some(control), true) = (&shared.control, shared.negotiates) {
            let turns = sender.clone();
            // After the end nobody waits for a turn.
            control.hear_turns(Box::new(move |turn| drop(turns.send(Command::Turn(turn)))));
        }
        let runner = Runner::new(shared.clone(), ranks);
        let thread = thread::Builder::new().name("collectives".to_owned());
        let thread = thread.spawn(move || runner.run(&commands))?;
        Ok(Progress {
            shared,
            commands: Mutex::new(sender),
            thread: Some(thread),
        })
    }

    fn send(&self, command: Command) -> Result<()> {
        let ended = |_| CollectiveError::Ended("the rank has shut down".to_owned());
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.send(command).map_err(ended)
    }

    /// Runs a collective for the program, and waits for it.
    ///
    /// # Errors
    /// Those of the collective.
    pub fn call(&self, request: CollectiveRequest) -> Result<Vec<Tensor>> {
        let (sender, result) = channel();
        self.send(Command::Run(Asked {
            request,
            memory: None,
            at: Instant::now(),
            answer: Answer::Program(sender),
        }))?;
        received(&result)
    }

    /// This rank has no more data: it gives zeros to the sums and averages of the others, and no rows to what they gather, until
    /// all ranks have called this. Gives the rank that was the last one.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`]: there are others, and the ranks do not negotiate. What ended the job: also that the others
    /// run a collective that needs a value of this rank.
    ///
    /// ```
    /// use thalweg_collective::{Join, Progress, Ranks};
    ///
    /// let alone = Progress::start(Ranks::join(&Join::alone().negotiated(true))?)?;
    /// assert_eq!(alone.join()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn join(&self) -> Result<usize> {
        let (sender, result) = channel();
        self.send(Command::Join(sender))?;
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

    /// Writes from now on what the collectives of this rank wait for and do to this file. Perfetto and Chrome show it, and the
    /// files of all ranks one after another in one array.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn trace(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        let trace = Trace::create(path, self.shared.rank)?;
        let open = self.shared.trace.lock();
        *open.unwrap_or_else(PoisonError::into_inner) = Some(trace);
        self.shared.watch.turn(true);
        Ok(())
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
    /// What was asked for is done first, but for what waits until other ranks are ready; then the others hear that this one
    /// leaves.
    fn drop(&mut self) {
        self.shared.gpus().clear();
        let _ = self.send(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An error of a collective as one of a kernel.
fn kernel(error: CollectiveError) -> KernelError {
    KernelError::Invalid(error.to_string())
}
