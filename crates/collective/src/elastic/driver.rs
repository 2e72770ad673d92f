//! The launcher's end: it hears workers, and begins rounds.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::roster::{Change, Limits, Roster};
use crate::control::{BEAT, Coordinator, Line, Reader, Writer, same_secret};

/// How often it is looked whether something follows from the time alone.
const LOOK: Duration = Duration::from_millis(100);
/// The stack of a connection's thread: it parses lines.
const STACK: usize = 256 << 10;
/// How many connections there may be.
const CONNECTIONS: usize = 4096;

/// What a launcher has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A round has begun: its number, and its workers by rank.
    Round {
        /// The number.
        number: u64,
        /// The workers.
        workers: Vec<u64>,
    },
    /// A worker is not wanted any more: its process is to end.
    Dropped {
        /// Which one.
        worker: u64,
        /// Why.
        why: String,
    },
    /// The job cannot go on.
    Ended(String),
    /// A line for people.
    Said(String),
}

/// Where the workers of an elastic job meet. It runs in threads of its own until it is dropped.
pub struct Driver {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    ip: IpAddr,
    secret: String,
    silence: Duration,
    began: Instant,
    ended: AtomicBool,
    connections: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    roster: Roster,
    writers: HashMap<u64, Arc<Writer>>,
    events: VecDeque<Event>,
    /// Where the ranks of the round meet.
    round: Option<Coordinator>,
    /// Why the job cannot go on.
    ended: Option<String>,
    /// Lines of coordinators for people.
    said: (Sender<String>, Receiver<String>),
}

impl State {
    /// A worker has ended: the ranks of its round hear of it at once, even if they have not met it yet.
    fn lose(&mut self, worker: u64, why: &str) {
        if let (Some(rank), Some(round)) = (self.roster.gone(worker), &self.round) {
            round.lose(rank, why);
        }
    }
}

/// What is written to a worker; nothing where its connection is closed.
type Told = (Arc<Writer>, Option<Value>);

impl Driver {
    /// One for workers that know the secret. Who is silent for so long is lost.
    ///
    /// # Errors
    /// The system has no address or thread for it.
    pub fn start(
        listener: TcpListener,
        secret: &str,
        limits: Limits,
        silence: Duration,
    ) -> io::Result<Driver> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            ip: address.ip(),
            secret: secret.to_owned(),
            silence,
            began: Instant::now(),
            ended: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            state: Mutex::new(State {
                roster: Roster::new(limits),
                writers: HashMap::new(),
                events: VecDeque::new(),
                round: None,
                ended: None,
                said: channel(),
            }),
        });
        let (own, looks) = (shared.clone(), shared.clone());
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        thread("elastic").spawn(move || own.accept(&listener))?;
        thread("elastic clock").spawn(move || {
            while !looks.ended.load(Ordering::Acquire) {
                thread::sleep(LOOK);
                looks.with(|_| {});
            }
        })?;
        Ok(Driver { address, shared })
    }

    /// Where workers find it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process of a worker has ended, without having done all of its work.
    pub fn gone(&self, worker: u64) {
        self.shared
            .with(|state| state.lose(worker, "its process has ended"));
    }

    /// The process of a worker has ended, and all of its work is done.
    pub fn done(&self, worker: u64) {
        self.shared.with(|state| state.roster.done(worker));
    }

    /// A worker is to leave when its round ends.
    pub fn leave(&self, worker: u64) {
        self.shared.with(|state| state.roster.leave(worker));
    }

    /// Whether a worker has done all of its work.
    pub fn is_finishing(&self) -> bool {
        self.shared.state().roster.is_finishing()
    }

    /// What has happened since this was asked last.
    pub fn events(&self) -> Vec<Event> {
        let mut state = self.shared.state();
        let said: Vec<Event> = state.said.1.try_iter().map(Event::Said).collect();
        state.events.drain(..).chain(said).collect()
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
        drop(state);
        // So that it looks.
        let _ = TcpStream::connect_timeout(&self.address, BEAT);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known, does what follows, and then tells workers: nobody who does not read keeps others waiting.
    fn with(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        let changes = state.roster.look(self.began.elapsed());
        let told: Vec<Told> = changes
            .into_iter()
            .flat_map(|c| self.follow(&mut state, c))
            .collect();
        drop(state);
        for (writer, message) in told {
            if message.is_none_or(|m| writer.write(&m).is_err()) {
                // Its own thread notices.
                writer.close();
            }
        }
    }

    fn follow(&self, state: &mut State, change: Change) -> Vec<Told> {
        match change {
            Change::Round { number, workers } => self.begin(state, number, workers),
            Change::Changed(worker) => {
                let writer = state.writers.get(&worker).cloned();
                let message = json!({"changed": true});
                writer.map(|w| (w, Some(message))).into_iter().collect()
            }
            Change::Dropped { worker, why } => {
                let writer = state.writers.remove(&worker);
                let message = json!({ "end": why });
                let told = writer.map(|w| vec![(w.clone(), Some(message)), (w, None)]);
                state.events.push_back(Event::Dropped { worker, why });
                told.unwrap_or_default()
            }
            Change::Ended(why) => {
                let message = json!({ "end": why });
                let told = state.writers.values();
                let told = told.map(|w| (w.clone(), Some(message.clone()))).collect();
                state.ended = Some(why.clone());
                state.events.push_back(Event::Ended(why));
                told
            }
        }
    }

    /// Begins a round: its ranks meet at a coordinator of their own.
    fn begin(&self, state: &mut State, number: u64, workers: Vec<u64>) -> Vec<Told> {
        let size = workers.len();
        let started = TcpListener::bind((self.ip, 0)).and_then(|l| {
            let lines = state.said.0.clone();
            // An error is a launcher that has ended.
            let tell = Box::new(move |line| drop(lines.send(line)));
            Coordinator::telling(l, size, &self.secret, self.silence, tell)
        });
        let coordinator = match started {
            Ok(coordinator) => coordinator,
            Err(e) => {
                let why = format!("round {number} has no coordinator: {e}");
                return self.follow(state, Change::Ended(why));
            }
        };
        let address = coordinator.address().to_string();
        let told = workers.iter().enumerate().filter_map(|(rank, worker)| {
            let place = json!({"round": number, "rank": rank, "size": size, "address": address});
            Some((state.writers.get(worker)?.clone(), Some(place)))
        });
        let told = told.collect();
        // All ranks have left the round before.
        state.round = Some(coordinator);
        state.events.push_back(Event::Round { number, workers });
        told
    }

    fn accept(self: &Arc<Shared>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            let Ok((stream, _)) = accepted else {
                // The process has no more descriptors: perhaps later.
                thread::sleep(BEAT);
                continue;
            };
            if self.connections.load(Ordering::Relaxed) >= CONNECTIONS {
                continue;
            }
            self.connections.fetch_add(1, Ordering::Relaxed);
            let own = self.clone();
            let thread = thread::Builder::new().stack_size(STACK);
            // Without a thread the connection is closed, and the worker says so.
            if thread.spawn(move || own.serve(stream)).is_err() {
                self.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Serves one connection until it ends.
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let made = Writer::new(&stream).and_then(|w| Ok((Arc::new(w), Reader::new(stream)?)));
        if let Ok((writer, mut reader)) = made {
            if let Some(worker) = self.join(&mut reader, &writer) {
                reader.trust();
                self.listen(worker, &mut reader, &writer);
                self.with(|state| {
                    state.writers.remove(&worker);
                    state.lose(worker, "its connection with the launcher has ended");
                });
            }
            writer.close();
        }
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Which worker the connection is of; none where it may not come in.
    fn join(&self, reader: &mut Reader, writer: &Arc<Writer>) -> Option<u64> {
        let message = loop {
            if let Line::Message(message) = reader.next().ok()? {
                break message;
            }
        };
        let secret = message["secret"].as_str()?;
        if !same_secret(secret.as_bytes(), self.secret.as_bytes()) {
            let _ = writer.write(&json!({"end": "the secret of the job is another one"}));
            return None;
        }
        let worker = message["worker"].as_u64()?;
        let taken = self.state().writers.contains_key(&worker);
        if taken {
            let why = format!("there is a worker {worker} already");
            let _ = writer.write(&json!({ "end": why }));
            return None;
        }
        self.with(|state| {
            state.writers.insert(worker, writer.clone());
            state.roster.came(worker);
        });
        Some(worker)
    }

    /// Hears a worker until it goes.
    fn listen(&self, worker: u64, reader: &mut Reader, writer: &Writer) {
        let mut beat = Instant::now();
        loop {
            let message = match reader.next() {
                Ok(Line::Message(message)) => message,
                Ok(Line::Nothing) => Value::Null,
                Err(_) => return,
            };
            if reader.silence() > self.silence {
                let why = format!("nothing was heard of it for {:?}", self.silence);
                self.with(|state| {
                    state.lose(worker, &why);
                    state.events.push_back(Event::Dropped { worker, why });
                });
                return;
            }
            if beat.elapsed() >= BEAT {
                beat = Instant::now();
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
                // One that has come too late to be told with the others.
                let told = ended.map_or(Ok(()), |why| writer.write(&json!({ "end": why })));
                if told.is_err() {
                    return;
                }
            }
            if message.get("done").is_some() {
                self.with(|state| state.roster.done(worker));
            }
        }
    }
}
