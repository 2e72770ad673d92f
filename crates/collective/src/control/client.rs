//! Client of the control plane: a rank's side of its connection to the coordinator.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_launch_env::RankTimeouts;
use thalweg_tensor::sync::Unpoisoned;

use super::timing::HEARTBEAT_INTERVAL;
use super::turns::{Announced, OnTurn, Turn, Turns};
use super::wire::{Reader, Writer, handle_messages};
use crate::error::{CollectiveError, Result};
use crate::secret::Secret;
use crate::stream::Stream;

/// A rank's connection to the coordinator.
pub(crate) struct Control {
    pub(super) shared: Arc<ControlShared>,
    thread: Option<JoinHandle<()>>,
    /// Address of this rank on the coordinator's network.
    own: IpAddr,
    pub(super) timeouts: RankTimeouts,
}

pub(super) struct ControlShared {
    pub(super) writer: Writer,
    failed: AtomicBool,
    leaves: AtomicBool,
    state: Mutex<ControlState>,
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct ControlState {
    joined: bool,
    turns: Turns,
    pub(super) gathered: HashMap<String, Vec<Value>>,
    /// Missing ranks, by name of the gather.
    pub(super) missing: HashMap<String, Vec<usize>>,
    left: HashSet<usize>,
    /// Name and start of the running collective.
    pub(super) runs: Option<(String, Instant)>,
    /// Rank and collective of the last reported stall.
    pub(super) stalled: Option<(usize, String)>,
    pub(super) failure: Option<CollectiveError>,
    /// `true` if this rank has reported the failure.
    own: bool,
}

pub(super) fn rendezvous(error: impl std::fmt::Display) -> CollectiveError {
    CollectiveError::Rendezvous(error.to_string())
}

impl Control {
    /// Joins as one of so many ranks. The coordinator may start up to `timeouts.rendezvous` later.
    ///
    /// # Errors
    /// [`CollectiveError::Rendezvous`].
    pub(crate) fn join(
        address: SocketAddr,
        (rank, size): (usize, usize),
        secret: &Secret,
        timeouts: RankTimeouts,
    ) -> Result<Control> {
        let began = Instant::now();
        let stream = loop {
            match TcpStream::connect_timeout(&address, timeouts.rendezvous.max(HEARTBEAT_INTERVAL))
            {
                Ok(stream) => break stream,
                Err(e) if began.elapsed() >= timeouts.rendezvous => {
                    return Err(rendezvous(format!("{address} is not reached: {e}")));
                }
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        };
        let start = || -> io::Result<Control> {
            let stream = Arc::new(Stream::dialed(stream, address, secret)?);
            let own = stream.local_address()?.ip();
            let shared = Arc::new(ControlShared {
                writer: Writer::new(&stream),
                failed: AtomicBool::new(false),
                leaves: AtomicBool::new(false),
                state: Mutex::default(),
                changed: Condvar::new(),
            });
            shared
                .writer
                .write(&json!({"rank": rank, "size": size, "secret": secret.text()}))?;
            let (reader, listens) = (Reader::new(stream), shared.clone());
            let thread = thread::Builder::new().name("control".to_owned());
            let thread = thread.spawn(move || listens.listen(reader))?;
            Ok(Control {
                shared,
                thread: Some(thread),
                own,
                timeouts,
            })
        };
        let control = start().map_err(rendezvous)?;
        control.wait("the coordinator", Some(timeouts.rendezvous), |state| {
            state.joined.then_some(())
        })?;
        Ok(control)
    }

    /// Address of this rank.
    pub(crate) fn own_address(&self) -> IpAddr {
        self.own
    }

    /// Reason for which the job has ended, if it has. Cheap enough to poll.
    pub(crate) fn failure(&self) -> Option<CollectiveError> {
        match self.shared.failed.load(Ordering::Acquire) {
            true => self.shared.state().failure.clone(),
            false => None,
        }
    }

    /// `true` if a rank has left the job.
    pub(crate) fn has_left(&self, rank: usize) -> bool {
        self.shared.state().left.contains(&rank)
    }

    /// Sets the collective that runs, or has waited since then.
    pub(crate) fn enter(&self, name: &str, since: Instant) {
        self.shared.state().runs = Some((name.to_owned(), since));
    }

    /// Clears the collective that runs.
    pub(crate) fn leave(&self) {
        let mut state = self.shared.state();
        let ended = state.runs.take();
        // Another collective may still wait whose stall was reported.
        let stalled = state.stalled.as_ref().map(|(_, name)| name);
        if ended.as_ref().map(|(name, _)| name) == stalled {
            state.stalled = None;
        }
    }

    /// Sets the callback for turns, which come in order.
    pub(crate) fn on_turn(&self, callback: OnTurn) {
        self.shared.state().turns.on_turn(callback);
    }

    /// Announces that this rank is ready for a collective of these ranks.
    ///
    /// # Errors
    /// The coordinator cannot be reached.
    pub(crate) fn announce(&self, key: &str, description: &Value, members: &[usize]) -> Result<()> {
        let message = json!({"gather": key, "value": description, "among": members, "turn": true});
        self.shared.writer.write(&message).map_err(rendezvous)
    }

    /// Announces that this rank has no more collectives, until all ranks do so.
    ///
    /// # Errors
    /// The coordinator cannot be reached.
    pub(crate) fn join_others(&self) -> Result<()> {
        let message = json!({"join": true});
        self.shared.writer.write(&message).map_err(rendezvous)
    }

    /// Sends a line for the user to the coordinator.
    pub(crate) fn log(&self, line: &str) {
        let _ = self.shared.writer.write(&json!({ "tell": line }));
    }

    /// Leaves the job, once.
    pub(crate) fn leave_job(&self) {
        if !self.shared.leaves.swap(true, Ordering::AcqRel) {
            let _ = self.shared.writer.write(&json!({"leave": true}));
        }
    }

    /// Ends the job for all ranks.
    pub(crate) fn fail(&self, error: &CollectiveError) {
        if self.failure().is_none() {
            let lost = match error {
                CollectiveError::Lost { rank, .. } => Some(*rank),
                _ => None,
            };
            let message = json!({"ended": error.to_string(), "lost": lost});
            let _ = self.shared.writer.write(&message);
            self.shared.fail_by(error.clone(), true);
        }
    }

    /// `true` if another rank has caused the end of the job.
    pub(crate) fn is_failure_of_others(&self) -> bool {
        let state = self.shared.state();
        match &state.failure {
            Some(CollectiveError::Lost { .. } | CollectiveError::Late { .. }) => true,
            Some(_) => !state.own,
            None => false,
        }
    }

    /// Sends a value, and waits for the values of all ranks.
    ///
    /// # Errors
    /// The job has ended; [`CollectiveError::Late`].
    pub(crate) fn gather(&self, name: &str, value: &Value) -> Result<Vec<Value>> {
        let message = json!({"gather": name, "value": value});
        self.shared.writer.write(&message).map_err(rendezvous)?;
        let meet = Some(self.timeouts.rendezvous);
        self.wait(name, meet, |state| state.gathered.remove(name))
    }

    /// Gathers as [`Control::gather`] does, among these ranks; `ended` is polled every few milliseconds to cancel the wait.
    ///
    /// # Errors
    /// As [`Control::gather`].
    pub(crate) fn gather_among(
        &self,
        name: &str,
        value: &Value,
        members: &[usize],
        ended: &dyn Fn() -> bool,
    ) -> Result<Vec<Value>> {
        let message = json!({"gather": name, "value": value, "among": members});
        self.shared.writer.write(&message).map_err(rendezvous)?;
        let stopped = || CollectiveError::Ended("nobody waits any more".to_owned());
        let end = self.timeouts.stall_end;
        let waited = self.wait(name, end, |state| match state.gathered.remove(name) {
            Some(values) => Some(Ok(values)),
            None => ended().then(|| Err(stopped())),
        });
        waited?
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.leave_job();
        self.shared.writer.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl ControlShared {
    pub(super) fn state(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unpoisoned()
    }

    fn fail(&self, error: CollectiveError) {
        self.fail_by(error, false);
    }

    /// Keeps the first failure, and whether this rank has reported it.
    fn fail_by(&self, error: CollectiveError, own: bool) {
        let mut state = self.state();
        if state.failure.is_none() {
            state.failure = Some(error);
            state.own = own;
        }
        drop(state);
        self.failed.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Handles messages of the coordinator until either end leaves.
    fn listen(&self, reader: Reader) {
        let ended = handle_messages(reader, &self.writer, &self.leaves, |m| self.handle(m));
        if let Some(why) = ended {
            self.fail(CollectiveError::Ended(format!("the coordinator {why}")));
        }
    }

    /// Handles one message.
    fn handle(&self, message: &mut Value) {
        let announced = Announced::parse(message);
        // Taken out without a copy: they may be long.
        let values = message.get_mut("values").map(Value::take);
        let number = |key: &str| message[key].as_u64().and_then(|n| usize::try_from(n).ok());
        let reason = || {
            message["reason"]
                .as_str()
                .unwrap_or("no reason is known")
                .to_owned()
        };
        if let Some(rank) = number("lost") {
            return self.fail(CollectiveError::lost(rank, reason()));
        }
        if let Some(rank) = number("ended") {
            return self.fail(CollectiveError::Ended(format!("rank {rank}: {}", reason())));
        }
        if let Some(why) = message["refused"].as_str() {
            return self.fail(rendezvous(why));
        }
        let mut state = self.state();
        if message.get("where").is_some() {
            let runs = state
                .runs
                .as_ref()
                .map(|(name, since)| json!({"at": name, "seconds": since.elapsed().as_secs()}));
            let _ = self.writer.write(&runs.unwrap_or(json!({"at": null})));
            return;
        }
        if message.get("joined").is_some() {
            state.joined = true;
        }
        if let Some(rank) = number("left") {
            state.left.insert(rank);
        }
        if let (Some(name), Some(Value::Array(values))) = (message["gathered"].as_str(), values) {
            state.missing.remove(name);
            state.gathered.insert(name.to_owned(), values);
        }
        if let (Some(announced), Some(turn)) = (announced, message["turn"].as_u64()) {
            state.missing.remove(&announced.key);
            state.turns.add(turn, Turn::Run(announced));
        }
        if let (Some(last), Some(turn)) = (number("all_joined"), message["turn"].as_u64()) {
            state.turns.add(turn, Turn::Joined { last });
        }
        if let (Some(name), Some(missing)) =
            (message["waits"].as_str(), message["missing"].as_array())
        {
            let ranks = missing
                .iter()
                .filter_map(|m| usize::try_from(m.as_u64()?).ok());
            state.missing.insert(name.to_owned(), ranks.collect());
        }
        drop(state);
        self.changed.notify_all();
    }
}
