//! A worker's end.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde_json::{Value, json};

use crate::control::{BEAT, Line, Reader, SILENCE, Writer};
use crate::error::{CollectiveError, Result};
use crate::join::{Join, host, meeting, needed, parsed, variables};

/// A process that takes part in the rounds of an elastic job.
pub struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    secret: String,
    /// What the launcher calls its host.
    host: Option<String>,
}

/// What a worker is in a round.
#[derive(Clone, Debug)]
pub struct Place {
    /// The number of the round, from 1 on.
    pub round: u64,
    /// The rank, the number of ranks, and where they meet.
    pub join: Join,
}

struct Shared {
    writer: Writer,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    place: Option<(u64, usize, usize, SocketAddr)>,
    /// Whether the round is to end.
    others_wait: bool,
    ended: Option<String>,
}

fn rendezvous(error: impl std::fmt::Display) -> CollectiveError {
    CollectiveError::Rendezvous(error.to_string())
}

impl Worker {
    /// Meets the [`Driver`](super::Driver) of a job.
    ///
    /// # Errors
    /// [`CollectiveError::Rendezvous`].
    pub fn connect(driver: SocketAddr, worker: u64, secret: &str) -> Result<Worker> {
        let stream = TcpStream::connect_timeout(&driver, SILENCE).map_err(rendezvous)?;
        let start = || -> std::io::Result<Worker> {
            stream.set_nodelay(true)?;
            let shared = Arc::new(Shared {
                writer: Writer::new(&stream)?,
                state: Mutex::default(),
                changed: Condvar::new(),
            });
            shared
                .writer
                .write(&json!({"worker": worker, "secret": secret}))?;
            let (mut reader, listens) = (Reader::new(stream)?, shared.clone());
            reader.trust();
            let thread = thread::Builder::new().name("elastic".to_owned());
            let thread = thread.spawn(move || listens.listen(reader))?;
            Ok(Worker {
                shared,
                thread: Some(thread),
                secret: secret.to_owned(),
                host: None,
            })
        };
        start().map_err(rendezvous)
    }

    /// As `thalweg launch hvd` says with `--min-np`; nothing where the process was not started so.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`]: a variable of the environment cannot be used; [`CollectiveError::Rendezvous`].
    pub fn from_env() -> Result<Option<Worker>> {
        Worker::from_variables(&|name| std::env::var(name).ok())
    }

    fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Worker>> {
        use variables::{HOST, SECRET, WORKER};
        let Some(worker) = get(WORKER) else {
            return Ok(None);
        };
        let (worker, driver) = (parsed(WORKER, &worker)?, meeting(get)?);
        let mut worker = Worker::connect(driver, worker, &needed(get, SECRET)?)?;
        worker.host = get(HOST).map(|name| format!("{} {name}", host()));
        Ok(Some(worker))
    }

    /// Waits for a place in the next round, after so many commits.
    ///
    /// # Errors
    /// [`CollectiveError::Ended`]: the job is over, or does not need this worker.
    pub fn ready(&self, commits: u64) -> Result<Place> {
        let mut state = self.shared.state();
        state.place = None;
        state.others_wait = false;
        drop(state);
        let said = self.shared.writer.write(&json!({ "ready": commits }));
        let mut state = self.shared.state();
        loop {
            if let Some((round, rank, size, address)) = state.place.take() {
                let mut join = Join::at(address, rank, size, &self.secret);
                if let Some(host) = &self.host {
                    join = join.host(host);
                }
                return Ok(Place { round, join });
            }
            if let Some(why) = &state.ended {
                return Err(CollectiveError::Ended(why.clone()));
            }
            if let Err(e) = &said {
                return Err(CollectiveError::Ended(format!("the launcher is lost: {e}")));
            }
            let next = self.shared.changed.wait(state);
            state = next.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether others wait for the round to end.
    pub fn others_wait(&self) -> bool {
        self.shared.state().others_wait
    }

    /// Says that all of its work is done.
    pub fn done(&self) {
        let _ = self.shared.writer.write(&json!({"done": true}));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.writer.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: String) {
        self.state().ended.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Hears the launcher until it or this worker goes.
    fn listen(&self, mut reader: Reader) {
        let mut beat = Instant::now();
        loop {
            match reader.next() {
                Ok(Line::Message(message)) => self.hear(&message),
                Ok(Line::Nothing) => {}
                Err(e) => return self.end(format!("the launcher is lost: {e}")),
            }
            if reader.silence() > SILENCE {
                return self.end(format!("nothing was heard of the launcher for {SILENCE:?}"));
            }
            if beat.elapsed() >= BEAT {
                beat = Instant::now();
                // That it is gone is noticed by reading.
                let _ = self.writer.write(&json!({}));
            }
        }
    }

    fn hear(&self, message: &Value) {
        let number = |key: &str| message[key].as_u64().and_then(|n| usize::try_from(n).ok());
        if let Some(why) = message["end"].as_str() {
            return self.end(why.to_owned());
        }
        let mut state = self.state();
        state.others_wait |= message.get("changed").is_some();
        let address = message["address"].as_str().and_then(|a| a.parse().ok());
        if let (Some(round), Some(rank), Some(size), Some(address)) = (
            message["round"].as_u64(),
            number("rank"),
            number("size"),
            address,
        ) {
            state.place = Some((round, rank, size, address));
            // What was said before was of the round before.
            state.others_wait = false;
        }
        drop(state);
        self.changed.notify_all();
    }
}
