//! The sessions of a server, as a client of TensorFlow asks for them.

mod names;
mod partial;
mod service;
mod session;
mod stats;

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_device::Device;
use thalweg_session::{Engine, SessionOptions};
use tonic::Code;

use crate::limits::Limits;
use crate::messages::{ConfigProto, DeviceAttributes, DeviceLocality};
use crate::status::Status;

pub use session::{MasterSession, Request, Response};

/// The sessions of a server. They share its devices, and the variables and queues on those.
pub struct Master {
    engine: Engine,
    options: SessionOptions,
    limits: Limits,
    sessions: Mutex<HashMap<String, Arc<MasterSession>>>,
    steps: AtomicUsize,
    /// How many sessions there were.
    made: AtomicU64,
    /// Whether the server ends, and takes nothing new.
    ends: AtomicBool,
    requests: Mutex<Requests>,
    /// What tells this server from one that was there before it at the same address.
    incarnation: u64,
    random: RandomState,
}

impl Master {
    /// A master whose sessions run on these devices, which the options were made for.
    pub fn new(engine: Engine, options: SessionOptions, limits: Limits) -> Master {
        let random = RandomState::new();
        Master {
            incarnation: random.hash_one("incarnation"),
            random,
            engine,
            options,
            limits,
            sessions: Mutex::default(),
            steps: AtomicUsize::new(0),
            made: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            requests: Mutex::default(),
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<MasterSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a session without nodes; gives its handle and it.
    ///
    /// # Errors
    /// There are as many as may be, or the client asks for what a server does not do.
    pub fn create(&self, config: &ConfigProto) -> Result<(String, Arc<MasterSession>), Status> {
        if !config.session_inter_op_thread_pool.is_empty() {
            return Err(Status::invalid(
                "Distributed session does not support session thread pool options.",
            ));
        }
        let mut options = self.options.clone();
        options.soft_placement |= config.allow_soft_placement;
        let engine = match config.isolate_session_state {
            true => self.engine.isolated(),
            false => self.engine.clone(),
        };
        let session = Arc::new(MasterSession::new(engine, options, &self.limits));
        let mut sessions = self.sessions();
        if sessions.len() >= self.limits.sessions {
            return Err(Status::new(
                Code::ResourceExhausted,
                format!(
                    "this server has {} sessions, as many as it may: close one",
                    sessions.len()
                ),
            ));
        }
        if self.ends.load(Ordering::Acquire) {
            return Err(Status::new(
                Code::Unavailable,
                "the server is shutting down",
            ));
        }
        // No handle comes again, and none can be guessed.
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let half = |salt: &str| self.random.hash_one((number, salt));
        let handle = format!("{:016x}{:016x}", half("first"), half("second"));
        sessions.insert(handle.clone(), session.clone());
        Ok((handle, session))
    }

    /// The session of this handle.
    ///
    /// # Errors
    /// There is none: TensorFlow's client makes a new one where it is told `Aborted`.
    pub fn session(&self, handle: &str) -> Result<Arc<MasterSession>, Status> {
        let found = self.sessions().get(handle).cloned();
        found.ok_or_else(|| Status::new(Code::Aborted, format!("Session {handle} is not found.")))
    }

    /// Closes a session: its steps are cancelled and waited for.
    ///
    /// # Errors
    /// There is none of this handle.
    pub fn close(&self, handle: &str) -> Result<(), Status> {
        let session = self.sessions().remove(handle);
        let gone = || {
            let text =
                format!("Session {handle} is not found. Possibly, this master has restarted.");
            Status::new(Code::Aborted, text)
        };
        session.ok_or_else(gone)?.close();
        Ok(())
    }

    /// Closes all sessions, and clears these containers; the default one where none is named.
    pub fn reset(&self, containers: &[String]) {
        let all: Vec<_> = self.sessions().drain().collect();
        all.iter().for_each(|(_, session)| session.close());
        match containers {
            [] => self.engine.store().clear(""),
            some => some.iter().for_each(|c| {
                // TensorFlow's default container has the name of the job.
                let name = if *c == self.options.job { "" } else { c };
                self.engine.store().clear(name);
            }),
        }
    }

    /// Takes nothing new, and cancels what runs.
    pub(crate) fn end(&self) {
        let sessions = self.sessions();
        self.ends.store(true, Ordering::Release);
        sessions.values().for_each(|s| s.cancel());
    }

    /// Notes a request's number.
    ///
    /// # Errors
    /// It came before: a client sends it again where it does not know whether it arrived.
    pub(crate) fn first(&self, request: i64, what: &str) -> Result<(), Status> {
        let mut seen = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if request == 0 || seen.all.insert(request) {
            seen.order.extend((request != 0).then_some(request));
            if seen.order.len() > MOST_REQUESTS
                && let Some(oldest) = seen.order.pop_front()
            {
                seen.all.remove(&oldest);
            }
            return Ok(());
        }
        let text = format!("The same {what} request was received twice.");
        Err(Status::new(Code::Aborted, text))
    }

    /// The devices, as a client lists them.
    pub fn devices(&self) -> Vec<DeviceAttributes> {
        let one = |(index, device): (usize, &Device)| DeviceAttributes {
            name: device.name().to_string(),
            device_type: device
                .name()
                .device_type
                .as_deref()
                .unwrap_or("CPU")
                .to_owned(),
            memory_limit: device.memory().limit().map_or(256 << 20, |l| l as i64),
            locality: Some(DeviceLocality::default()),
            incarnation: self.incarnation.wrapping_add(index as u64),
            physical_device_desc: String::new(),
            xla_global_id: -1,
        };
        self.engine.devices().iter().enumerate().map(one).collect()
    }

    /// Room for one more step, given back when it is dropped.
    pub(crate) fn step(self: &Arc<Self>) -> Result<Room, Status> {
        let running = self.steps.fetch_add(1, Ordering::AcqRel);
        let room = Room(self.clone());
        match running < self.limits.steps {
            true => Ok(room),
            false => Err(Status::new(
                Code::ResourceExhausted,
                format!("this server runs {running} steps, as many as it may: wait for one"),
            )),
        }
    }
}

/// The numbers of the requests that came last.
#[derive(Default)]
struct Requests {
    all: HashSet<i64>,
    order: VecDeque<i64>,
}

/// How many of them are kept.
const MOST_REQUESTS: usize = 10_000;

/// A step's place among those that run.
pub(crate) struct Room(Arc<Master>);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.steps.fetch_sub(1, Ordering::AcqRel);
    }
}
