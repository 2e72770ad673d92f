//! Driver of an elastic job: the launcher's side, which accepts the workers' connections and begins rounds.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_tensor::sync::Unpoisoned;

use super::roster::{Change, ElasticLimits, Roster};
use crate::control::{
    Coordinator, HEARTBEAT_INTERVAL, Listener, Reader, Unidentified, WireLine, Writer, accept_peer,
};
use crate::secret::Secret;

/// Interval at which the roster is polled for timeouts.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Number of workers that the listener expects.
const EXPECTED_WORKERS: usize = 4096;

/// Driver of an elastic job, at which its workers meet. It runs in threads of its own until it is dropped.
pub struct Driver {
    listening: Listener,
    shared: Arc<DriverShared>,
}

/// State that the threads of a driver share.
struct DriverShared {
    ip: IpAddr,
    secret: Secret,
    silence: Duration,
    began: Instant,
    ended: AtomicBool,
    state: Mutex<JobState>,
}

/// State of the job.
struct JobState {
    roster: Roster,
    writers: HashMap<u64, Arc<Writer>>,
    /// Changes that the launcher has not taken yet.
    changes: Vec<Change>,
    /// Coordinator of the round.
    round: Option<Coordinator>,
    /// Reason for which the job cannot go on.
    ended: Option<String>,
    /// Lines of coordinators for the user.
    lines: (Sender<String>, Receiver<String>),
}

impl JobState {
    /// Removes a worker that has ended. The ranks of its round are outgoing at once, even if they have not met it yet.
    fn lose(&mut self, worker: u64, why: &str) {
        if let (Some(rank), Some(round)) = (self.roster.remove(worker), &self.round) {
            round.mark_lost(rank, why);
        }
    }
}

/// Message to a worker; `None` closes its connection.
type WorkerMessage = (Arc<Writer>, Option<Value>);

impl Driver {
    /// Starts the driver for workers that share the secret. A worker that is silent for `silence` is lost.
    ///
    /// # Errors
    /// The system has no address or thread for it.
    pub fn start(
        listener: TcpListener,
        secret: impl Into<Secret>,
        limits: ElasticLimits,
        silence: Duration,
    ) -> io::Result<Driver> {
        let shared = Arc::new(DriverShared {
            ip: listener.local_addr()?.ip(),
            secret: secret.into(),
            silence,
            began: Instant::now(),
            ended: AtomicBool::new(false),
            state: Mutex::new(JobState {
                roster: Roster::new(limits),
                writers: HashMap::new(),
                changes: Vec::new(),
                round: None,
                ended: None,
                lines: channel(),
            }),
        });
        let (own, polled) = (shared.clone(), shared.clone());
        let serve = move |stream, place| own.serve(stream, place);
        let listening = Listener::open(listener, "elastic", EXPECTED_WORKERS, serve)?;
        let clock = thread::Builder::new().name("elastic clock".to_owned());
        clock.spawn(move || {
            while !polled.ended.load(Ordering::Acquire) {
                thread::sleep(POLL_INTERVAL);
                polled.with(|_| {});
            }
        })?;
        Ok(Driver { listening, shared })
    }

    /// Address for workers.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Marks a worker whose process has ended before all of its work was done.
    pub fn mark_lost(&self, worker: u64) {
        self.shared
            .with(|state| state.lose(worker, "its process has ended"));
    }

    /// Marks a worker whose process has ended after all of its work was done.
    pub fn mark_done(&self, worker: u64) {
        self.shared.with(|state| state.roster.done(worker));
    }

    /// Tells a worker to leave when its round ends.
    pub fn leave(&self, worker: u64) {
        self.shared.with(|state| state.roster.leave(worker));
    }

    /// `true` if a worker has done all of its work.
    pub fn is_finishing(&self) -> bool {
        self.shared.state().roster.is_finishing()
    }

    /// Returns the changes since the last call.
    pub fn changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.shared.state().changes)
    }

    /// Returns the lines for the user since the last call.
    pub fn lines(&self) -> Vec<String> {
        self.shared.state().lines.1.try_iter().collect()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        let mut state = self.shared.state();
        for writer in state.writers.values() {
            writer.close();
        }
        state.round = None;
    }
}

impl DriverShared {
    fn state(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unpoisoned()
    }

    /// Changes the state, follows the consequences, and then writes to workers. They are written to without the lock, so that a
    /// worker that does not read blocks no other one.
    fn with(&self, change: impl FnOnce(&mut JobState)) {
        let mut state = self.state();
        change(&mut state);
        let changes = state.roster.poll(self.began.elapsed());
        let outgoing: Vec<WorkerMessage> = changes
            .into_iter()
            .flat_map(|c| self.apply(&mut state, c))
            .collect();
        drop(state);
        for (writer, message) in outgoing {
            if message.is_none_or(|m| writer.write(&m).is_err()) {
                // The thread of the connection notices.
                writer.close();
            }
        }
    }

    /// Applies a change. Returns the messages to workers.
    fn apply(&self, state: &mut JobState, change: Change) -> Vec<WorkerMessage> {
        state.changes.push(change.clone());
        match change {
            Change::Round { number, workers } => self.begin(state, number, &workers),
            Change::EndRound(worker) => {
                let writer = state.writers.get(&worker).cloned();
                let message = json!({"changed": true});
                writer.map(|w| (w, Some(message))).into_iter().collect()
            }
            Change::Dropped { worker, why } => {
                let writer = state.writers.remove(&worker);
                let message = json!({ "end": why });
                let outgoing = writer.map(|w| vec![(w.clone(), Some(message)), (w, None)]);
                outgoing.unwrap_or_default()
            }
            Change::Ended(why) => {
                let message = json!({ "end": why });
                state.ended = Some(why);
                let outgoing = state.writers.values();
                outgoing
                    .map(|w| (w.clone(), Some(message.clone())))
                    .collect()
            }
        }
    }

    /// Begins a round, whose ranks meet at a coordinator of their own.
    fn begin(&self, state: &mut JobState, number: u64, workers: &[u64]) -> Vec<WorkerMessage> {
        let size = workers.len();
        let started = TcpListener::bind((self.ip, 0)).and_then(|l| {
            let lines = state.lines.0.clone();
            // An error is a launcher that has ended.
            let log = Box::new(move |line| drop(lines.send(line)));
            Coordinator::start_with(l, size, &self.secret, self.silence, log)
        });
        let coordinator = match started {
            Ok(coordinator) => coordinator,
            Err(e) => {
                let why = format!("round {number} has no coordinator: {e}");
                return self.apply(state, Change::Ended(why));
            }
        };
        let address = coordinator.address().to_string();
        let outgoing = workers.iter().enumerate().filter_map(|(rank, worker)| {
            let place = json!({"round": number, "rank": rank, "size": size, "address": address});
            Some((state.writers.get(worker)?.clone(), Some(place)))
        });
        let outgoing = outgoing.collect();
        // All ranks have left the previous round.
        state.round = Some(coordinator);
        outgoing
    }

    /// Serves one connection until it ends.
    fn serve(&self, stream: TcpStream, place: Unidentified) {
        let Some((first, mut reader, writer)) = accept_peer(stream, &self.secret) else {
            return;
        };
        let worker = self.join(&first, &writer);
        drop(place);
        if let Some(worker) = worker {
            self.listen(worker, &mut reader, &writer);
            self.with(|state| {
                state.writers.remove(&worker);
                state.lose(worker, "its connection with the launcher has ended");
            });
        }
        writer.close();
    }

    /// Registers the worker of a connection; `None` if it is refused.
    fn join(&self, message: &Value, writer: &Arc<Writer>) -> Option<u64> {
        let worker = message["worker"].as_u64()?;
        if self.state().writers.contains_key(&worker) {
            let why = format!("there is a worker {worker} already");
            let _ = writer.write(&json!({ "refused": why }));
            return None;
        }
        self.with(|state| {
            state.writers.insert(worker, writer.clone());
            state.roster.add(worker);
        });
        Some(worker)
    }

    /// Handles messages of a worker until its connection ends.
    fn listen(&self, worker: u64, reader: &mut Reader, writer: &Writer) {
        let mut heartbeat = Instant::now();
        loop {
            let message = match reader.next() {
                Ok(WireLine::Message(message)) => message,
                Ok(WireLine::Nothing) => Value::Null,
                Err(_) => return,
            };
            if reader.silence() > self.silence {
                let why = format!("nothing was heard of it for {:?}", self.silence);
                self.with(|state| {
                    state.lose(worker, &why);
                    state.changes.push(Change::Dropped { worker, why });
                });
                return;
            }
            if heartbeat.elapsed() >= HEARTBEAT_INTERVAL {
                heartbeat = Instant::now();
                if writer.write(&json!({})).is_err() {
                    return;
                }
            }
            if let Some(commits) = message["ready"].as_u64() {
                let mut ended = None;
                self.with(|state| {
                    state.roster.ready(worker, commits);
                    ended = state.ended.clone();
                });
                // A worker that was not ready when the others were outgoing.
                let outgoing = ended.map_or(Ok(()), |why| writer.write(&json!({ "end": why })));
                if outgoing.is_err() {
                    return;
                }
            }
            if message.get("done").is_some() {
                self.with(|state| state.roster.done(worker));
            }
        }
    }
}
