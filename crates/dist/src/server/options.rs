//! How a server works, where it listens, and why it cannot.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use thalweg_device::Files;
use thalweg_session::{CpuOptions, SessionError, SessionOptions};
use thiserror::Error;

use crate::cluster::spec::{SpecError, TaskName, task_label};
use crate::error::ClusterError;
use crate::limits::server_limits::Limits;
use crate::limits::settings::SettingError;
use crate::runtime::timeouts::Timeouts;
use crate::transport::peers::MAX_POOLED_BYTES;
use crate::transport::protection::Protection;

/// How many tasks an error names.
const MAX_NAMED_TASKS: usize = 8;

/// How a server works.
///
/// Each method changes one thing and gives the options back; the fields can be read and set as well.
///
/// ```
/// use thalweg_dist::{Timeouts, Server, ServerOptions};
/// use thalweg_session::SessionOptions;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), thalweg_dist::ServerError> {
/// let options = ServerOptions::listening("127.0.0.1:0")
///     .session(SessionOptions::new().cpus(2).threads(2))
///     .timeouts(Timeouts::new().connect(Duration::from_secs(5)));
/// let server = Server::start(options)?;
/// server.shutdown();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The host and port to listen on; port 0 takes a free one.
    pub listen: String,
    /// The task's name, its devices, and how its sessions work.
    pub session: SessionOptions,
    /// What clients may ask for.
    pub limits: Limits,
    /// How long other tasks are waited for.
    pub timeouts: Timeouts,
    /// Whether large values go to co-located tasks, those on this machine, through shared memory, which is
    /// several times as fast as over a connection. It takes Linux, the same user and the same network
    /// namespace; values go over the connection otherwise.
    pub shared_memory: bool,
    /// What the server asks of its callers, and shows to the tasks that it calls. TensorFlow's own client
    /// can show nothing: it reaches a server without protection alone.
    pub protection: Option<Protection>,
    /// Whether to listen beyond this machine though nothing protects the server: whoever reaches it
    /// may run graphs on it, and read and change what they compute.
    pub unprotected_network: bool,
}

impl ServerOptions {
    /// The defaults, listening here.
    pub fn listening(listen: impl Into<String>) -> ServerOptions {
        ServerOptions {
            listen: listen.into(),
            session: SessionOptions::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            shared_memory: true,
            protection: None,
            unprotected_network: false,
        }
    }

    /// With these devices, and sessions that work like this. A task of a cluster keeps its own name.
    pub fn session(self, session: SessionOptions) -> ServerOptions {
        ServerOptions { session, ..self }
    }

    /// With these limits on what clients ask for.
    pub fn limits(self, limits: Limits) -> ServerOptions {
        ServerOptions { limits, ..self }
    }

    /// With this long for other tasks.
    pub fn timeouts(self, timeouts: Timeouts) -> ServerOptions {
        ServerOptions { timeouts, ..self }
    }

    /// Whether large values go to co-located tasks through shared memory.
    pub fn shared_memory(self, shared_memory: bool) -> ServerOptions {
        ServerOptions {
            shared_memory,
            ..self
        }
    }

    /// With this asked of callers, and shown to the tasks that it calls.
    pub fn protection(self, protection: impl Into<Option<Protection>>) -> ServerOptions {
        ServerOptions {
            protection: protection.into(),
            ..self
        }
    }

    /// Whether to listen beyond this machine without protection; see the field.
    pub fn unprotected_network(self, unprotected_network: bool) -> ServerOptions {
        ServerOptions {
            unprotected_network,
            ..self
        }
    }

    /// With the files that graphs of clients and of other tasks may read and write: none, where nothing is said.
    pub fn files(mut self, files: Files) -> ServerOptions {
        self.session.files = files;
        self
    }

    /// For this task of a cluster.
    pub(crate) fn of_task(mut self, job: &str, index: u32) -> ServerOptions {
        self.session.job = job.to_owned();
        self.session.task = index;
        if self.shared_memory {
            self.session.shared = MAX_POOLED_BYTES;
        }
        self
    }

    /// The session's options, with the engine's memory bounded.
    pub(crate) fn bounded(&self) -> SessionOptions {
        let mut session = self.session.clone();
        if session.cpus.is_empty() {
            session.cpus.push(CpuOptions::new());
        }
        let most = usize::try_from(self.limits.memory).unwrap_or(usize::MAX);
        for cpu in &mut session.cpus {
            cpu.memory_limit.get_or_insert(most);
        }
        session
    }

    pub(crate) fn cannot_listen(&self, source: std::io::Error) -> ServerError {
        ServerError::Listen {
            address: self.listen.clone(),
            source,
        }
    }
}

/// A socket that listens where the options say.
pub(crate) fn bind(options: &ServerOptions) -> Result<std::net::TcpListener, ServerError> {
    let failed = |e| options.cannot_listen(e);
    let address = resolve(&options.listen).map_err(failed)?;
    let open = options.protection.is_none() && !options.unprotected_network;
    if open && !address.ip().is_loopback() {
        return Err(ServerError::Unprotected(address));
    }
    listen(address).map_err(failed)
}

/// The first address that a text names.
pub(crate) fn resolve(text: &str) -> std::io::Result<SocketAddr> {
    let none = || std::io::Error::other("it names no address");
    text.to_socket_addrs()?.next().ok_or_else(none)
}

/// A socket that listens there, for the network's threads.
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = std::net::TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Where a socket listens, as others connect to it.
pub(crate) fn address_of(
    socket: &std::net::TcpListener,
    options: &ServerOptions,
) -> Result<String, ServerError> {
    let address = socket.local_addr().map_err(|e| options.cannot_listen(e))?;
    Ok(address.to_string())
}

/// Why a server cannot be, or why it ended.
#[derive(Error)]
#[non_exhaustive]
pub enum ServerError {
    /// What to listen on is no address of this machine.
    #[error("cannot listen on '{address}': {source}")]
    Listen {
        /// What was given.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
    /// It would be reached from elsewhere, without protection.
    #[error(
        "'{0}' is reached from other machines, and nothing protects this server: give it --protection DIR, which `thalweg protect` makes, or listen on 127.0.0.1, or allow it with --unprotected-network in a network that you trust"
    )]
    Unprotected(SocketAddr),
    /// One of its limits, or of its timeouts, cannot be.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Its devices cannot be opened.
    #[error(transparent)]
    Devices(#[from] SessionError),
    /// Threads cannot be made.
    #[error("no threads for the server: {0}")]
    Threads(std::io::Error),
    /// The cluster does not have the task, or is none.
    #[error(transparent)]
    Cluster(#[from] SpecError),
    /// Another task is not reached.
    #[error("{0}")]
    Task(ClusterError),
    /// Tasks have gone without having done their work.
    #[error(
        "{} ended, or left, without being done, and did not come back within {} s: their own output says why",
        task_list(lost), worker_rejoin.as_secs_f64()
    )]
    Workers {
        /// Which.
        lost: Vec<TaskName>,
        /// How long they were waited for: [`Timeouts::worker_rejoin`].
        worker_rejoin: Duration,
    },
    /// The network failed.
    #[error("the server has ended: {0}")]
    Ended(String),
}

/// The first few tasks, and how many there are.
fn task_list(tasks: &[TaskName]) -> String {
    let first = tasks.iter().take(MAX_NAMED_TASKS);
    let first: Vec<String> = first.map(|(job, index)| task_label(job, *index)).collect();
    match tasks.len().saturating_sub(MAX_NAMED_TASKS) {
        0 => first.join(", "),
        more => format!("{}, and {more} more", first.join(", ")),
    }
}

/// The sentence: it is what a program prints that returns the error from `main`.
impl std::fmt::Debug for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
