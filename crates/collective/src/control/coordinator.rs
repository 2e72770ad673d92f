//! The coordinator: it knows who is there, and nothing of what they exchange.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::door::{Door, Unknown};
use super::job::State;
use super::timing::{HEARTBEAT_INTERVAL, SILENCE_TIMEOUT};
use super::wire::{Line, Reader, Writer, greeted};
use crate::secret::Secret;

/// Where the ranks of a job meet. It runs in threads of its own until it is dropped.
pub struct Coordinator {
    door: Door,
    shared: Arc<Shared>,
}

/// What is called with lines for people.
pub type Tell = Box<dyn Fn(String) + Send + Sync>;

struct Shared {
    size: usize,
    secret: Secret,
    /// How long a rank may be silent.
    silence: Duration,
    tell: Tell,
    state: Mutex<State>,
}

impl Coordinator {
    /// One for a job of so many ranks that know the secret.
    ///
    /// # Errors
    /// The system has no address or thread for it.
    pub fn start(
        listener: TcpListener,
        size: usize,
        secret: impl Into<Secret>,
    ) -> io::Result<Coordinator> {
        Coordinator::telling(listener, size, secret, SILENCE_TIMEOUT, Box::new(|_| {}))
    }

    /// As [`Coordinator::start`]; ranks are lost that are silent for so long, which is some seconds, and `tell` is called with
    /// lines for people: which rank the others wait for.
    ///
    /// # Errors
    /// As [`Coordinator::start`].
    pub fn telling(
        listener: TcpListener,
        size: usize,
        secret: impl Into<Secret>,
        silence: Duration,
        tell: Tell,
    ) -> io::Result<Coordinator> {
        let shared = Arc::new(Shared {
            size,
            secret: secret.into(),
            silence,
            tell,
            state: Mutex::default(),
        });
        let own = shared.clone();
        let serve = move |stream, guest| own.serve(stream, guest);
        let door = Door::open(listener, "coordinator", size, serve)?;
        Ok(Coordinator { door, shared })
    }

    /// A rank is lost, as whoever has started it knows: it may not have come here yet, and others wait for it.
    pub fn lose(&self, rank: usize, reason: &str) {
        let why = json!({"lost": rank, "reason": reason});
        self.shared.with(|state| state.fail(&why));
    }

    /// How many ranks are there.
    pub fn ranks(&self) -> usize {
        self.shared.state().ranks.len()
    }

    /// Where ranks find it.
    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        for writer in self.shared.state().ranks.values() {
            writer.close();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known, and then tells ranks what that calls for: nobody who does not read keeps others waiting.
    fn with<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state();
        let result = change(&mut state);
        let told = std::mem::take(&mut state.told);
        drop(state);
        for (writer, line) in told {
            if writer.write_line(&line).is_err() {
                // Its own thread notices.
                writer.close();
            }
        }
        result
    }

    /// Serves one connection until it ends.
    fn serve(&self, stream: TcpStream, guest: Unknown) {
        let Some((first, mut reader, writer)) = greeted(stream, &self.secret) else {
            return;
        };
        let joined = self.join(&first, &writer);
        drop(guest);
        let Some(rank) = joined else {
            return writer.close();
        };
        let reason = self.listen(rank, &mut reader, &writer);
        self.with(|state| {
            state.ranks.remove(&rank);
            match reason {
                Some(reason) => state.fail(&json!({"lost": rank, "reason": reason})),
                None => {
                    state.left.insert(rank);
                    state.tell(&json!({"left": rank}));
                    state.forsaken();
                }
            }
        });
        writer.close();
    }

    /// Which rank the connection is of; none where it may not come in.
    fn join(&self, message: &Value, writer: &Arc<Writer>) -> Option<usize> {
        let (rank, size) = (message["rank"].as_u64()?, message["size"].as_u64()?);
        let rank = usize::try_from(rank).ok()?;
        let mut state = self.state();
        let refused = if size != self.size as u64 {
            Some(format!("the job has {} ranks, not {size}", self.size))
        } else if rank >= self.size {
            Some(format!("there is no rank {rank} of {size}"))
        } else if state.ranks.contains_key(&rank) {
            Some(format!(
                "there is a rank {rank} already: a process joins once, and clones what it has"
            ))
        } else {
            None
        };
        if let Some(why) = refused {
            drop(state);
            let _ = writer.write(&json!({"refused": why}));
            return None;
        }
        state.came(rank, writer.clone());
        let failure = state.failure.clone();
        drop(state);
        let told = failure.unwrap_or(json!({"joined": rank}));
        if writer.write(&told).is_err() {
            self.state().ranks.remove(&rank);
            return None;
        }
        Some(rank)
    }

    /// What a rank says, until it goes: gives why, or nothing where it said that it goes.
    fn listen(&self, rank: usize, reader: &mut Reader, writer: &Writer) -> Option<String> {
        let mut beat = Instant::now();
        loop {
            let message = match reader.next() {
                Ok(Line::Message(message)) => message,
                Ok(Line::Nothing) => Value::Null,
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
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
                let told = overdue.iter().try_for_each(|message| writer.write(message));
                if told.is_err() {
                    return Some("its connection is broken".to_owned());
                }
            }
            if message.get("leave").is_some() {
                return None;
            }
            if let Some(reason) = message.get("ended") {
                self.with(|state| state.fail(&json!({"ended": rank, "reason": reason})));
            }
            if let (Some(late), Some(name)) = (message["stalled"].as_u64(), message["in"].as_str())
            {
                let seconds = message["seconds"].as_u64().unwrap_or(0);
                self.with(|state| state.stall(late, (name, seconds)));
            }
            if let Some(line) = message["tell"].as_str() {
                (self.tell)(line.to_owned());
            }
            if let Some(at) = message.get("at") {
                let stalled = self.state().stalled.remove(&rank);
                // A rank that has come to the same collective waits for a third one, and names it itself.
                let elsewhere = |(name, _): &(String, u64)| at.as_str() != Some(name);
                if let Some((name, seconds)) = stalled.filter(elsewhere) {
                    let line = whereabouts(rank, (&name, seconds), at, message["seconds"].as_u64());
                    (self.tell)(line);
                }
            }
            if let (Some(name), Some(value)) = (message["gather"].as_str(), message.get("value")) {
                let among = message["among"].as_array().map(|all| {
                    let ranks = all.iter().filter_map(|r| usize::try_from(r.as_u64()?).ok());
                    ranks.collect()
                });
                let among = among.unwrap_or_else(|| (0..self.size).collect());
                let in_turn = message.get("turn").is_some();
                let given = (rank, value.clone());
                self.with(|state| state.gather(name, given, among, in_turn));
            }
            if message.get("join").is_some() {
                self.with(|state| state.join(rank, self.size));
            }
        }
    }
}

/// Says who waits for a rank, and what that rank does.
fn whereabouts(rank: usize, (name, waited): (&str, u64), at: &Value, since: Option<u64>) -> String {
    let does = match (at.as_str(), since) {
        (Some(at), Some(since)) => format!("runs '{at}' for {since} s"),
        _ => "is in no collective".to_owned(),
    };
    format!("others wait for rank {rank} in '{name}' for {waited} s: it {does}")
}
