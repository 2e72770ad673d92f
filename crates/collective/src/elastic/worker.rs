//! Worker of an elastic job: the process's side, which waits for its rank in each round.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use thalweg_launch_env::{ElasticWorker, host};
use thalweg_tensor::sync::Unpoisoned;

use crate::control::{Reader, SILENCE_TIMEOUT, Writer, handle_messages};
use crate::error::{CollectiveError, Result};
use crate::join::{Join, shared_secret};
use crate::secret::Secret;
use crate::stream::Stream;

/// Process that takes part in the rounds of an elastic job.
pub struct Worker {
    launcher: Arc<Launcher>,
    thread: Option<JoinHandle<()>>,
    /// Description of the rank that is the same in all rounds.
    join: Join,
}

/// Place of a worker in a round.
#[derive(Clone, Debug)]
pub struct RoundPlace {
    /// Number of the round, from 1 on.
    pub round: u64,
    /// Description of the rank in this round.
    pub join: Join,
}

/// Connection to the launcher.
struct Launcher {
    writer: Writer,
    leaves: AtomicBool,
    state: Mutex<LauncherState>,
    changed: Condvar,
}

/// Messages of the launcher.
#[derive(Default)]
struct LauncherState {
    place: Option<(u64, usize, usize, SocketAddr)>,
    /// `true` if the round is to end.
    others_wait: bool,
    ended: Option<String>,
}

fn rendezvous(error: impl std::fmt::Display) -> CollectiveError {
    CollectiveError::Rendezvous(error.to_string())
}

impl Worker {
    /// Connects to the [`Driver`](super::Driver) of a job.
    ///
    /// # Errors
    /// [`CollectiveError::Rendezvous`].
    pub fn connect(driver: SocketAddr, worker: u64, secret: impl Into<Secret>) -> Result<Worker> {
        let secret = &secret.into();
        let stream = TcpStream::connect_timeout(&driver, SILENCE_TIMEOUT).map_err(rendezvous)?;
        let start = || -> std::io::Result<Worker> {
            let stream = Arc::new(Stream::dialed(stream, driver, secret)?);
            let launcher = Arc::new(Launcher {
                writer: Writer::new(&stream),
                leaves: AtomicBool::new(false),
                state: Mutex::default(),
                changed: Condvar::new(),
            });
            launcher
                .writer
                .write(&json!({"worker": worker, "secret": secret.text()}))?;
            let (reader, listens) = (Reader::new(stream), launcher.clone());
            let thread = thread::Builder::new().name("elastic".to_owned());
            let thread = thread.spawn(move || listens.listen(reader))?;
            Ok(Worker {
                launcher,
                thread: Some(thread),
                join: Join::at(driver, 0, 1, secret),
            })
        };
        start().map_err(rendezvous)
    }

    /// Connects as the environment of `thalweg launch hvd --min-np` describes; `None` if the process was not started so.
    ///
    /// # Errors
    /// [`CollectiveError::Argument`]: a variable of the environment cannot be used; [`CollectiveError::Rendezvous`].
    pub fn from_env() -> Result<Option<Worker>> {
        Worker::from_variables(&|name| std::env::var(name).ok())
    }

    fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Worker>> {
        let Some(own) = ElasticWorker::from_variables(get)? else {
            return Ok(None);
        };
        let secret = shared_secret(get, &own.secret)?;
        let mut worker = Worker::connect(own.driver, own.worker, &secret)?;
        let mut join = worker.join.clone().configured(get)?;
        if let Some(name) = own.host {
            join = join.host(&format!("{} {name}", host::identity()));
        }
        worker.join = join;
        Ok(Some(worker))
    }

    /// Waits for a place in the next round, after so many commits.
    ///
    /// # Errors
    /// [`CollectiveError::Ended`]: the job is over, or has dropped this worker.
    pub fn ready(&self, commits: u64) -> Result<RoundPlace> {
        let mut state = self.launcher.state();
        state.place = None;
        state.others_wait = false;
        drop(state);
        let written = self.launcher.writer.write(&json!({ "ready": commits }));
        let mut state = self.launcher.state();
        loop {
            if let Some((round, rank, size, address)) = state.place.take() {
                let join = self.join.of_round(round, address, (rank, size));
                return Ok(RoundPlace { round, join });
            }
            if let Some(why) = &state.ended {
                return Err(CollectiveError::Ended(why.clone()));
            }
            if let Err(e) = &written {
                return Err(CollectiveError::Ended(format!("the launcher is lost: {e}")));
            }
            state = self.launcher.changed.wait(state).unpoisoned();
        }
    }

    /// `true` if others wait for the round to end.
    pub fn others_wait(&self) -> bool {
        self.launcher.state().others_wait
    }

    /// Reports that all of its work is done.
    pub fn report_done(&self) {
        let _ = self.launcher.writer.write(&json!({"done": true}));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.launcher.leaves.store(true, Ordering::Release);
        self.launcher.writer.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Launcher {
    fn state(&self) -> MutexGuard<'_, LauncherState> {
        self.state.lock().unpoisoned()
    }

    fn end(&self, why: String) {
        self.state().ended.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Handles messages of the launcher until either end leaves.
    fn listen(&self, reader: Reader) {
        let ended = handle_messages(reader, &self.writer, &self.leaves, |m| self.handle(m));
        if let Some(why) = ended {
            self.end(format!("the launcher {why}"));
        }
    }

    /// Handles one message.
    fn handle(&self, message: &mut Value) {
        let number = |key: &str| message[key].as_u64().and_then(|n| usize::try_from(n).ok());
        if let Some(why) = message["end"].as_str().or(message["refused"].as_str()) {
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
            // An earlier message is about the previous round.
            state.others_wait = false;
        }
        drop(state);
        self.changed.notify_all();
    }
}
