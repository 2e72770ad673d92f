//! Handle of the progress thread.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use thalweg_device::CollectiveRequest;
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

use super::shared::{Command, ProgressShared, ProgressState, QueuedRequest, ReplyTo};
use super::work::Runner;
use crate::error::{CollectiveError, Result};
use crate::ranks::{ALL_RANKS, Ranks};
use crate::timeline::Timeline;
use crate::trace::Trace;

/// This process as a rank: collectives of sessions, and of the program itself, run one after another on a thread of their
/// own, in the order of requests. If ranks negotiate, they run in the order in which all ranks are ready.
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
    pub(super) shared: Arc<ProgressShared>,
    commands: Mutex<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts the thread of a rank.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(ranks: Ranks) -> std::io::Result<Progress> {
        let state = ProgressState {
            sets: HashMap::from([(ALL_RANKS, (0..ranks.size()).collect())]),
            ..ProgressState::default()
        };
        let shared = Arc::new(ProgressShared {
            control: ranks.control(),
            rank: ranks.rank(),
            negotiates: ranks.negotiates(),
            state: Mutex::new(state),
            timeline: Mutex::default(),
            trace: Mutex::default(),
            timer: ranks.timer().clone(),
            communicators: Mutex::default(),
        });
        let (sender, commands) = channel();
        if let (Some(control), true) = (&shared.control, shared.negotiates) {
            let turns = sender.clone();
            // An error is a thread that has ended.
            control.on_turn(Box::new(move |turn| drop(turns.send(Command::Turn(turn)))));
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

    /// Sends a command to the thread.
    pub(super) fn send(&self, command: Command) -> Result<()> {
        let ended = |_| CollectiveError::Ended("the rank has shut down".to_owned());
        let commands = self.commands.lock().unpoisoned();
        commands.send(command).map_err(ended)
    }

    /// Runs a collective for the program, and waits for its results.
    ///
    /// # Errors
    /// Errors of the collective.
    pub fn call(&self, request: CollectiveRequest) -> Result<Vec<Tensor>> {
        let (sender, result) = channel();
        self.send(Command::Run(QueuedRequest {
            request,
            memory: None,
            queued_at: Instant::now(),
            reply_to: ReplyTo::Program(sender),
        }))?;
        received(&result)
    }

    /// Ends the data of this rank: it contributes zeros to sums and averages of the others, and no rows to gathers, until all
    /// ranks have called this. Returns the last rank to do so.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`]: there are other ranks, and they do not negotiate. The reason for which the job ended, such
    /// as a collective that needs a value of this rank.
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

    /// Adds a set of ranks, and returns its number. All ranks must do so, also those outside of the set.
    ///
    /// # Errors
    /// As [`Ranks::add_set`].
    pub fn add_set(&self, members: &[usize]) -> Result<i32> {
        let (sender, result) = channel();
        self.send(Command::AddSet(members.to_vec(), sender))?;
        received(&result)
    }

    /// Writes all collectives from now on to this timeline, in place of an earlier one; `None` ends it.
    pub fn timeline(&self, timeline: Option<Timeline>) {
        *self.shared.timeline.lock().unpoisoned() = timeline;
    }

    /// Writes the waits, copies and reductions of this rank's collectives to this file from now on. Perfetto and Chrome show
    /// it, and the files of all ranks concatenated in one array.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn trace(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        let trace = Trace::create(path, self.shared.rank)?;
        *self.shared.trace.lock().unpoisoned() = Some(trace);
        self.shared.timer.set_enabled(true);
        Ok(())
    }

    /// Reason for which the job ended, if it has.
    pub fn failure(&self) -> Option<CollectiveError> {
        self.shared.control.as_ref()?.failure()
    }

    /// `true` if another rank has ended the job, or did not come in time.
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
    /// Runs all requests first, but for those that wait until other ranks are ready; then notifies the others that this
    /// rank leaves.
    fn drop(&mut self) {
        // The other ranks are still there.
        self.shared.communicators().by_set.clear();
        let _ = self.send(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
