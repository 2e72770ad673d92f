//! Coordinator of a job: accepts the connections of all ranks and answers them. Reduced values do not pass through it.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_tensor::sync::Unpoisoned;

use super::job::CoordinatorState;
use super::listener::{Listener, Unidentified};
use super::timing::{HEARTBEAT_INTERVAL, LEAVE_TIMEOUT, SILENCE_TIMEOUT};
use super::wire::{Reader, WireLine, Writer, accept_peer};
use crate::secret::Secret;

/// Coordinator of a job, at which its ranks meet. It runs in threads of its own until it is dropped.
pub struct Coordinator {
    listening: Listener,
    shared: Arc<CoordinatorShared>,
}

/// Callback for lines to the user.
pub type LogLine = Box<dyn Fn(String) + Send + Sync>;

struct CoordinatorShared {
    size: usize,
    secret: Secret,
    /// Time without a message after which a rank is lost.
    silence: Duration,
    log: LogLine,
    state: Mutex<CoordinatorState>,
    /// Notified when the connection of a rank has ended.
    removed: Condvar,
}

impl Coordinator {
    /// Starts the coordinator of a job of `size` ranks that share the secret.
    ///
    /// # Errors
    /// The system has no address or thread for it.
    pub fn start(
        listener: TcpListener,
        size: usize,
        secret: impl Into<Secret>,
    ) -> io::Result<Coordinator> {
        Coordinator::start_with(listener, size, secret, SILENCE_TIMEOUT, Box::new(|_| {}))
    }

    /// Starts the coordinator in the process of a rank. Its lines for the user go to standard error.
    ///
    /// # Errors
    /// As [`Coordinator::start`].
    pub(crate) fn start_in_rank(
        listener: TcpListener,
        size: usize,
        secret: impl Into<Secret>,
    ) -> io::Result<Coordinator> {
        let tell = |line: String| {
            let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
        };
        Coordinator::start_with(listener, size, secret, SILENCE_TIMEOUT, Box::new(tell))
    }

    /// Starts a coordinator as [`Coordinator::start`] does. A rank that is silent for `silence`, some seconds, is lost. `log` is
    /// called with lines for the user, such as the rank for which others wait.
    ///
    /// # Errors
    /// As [`Coordinator::start`].
    pub fn start_with(
        listener: TcpListener,
        size: usize,
        secret: impl Into<Secret>,
        silence: Duration,
        log: LogLine,
    ) -> io::Result<Coordinator> {
        let shared = Arc::new(CoordinatorShared {
            size,
            secret: secret.into(),
            silence,
            log,
            state: Mutex::default(),
            removed: Condvar::new(),
        });
        let own = shared.clone();
        let serve = move |stream, unidentified| own.serve(stream, unidentified);
        let listening = Listener::open(listener, "coordinator", size, serve)?;
        Ok(Coordinator { listening, shared })
    }

    /// Marks a rank as lost. The launcher calls this for a process that has ended, which may not have connected yet.
    pub fn mark_lost(&self, rank: usize, reason: &str) {
        let why = json!({"lost": rank, "reason": reason});
        self.shared.with(|state| state.fail(rank, &why));
    }

    /// The rank that has ended the job: the first that was lost, has failed, or has left while others wait for it. The ranks
    /// that fail after it do so because of it.
    pub fn first_failed(&self) -> Option<usize> {
        self.shared.state().cause
    }

    /// Number of connected ranks.
    pub fn ranks(&self) -> usize {
        self.shared.state().ranks.len()
    }

    /// Address for ranks.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        for writer in self.shared.state().ranks.values() {
            writer.close();
        }
    }
}

impl CoordinatorShared {
    fn state(&self) -> MutexGuard<'_, CoordinatorState> {
        self.state.lock().unpoisoned()
    }

    /// Changes the state, and then writes the messages that follow. They are written without the lock, so that a rank that
    /// does not read blocks no other one.
    fn with<R>(&self, change: impl FnOnce(&mut CoordinatorState) -> R) -> R {
        let mut state = self.state();
        let result = change(&mut state);
        let outgoing = std::mem::take(&mut state.outgoing);
        drop(state);
        for (writer, line) in outgoing {
            if writer.write_line(&line).is_err() {
                // The thread of the connection notices.
                writer.close();
            }
        }
        result
    }

    /// Serves one connection until it ends.
    fn serve(&self, stream: TcpStream, unidentified: Unidentified) {
        let Some((first, mut reader, writer)) = accept_peer(stream, &self.secret) else {
            return;
        };
        let joined = self.join(&first, &writer);
        drop(unidentified);
        let Some(rank) = joined else {
            return writer.close();
        };
        let reason = self.listen(rank, &mut reader, &writer);
        self.with(|state| {
            state.ranks.remove(&rank);
            match reason {
                Some(reason) => state.fail(rank, &json!({"lost": rank, "reason": reason})),
                None => {
                    state.left.insert(rank);
                    state.broadcast(&json!({"left": rank}));
                    state.check_waits();
                }
            }
        });
        self.removed.notify_all();
        writer.close();
    }

    /// State after this rank's earlier connection has ended, if it ends soon. The message with which a rank leaves and its next
    /// connection are read by two threads, in either order.
    fn departed(&self, rank: usize) -> MutexGuard<'_, CoordinatorState> {
        let connected = |state: &mut CoordinatorState| state.ranks.contains_key(&rank);
        let waited = self
            .removed
            .wait_timeout_while(self.state(), LEAVE_TIMEOUT, connected);
        waited.unpoisoned().0
    }

    /// Registers the rank of a connection; `None` if it is refused.
    fn join(&self, message: &Value, writer: &Arc<Writer>) -> Option<usize> {
        let (rank, size) = (message["rank"].as_u64()?, message["size"].as_u64()?);
        let rank = usize::try_from(rank).ok()?;
        let mut state = self.departed(rank);
        let refused = if size != self.size as u64 {
            Some(format!("the job has {} ranks, not {size}", self.size))
        } else if rank >= self.size {
            Some(format!("there is no rank {rank} of {size}"))
        } else if state.ranks.contains_key(&rank) {
            Some(format!(
                "there is a rank {rank} already: start each rank once; within a process, clone what the first join gave"
            ))
        } else {
            None
        };
        if let Some(why) = refused {
            drop(state);
            let _ = writer.write(&json!({"refused": why}));
            return None;
        }
        state.connected(rank, writer.clone());
        let failure = state.failure.clone();
        drop(state);
        let answer = failure.unwrap_or(json!({"joined": rank}));
        if writer.write(&answer).is_err() {
            self.state().ranks.remove(&rank);
            self.removed.notify_all();
            return None;
        }
        Some(rank)
    }

    /// Handles the messages of a rank until its connection ends. Returns the reason; `None` if the rank has left.
    fn listen(&self, rank: usize, reader: &mut Reader, writer: &Writer) -> Option<String> {
        let mut beat = Instant::now();
        loop {
            let message = match reader.next() {
                Ok(WireLine::Message(message)) => message,
                Ok(WireLine::Nothing) => Value::Null,
                // A process that ends with messages that it has not read resets its connection.
                Err(e)
                    if [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset]
                        .contains(&e.kind()) =>
                {
                    return Some("its process has ended".to_owned());
                }
                Err(e) => return Some(e.to_string()),
            };
            if reader.silence() > self.silence {
                return Some(format!("nothing was heard of it for {:?}", self.silence));
            }
            if beat.elapsed() >= HEARTBEAT_INTERVAL {
                beat = Instant::now();
                if writer.write(&json!({})).is_err() {
                    return Some("its connection is broken".to_owned());
                }
                let overdue = self.state().overdue(rank);
                let written = overdue.iter().try_for_each(|message| writer.write(message));
                if written.is_err() {
                    return Some("its connection is broken".to_owned());
                }
            }
            if message.get("leave").is_some() {
                return None;
            }
            if let Some(reason) = message.get("ended") {
                let lost = message["lost"].as_u64();
                let cause = lost.and_then(|r| usize::try_from(r).ok()).unwrap_or(rank);
                let why = json!({"ended": rank, "reason": reason});
                self.with(|state| state.fail(cause, &why));
            }
            if let (Some(late), Some(name)) = (message["stalled"].as_u64(), message["in"].as_str())
            {
                let seconds = message["seconds"].as_u64().unwrap_or(0);
                self.with(|state| state.stall(late, (name, seconds)));
            }
            if let Some(line) = message["tell"].as_str() {
                (self.log)(line.to_owned());
            }
            if let Some(at) = message.get("at") {
                let stalled = self.state().stalled.remove(&rank);
                // A rank in the same collective waits for a third one, and reports that one itself.
                let elsewhere = |(name, _): &(String, u64)| at.as_str() != Some(name);
                if let Some((name, seconds)) = stalled.filter(elsewhere) {
                    let line = stall_line(rank, (&name, seconds), at, message["seconds"].as_u64());
                    (self.log)(line);
                }
            }
            if let (Some(name), Some(value)) = (message["gather"].as_str(), message.get("value")) {
                let among = message["among"].as_array().map(|all| {
                    let ranks = all.iter().filter_map(|r| usize::try_from(r.as_u64()?).ok());
                    ranks.collect()
                });
                let among = among.unwrap_or_else(|| (0..self.size).collect());
                let in_turn = message.get("turn").is_some();
                let own = (rank, value.clone());
                self.with(|state| state.gather(name, own, among, in_turn));
            }
            if message.get("join").is_some() {
                self.with(|state| state.join(rank, self.size));
            }
        }
    }
}

/// Line for the user about a rank for which others wait, with its activity.
fn stall_line(rank: usize, (name, waited): (&str, u64), at: &Value, since: Option<u64>) -> String {
    let does = match (at.as_str(), since) {
        (Some(at), Some(since)) => format!("runs '{at}' for {since} s"),
        _ => "is in no collective".to_owned(),
    };
    format!("others wait for rank {rank} in '{name}' for {waited} s: it {does}")
}
