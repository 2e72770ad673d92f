//! Leases of a master's sessions.
//!
//! A session lives while a connection that has used it is open, and for the time of a lease afterwards. A session of
//! an unknown client, as in the server's own program, lives until it is closed.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use thalweg_tensor::sync::Unpoisoned;
use tokio::time::Instant;
use tonic::Code;

use super::session::MasterSession;
use super::status::{Status, limit_exceeded};
use crate::limits::server_limits::Limits;
use crate::limits::settings::limit_name;

const SESSIONS: &str = limit_name("sessions");
const CLIENT_SESSIONS: &str = limit_name("client_sessions");

/// Maximum number of expired sessions that are remembered, for their errors.
const MAX_REMEMBERED: usize = 1024;

/// An object that lives as long as a connection.
pub(crate) type ConnectionAlive = dyn Send + Sync;

/// Caller: address and connection, as far as they are known.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    pub(crate) address: Option<IpAddr>,
    pub(crate) connection: Option<Weak<ConnectionAlive>>,
}

impl Caller {
    /// Formats the caller for the log.
    pub(super) fn shown(&self) -> String {
        self.address.map_or("unknown".to_owned(), |a| a.to_string())
    }
}

/// The sessions of a master.
#[derive(Default)]
pub(super) struct SessionLeases {
    inner: Mutex<LeaseTable>,
}

#[derive(Default)]
struct LeaseTable {
    /// By handle, in a deterministic order.
    sessions: BTreeMap<String, Lease>,
    /// Handles of expired sessions, with the reasons.
    collected: VecDeque<(String, String)>,
}

struct Lease {
    session: Arc<MasterSession>,
    address: Option<IpAddr>,
    /// Connections that have used it. `None` if one is not known: the session then never expires.
    connections: Option<Vec<Weak<ConnectionAlive>>>,
    /// Time since which none of them is open.
    gone: Option<Instant>,
}

impl Lease {
    fn is_used_by(&mut self, caller: &Caller) {
        let (Some(known), Some(connection)) = (&mut self.connections, &caller.connection) else {
            self.connections = None;
            return;
        };
        self.gone = None;
        if !known.iter().any(|k| Weak::ptr_eq(k, connection)) {
            known.retain(|k| k.strong_count() > 0);
            known.push(connection.clone());
        }
    }

    /// Returns the time since which its client is disconnected.
    fn gone(&mut self, now: Instant) -> Option<Instant> {
        let open = |all: &Vec<Weak<ConnectionAlive>>| all.iter().any(|c| c.strong_count() > 0);
        match self.connections.as_ref().is_none_or(open) {
            true => self.gone = None,
            false => {
                self.gone.get_or_insert(now);
            }
        }
        self.gone
    }
}

impl SessionLeases {
    fn inner(&self) -> MutexGuard<'_, LeaseTable> {
        self.inner.lock().unpoisoned()
    }

    /// Returns the number of sessions.
    pub(super) fn len(&self) -> usize {
        self.inner().sessions.len()
    }

    /// Adds a session; `check` may still refuse it. At a limit, the session disconnected for longest is removed and
    /// returned, to be closed.
    ///
    /// # Errors
    /// The limit of sessions is reached.
    pub(super) fn insert(
        &self,
        handle: &str,
        session: &Arc<MasterSession>,
        caller: &Caller,
        limits: &Limits,
        check: impl FnOnce() -> Result<(), Status>,
    ) -> Result<Option<(String, Arc<MasterSession>)>, Status> {
        let mut inner = self.inner();
        check()?;
        let own = |lease: &&Lease| caller.address.is_some() && lease.address == caller.address;
        let own = inner.sessions.values().filter(own).count();
        let mut freed = None;
        if own >= limits.client_sessions {
            freed = inner.longest_gone(|lease| lease.address == caller.address);
            if freed.is_none() {
                let text = format!("this client has {own} sessions, as many as it may: close one");
                return Err(limit_exceeded(CLIENT_SESSIONS, &text));
            }
        } else if inner.sessions.len() >= limits.sessions {
            freed = inner.longest_gone(|_| true);
            if freed.is_none() {
                let text = format!(
                    "this server has {} sessions, as many as it may: close one",
                    inner.sessions.len()
                );
                return Err(limit_exceeded(SESSIONS, &text));
            }
        }
        let why = "it was closed to make room for another one: its client had no connection open";
        let freed = freed.and_then(|handle| {
            let session = inner.collect(&handle, why)?;
            Some((handle, session))
        });
        let lease = Lease {
            session: session.clone(),
            address: caller.address,
            connections: caller.connection.clone().map(|c| vec![c]),
            gone: None,
        };
        inner.sessions.insert(handle.to_owned(), lease);
        Ok(freed)
    }

    /// Returns the session of this handle, and notes the caller's use.
    ///
    /// # Errors
    /// There is none: `Aborted`, on which TensorFlow's client makes a new session.
    pub(super) fn used(&self, handle: &str, caller: &Caller) -> Result<Arc<MasterSession>, Status> {
        let mut inner = self.inner();
        if let Some(lease) = inner.sessions.get_mut(handle) {
            lease.is_used_by(caller);
            return Ok(lease.session.clone());
        }
        let mut collected = inner.collected.iter();
        let why = collected.find(|(h, _)| h == handle);
        let why = why.map_or(String::new(), |(_, why)| format!(" ({why})"));
        let text = format!("Session {handle} is not found.{why}");
        Err(Status::new(Code::Aborted, text))
    }

    /// Removes a session.
    pub(super) fn remove(&self, handle: &str) -> Option<Arc<MasterSession>> {
        let removed = self.inner().sessions.remove(handle);
        removed.map(|lease| lease.session)
    }

    /// Removes all sessions.
    pub(super) fn drain(&self) -> Vec<Arc<MasterSession>> {
        let all = std::mem::take(&mut self.inner().sessions);
        all.into_values().map(|lease| lease.session).collect()
    }

    /// Runs `work` on each session, under the lock.
    pub(super) fn each(&self, work: impl Fn(&MasterSession)) {
        let inner = self.inner();
        inner.sessions.values().for_each(|l| work(&l.session));
    }

    /// Removes the sessions whose clients are disconnected for as long as a lease.
    pub(super) fn expired(&self, lease: Duration) -> Vec<(String, Arc<MasterSession>)> {
        let now = Instant::now();
        let mut inner = self.inner();
        let over = inner.sessions.iter_mut().filter_map(|(handle, l)| {
            let gone = l.gone(now)?;
            (now.duration_since(gone) >= lease).then(|| handle.clone())
        });
        let over: Vec<String> = over.collect();
        let why = format!(
            "it was closed: its client had no connection open for {lease:?}, the server's --lease"
        );
        let collect = |handle: String| {
            let session = inner.collect(&handle, &why)?;
            Some((handle, session))
        };
        over.into_iter().filter_map(collect).collect()
    }
}

impl LeaseTable {
    /// Returns the matching session disconnected for longest.
    fn longest_gone(&mut self, fits: impl Fn(&Lease) -> bool) -> Option<String> {
        let now = Instant::now();
        let gone = self.sessions.iter_mut().filter(|(_, l)| fits(l));
        let gone = gone.filter_map(|(handle, l)| Some((l.gone(now)?, handle)));
        gone.min().map(|(_, handle)| handle.clone())
    }

    fn collect(&mut self, handle: &str, why: &str) -> Option<Arc<MasterSession>> {
        let lease = self.sessions.remove(handle)?;
        if self.collected.len() >= MAX_REMEMBERED {
            self.collected.pop_front();
        }
        self.collected
            .push_back((handle.to_owned(), why.to_owned()));
        Some(lease.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::server_limits::memory_account;
    use crate::runtime::platform::system;
    use crate::tf_client::runner::StepRunner;
    use std::sync::LazyLock;
    use thalweg_graph::Graph;
    use thalweg_ops::NewGraph;
    use thalweg_session::{Engine, SessionOptions};
    use thalweg_tensor::Reservation;
    use tokio::runtime::Runtime;

    fn session() -> Arc<MasterSession> {
        static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
        let options = SessionOptions::new().threads(1);
        let runs = StepRunner::local(Engine::new(&options).unwrap(), options);
        let held = Reservation::of(Some(&memory_account(1000)));
        let platform = system(RUNTIME.handle().clone());
        Arc::new(MasterSession::new(
            Graph::new(),
            runs,
            None,
            &Limits::default(),
            held,
            platform,
        ))
    }

    /// Returns a connection, and its caller.
    fn client(last: u8) -> (Arc<()>, Caller) {
        let connection = Arc::new(());
        let alive: Arc<ConnectionAlive> = connection.clone();
        let caller = Caller {
            address: Some(IpAddr::from([10, 0, 0, last])),
            connection: Some(Arc::downgrade(&alive)),
        };
        (connection, caller)
    }

    fn kept(
        leases: &SessionLeases,
        handle: &str,
        caller: &Caller,
        limits: &Limits,
    ) -> Result<(), Status> {
        let inserted = leases.insert(handle, &session(), caller, limits, || Ok(()));
        inserted.map(|_| ())
    }

    const NONE: Duration = Duration::ZERO;

    #[test]
    fn a_session_expires_a_lease_after_its_last_connection_closes() {
        let (leases, limits) = (SessionLeases::default(), Limits::default());
        let ((first, caller), (second, other)) = (client(1), client(1));
        kept(&leases, "a", &caller, &limits).unwrap();
        assert!(leases.expired(NONE).is_empty());
        leases.used("a", &other).unwrap();
        drop(first);
        assert!(leases.expired(NONE).is_empty());
        drop(second);
        assert!(leases.expired(Duration::from_secs(3600)).is_empty());
        // A client that reconnects in time keeps its session.
        let (third, again) = client(1);
        leases.used("a", &again).unwrap();
        assert!(leases.expired(NONE).is_empty());
        drop(third);
        assert_eq!(leases.expired(NONE).len(), 1);
        let gone = leases.used("a", &again).map(|_| ()).unwrap_err();
        assert_eq!(gone.code, Code::Aborted);
        assert!(gone.message.contains("--lease"), "{gone}");
        let never = leases.used("b", &again).map(|_| ()).unwrap_err();
        assert_eq!(never.message, "Session b is not found.");
    }

    #[test]
    fn a_session_of_an_unknown_caller_does_not_expire() {
        let (leases, limits) = (SessionLeases::default(), Limits::default());
        kept(&leases, "a", &Caller::default(), &limits).unwrap();
        assert!(leases.expired(NONE).is_empty());
        leases.used("a", &Caller::default()).unwrap();
    }

    #[test]
    fn the_session_disconnected_for_longest_makes_room() {
        let (leases, mut limits) = (SessionLeases::default(), Limits::default());
        limits.sessions = 2;
        let ((first, a), (second, b), (_third, c)) = (client(1), client(2), client(3));
        kept(&leases, "a", &a, &limits).unwrap();
        kept(&leases, "b", &b, &limits).unwrap();
        let full = kept(&leases, "c", &c, &limits).unwrap_err();
        assert_eq!(full.limit, Some(SESSIONS));
        drop(second);
        leases.expired(Duration::from_secs(3600));
        drop(first);
        kept(&leases, "c", &c, &limits).unwrap();
        let why = leases.used("b", &c).map(|_| ()).unwrap_err();
        assert!(why.message.contains("make room"), "{why}");
        leases.used("a", &c).unwrap();
    }

    #[test]
    fn the_sessions_of_one_client_are_bounded() {
        let (leases, mut limits) = (SessionLeases::default(), Limits::default());
        limits.client_sessions = 1;
        let ((first, a), (_second, b), (_third, again)) = (client(1), client(2), client(1));
        kept(&leases, "a", &a, &limits).unwrap();
        kept(&leases, "b", &b, &limits).unwrap();
        let full = kept(&leases, "c", &again, &limits).unwrap_err();
        assert_eq!(full.limit, Some(CLIENT_SESSIONS));
        drop(first);
        kept(&leases, "c", &again, &limits).unwrap();
        assert!(leases.used("a", &a).is_err() && leases.used("b", &b).is_ok());
    }
}
