//! The launcher's end: it hears workers, and begins rounds.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::roster::{Change, Limits, Roster};
use crate::control::{
    Coordinator, Door, HEARTBEAT_INTERVAL, Line, Reader, Unknown, Writer, greeted,
};
use crate::secret::Secret;

/// How often it is looked whether something follows from the time alone.
const LOOK: Duration = Duration::from_millis(100);
/// How many workers may come at a time.
const WORKERS: usize = 4096;

/// Where the workers of an elastic job meet. It runs in threads of its own until it is dropped.
pub struct Driver {
    door: Door,
    meeting: Arc<Meeting>,
}

/// What the threads of a driver share.
struct Meeting {
    ip: IpAddr,
    secret: Secret,
    silence: Duration,
    began: Instant,
    ended: AtomicBool,
    known: Mutex<Known>,
}

struct Known {
    roster: Roster,
    writers: HashMap<u64, Arc<Writer>>,
    /// What has happened, for the launcher.
    changes: Vec<Change>,
    /// Where the ranks of the round meet.
    round: Option<Coordinator>,
    /// Why the job cannot go on.
    ended: Option<String>,
    /// Lines of coordinators for people.
    said: (Sender<String>, Receiver<String>),
}

impl Known {
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
        secret: impl Into<Secret>,
        limits: Limits,
        silence: Duration,
    ) -> io::Result<Driver> {
        let meeting = Arc::new(Meeting {
            ip: listener.local_addr()?.ip(),
            secret: secret.into(),
            silence,
            began: Instant::now(),
            ended: AtomicBool::new(false),
            known: Mutex::new(Known {
                roster: Roster::new(limits),
                writers: HashMap::new(),
                changes: Vec::new(),
                round: None,
                ended: None,
                said: channel(),
            }),
        });
        let (own, looks) = (meeting.clone(), meeting.clone());
        let serve = move |stream, guest| own.serve(stream, guest);
        let door = Door::open(listener, "elastic", WORKERS, serve)?;
        let clock = thread::Builder::new().name("elastic clock".to_owned());
        clock.spawn(move || {
            while !looks.ended.load(Ordering::Acquire) {
                thread::sleep(LOOK);
                looks.with(|_| {});
            }
        })?;
        Ok(Driver { door, meeting })
    }

    /// Where workers find it.
    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }

    /// The process of a worker has ended, without having done all of its work.
    pub fn gone(&self, worker: u64) {
        self.meeting
            .with(|known| known.lose(worker, "its process has ended"));
    }

    /// The process of a worker has ended, and all of its work is done.
    pub fn done(&self, worker: u64) {
        self.meeting.with(|known| known.roster.done(worker));
    }

    /// A worker is to leave when its round ends.
    pub fn leave(&self, worker: u64) {
        self.meeting.with(|known| known.roster.leave(worker));
    }

    /// Whether a worker has done all of its work.
    pub fn is_finishing(&self) -> bool {
        self.meeting.known().roster.is_finishing()
    }

    /// What has happened since this was asked last.
    pub fn changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.meeting.known().changes)
    }

    /// Lines for people, since this was asked last.
    pub fn said(&self) -> Vec<String> {
        self.meeting.known().said.1.try_iter().collect()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.meeting.ended.store(true, Ordering::Release);
        let mut known = self.meeting.known();
        for writer in known.writers.values() {
            writer.close();
        }
        known.round = None;
    }
}

impl Meeting {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known, does what follows, and then tells workers: nobody who does not read keeps others waiting.
    fn with(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.known();
        change(&mut known);
        let changes = known.roster.look(self.began.elapsed());
        let told: Vec<Told> = changes
            .into_iter()
            .flat_map(|c| self.follow(&mut known, c))
            .collect();
        drop(known);
        for (writer, message) in told {
            if message.is_none_or(|m| writer.write(&m).is_err()) {
                // Its own thread notices.
                writer.close();
            }
        }
    }

    /// Does what a change asks for. Gives what is to be said to workers.
    fn follow(&self, known: &mut Known, change: Change) -> Vec<Told> {
        known.changes.push(change.clone());
        match change {
            Change::Round { number, workers } => self.begin(known, number, &workers),
            Change::Changed(worker) => {
                let writer = known.writers.get(&worker).cloned();
                let message = json!({"changed": true});
                writer.map(|w| (w, Some(message))).into_iter().collect()
            }
            Change::Dropped { worker, why } => {
                let writer = known.writers.remove(&worker);
                let message = json!({ "end": why });
                let told = writer.map(|w| vec![(w.clone(), Some(message)), (w, None)]);
                told.unwrap_or_default()
            }
            Change::Ended(why) => {
                let message = json!({ "end": why });
                known.ended = Some(why);
                let told = known.writers.values();
                told.map(|w| (w.clone(), Some(message.clone()))).collect()
            }
        }
    }

    /// Begins a round: its ranks meet at a coordinator of their own.
    fn begin(&self, known: &mut Known, number: u64, workers: &[u64]) -> Vec<Told> {
        let size = workers.len();
        let started = TcpListener::bind((self.ip, 0)).and_then(|l| {
            let lines = known.said.0.clone();
            // An error is a launcher that has ended.
            let tell = Box::new(move |line| drop(lines.send(line)));
            Coordinator::telling(l, size, &self.secret, self.silence, tell)
        });
        let coordinator = match started {
            Ok(coordinator) => coordinator,
            Err(e) => {
                let why = format!("round {number} has no coordinator: {e}");
                return self.follow(known, Change::Ended(why));
            }
        };
        let address = coordinator.address().to_string();
        let told = workers.iter().enumerate().filter_map(|(rank, worker)| {
            let place = json!({"round": number, "rank": rank, "size": size, "address": address});
            Some((known.writers.get(worker)?.clone(), Some(place)))
        });
        let told = told.collect();
        // All ranks have left the round before.
        known.round = Some(coordinator);
        told
    }

    /// Serves one connection until it ends.
    fn serve(&self, stream: TcpStream, guest: Unknown) {
        let Some((first, mut reader, writer)) = greeted(stream, &self.secret) else {
            return;
        };
        let worker = self.join(&first, &writer);
        drop(guest);
        if let Some(worker) = worker {
            self.listen(worker, &mut reader, &writer);
            self.with(|known| {
                known.writers.remove(&worker);
                known.lose(worker, "its connection with the launcher has ended");
            });
        }
        writer.close();
    }

    /// Which worker the connection is of; none where it may not come in.
    fn join(&self, message: &Value, writer: &Arc<Writer>) -> Option<u64> {
        let worker = message["worker"].as_u64()?;
        if self.known().writers.contains_key(&worker) {
            let why = format!("there is a worker {worker} already");
            let _ = writer.write(&json!({ "refused": why }));
            return None;
        }
        self.with(|known| {
            known.writers.insert(worker, writer.clone());
            known.roster.came(worker);
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
                self.with(|known| {
                    known.lose(worker, &why);
                    known.changes.push(Change::Dropped { worker, why });
                });
                return;
            }
            if beat.elapsed() >= HEARTBEAT_INTERVAL {
                beat = Instant::now();
                if writer.write(&json!({})).is_err() {
                    return;
                }
            }
            if let Some(commits) = message["ready"].as_u64() {
                let mut ended = None;
                self.with(|known| {
                    known.roster.ready(worker, commits);
                    ended = known.ended.clone();
                });
                // One that has come too late to be told with the others.
                let told = ended.map_or(Ok(()), |why| writer.write(&json!({ "end": why })));
                if told.is_err() {
                    return;
                }
            }
            if message.get("done").is_some() {
                self.with(|known| known.roster.done(worker));
            }
        }
    }
}
