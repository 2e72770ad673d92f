//! Options and errors of a server.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_device::Files;
use thalweg_launch_env::variables;
use thalweg_session::{SessionError, SessionOptions};
use thiserror::Error;

use crate::cluster::spec::{SpecError, TaskName, task_label};
use crate::error::ClusterError;
use crate::limits::server_limits::{Limits, memory_account};
use crate::limits::settings::SettingError;
use crate::limits::timeouts::Timeouts;
use crate::server::client_prints::ClientPrints;
use crate::transport::peers::MAX_POOLED_BYTES;
use crate::transport::protection::{Protection, ProtectionError};

/// Maximum number of tasks that an error names.
const MAX_NAMED_TASKS: usize = 8;

/// Options of a server.
///
/// Each method sets one option and returns the options.
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
pub struct ServerOptions {
    pub(super) listen: String,
    pub(super) session: SessionOptions,
    pub(super) limits: Limits,
    pub(super) timeouts: Timeouts,
    pub(super) shared_memory: bool,
    pub(super) protection: Option<Protection>,
    pub(super) unprotected_network: bool,
    pub(super) metrics: Option<String>,
}

impl ServerOptions {
    /// Returns the defaults, for this host and port to listen on; port 0 takes a free one.
    pub fn listening(listen: impl Into<String>) -> ServerOptions {
        ServerOptions {
            listen: listen.into(),
            session: SessionOptions::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            shared_memory: true,
            protection: None,
            unprotected_network: false,
            metrics: None,
        }
    }

    /// Sets the devices and the options of sessions. A task of a cluster keeps its own name.
    pub fn session(self, session: SessionOptions) -> ServerOptions {
        ServerOptions { session, ..self }
    }

    /// Sets the limits on requests of clients.
    pub fn limits(self, limits: Limits) -> ServerOptions {
        ServerOptions { limits, ..self }
    }

    /// Sets the timeouts of calls to other tasks.
    pub fn timeouts(self, timeouts: Timeouts) -> ServerOptions {
        ServerOptions { timeouts, ..self }
    }

    /// Sets if large values go to co-located tasks (tasks on this machine) through shared memory (`true`), which is
    /// several times as fast as a connection. It needs Linux, the same user and the same network namespace; otherwise
    /// values go over the connection.
    pub fn shared_memory(self, shared_memory: bool) -> ServerOptions {
        ServerOptions {
            shared_memory,
            ..self
        }
    }

    /// Sets the certificates and token of the server. TensorFlow's own client supports neither: it reaches only a server
    /// without protection.
    pub fn protection(self, protection: impl Into<Option<Protection>>) -> ServerOptions {
        ServerOptions {
            protection: protection.into(),
            ..self
        }
    }

    /// Sets the address at which the server serves its metrics: see [`Server::serve_metrics`](crate::Server::serve_metrics).
    /// The default is none.
    pub fn metrics(self, address: impl Into<Option<String>>) -> ServerOptions {
        ServerOptions {
            metrics: address.into(),
            ..self
        }
    }

    /// Sets what a launcher tells its tasks by variables. `THALWEG_PROTECTION` names a folder of keys, unless a flag of the
    /// program does; `THALWEG_UNPROTECTED_NETWORK=1` allows a server without keys. `THALWEG_METRICS` is the address for
    /// metrics.
    ///
    /// # Errors
    /// The keys cannot be read.
    ///
    /// ```
    /// use thalweg_dist::ServerOptions;
    ///
    /// let missing = ServerOptions::listening("").launched(Some("no/such/folder".as_ref()));
    /// assert!(missing.unwrap_err().to_string().contains("no/such/folder"));
    /// ```
    pub fn launched(self, keys: Option<&Path>) -> Result<ServerOptions, ProtectionError> {
        self.launched_with(keys, |name| std::env::var_os(name))
    }

    /// As [`ServerOptions::launched`], with the variables that `get` looks up.
    fn launched_with(
        mut self,
        keys: Option<&Path>,
        get: impl Fn(&str) -> Option<OsString>,
    ) -> Result<ServerOptions, ProtectionError> {
        let metrics = get(variables::METRICS).and_then(|text| text.into_string().ok());
        self.metrics = metrics.or(self.metrics);
        let told = get(variables::PROTECTION).map(PathBuf::from);
        if let Some(folder) = keys.or(told.as_deref()) {
            return Ok(self.protection(Protection::from_dir(folder)?));
        }
        let trusted = get(variables::UNPROTECTED_NETWORK).is_some_and(|value| value == "1");
        let unprotected = self.unprotected_network || trusted;
        Ok(self.unprotected_network(unprotected))
    }

    /// Sets if the server may listen on other addresses than loopback without protection (`false`): every host that
    /// reaches it may then run graphs on it, and read and change their results.
    pub fn unprotected_network(self, unprotected_network: bool) -> ServerOptions {
        ServerOptions {
            unprotected_network,
            ..self
        }
    }

    /// Sets the files that graphs of clients and of other tasks may read and write. The default is none.
    pub fn files(mut self, files: Files) -> ServerOptions {
        self.session = self.session.files(files);
        self
    }

    /// Returns the time that steps may still run when the server drains.
    pub fn drain(&self) -> Duration {
        self.limits.drain
    }

    /// Sets the name of a task of a cluster.
    pub(crate) fn of_task(mut self, job: &str, index: u32) -> ServerOptions {
        self.session = self.session.task(job, index);
        if self.shared_memory {
            self.session = self.session.shared_memory(MAX_POOLED_BYTES);
        }
        self
    }

    /// Returns the session's options, with the server's memory account. The engine leaves an eighth of it to calls, so
    /// that clients can close sessions and clear variables.
    pub(crate) fn bounded(&self) -> SessionOptions {
        let whole = memory_account(self.limits.memory);
        let most = whole.limit().unwrap_or(usize::MAX);
        let session = self.session.clone().memory_account(whole);
        let prints = ClientPrints::default();
        let session = session.printing(move |line| prints.print(line));
        session.default_memory_limit(most - most / 8)
    }

    pub(crate) fn cannot_listen(&self, source: std::io::Error) -> ServerError {
        ServerError::Listen {
            address: self.listen.clone(),
            source,
        }
    }
}

/// Binds the address of the options.
pub(crate) fn bind(options: &ServerOptions) -> Result<std::net::TcpListener, ServerError> {
    let failed = |e| options.cannot_listen(e);
    let address = resolve(&options.listen).map_err(failed)?;
    let open = options.protection.is_none() && !options.unprotected_network;
    if open && !address.ip().is_loopback() {
        return Err(ServerError::Unprotected(address));
    }
    listen(address).map_err(failed)
}

/// Resolves a text to its first address.
pub(crate) fn resolve(text: &str) -> std::io::Result<SocketAddr> {
    let none = || std::io::Error::other("it names no address");
    text.to_socket_addrs()?.next().ok_or_else(none)
}

/// Listens on an address, for the network's threads.
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = std::net::TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns the address of a socket.
pub(crate) fn address_of(
    socket: &std::net::TcpListener,
    options: &ServerOptions,
) -> Result<String, ServerError> {
    let address = socket.local_addr().map_err(|e| options.cannot_listen(e))?;
    Ok(address.to_string())
}

/// Error of the start or of the end of a server.
#[derive(Error)]
#[non_exhaustive]
pub enum ServerError {
    /// It cannot listen on the address.
    #[error("cannot listen on '{address}': {source}")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        source: std::io::Error,
    },
    /// It would be reachable from other machines, without protection.
    #[error(
        "'{0}' is reached from other machines, and nothing protects this server: give it --protection DIR, which `thalweg protect` makes, or listen on 127.0.0.1, or allow it with --unprotected-network in a network that you trust"
    )]
    Unprotected(SocketAddr),
    /// A limit or a timeout is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Its devices cannot be opened.
    #[error(transparent)]
    Devices(#[from] SessionError),
    /// Threads cannot be started.
    #[error("no threads for the server: {0}")]
    Threads(std::io::Error),
    /// The cluster does not have the task, or is invalid.
    #[error(transparent)]
    Cluster(#[from] SpecError),
    /// Another task is not reached.
    #[error("{0}")]
    Task(ClusterError),
    /// Workers have disconnected before they finished their work.
    #[error(
        "{} ended, or left, without being done, and did not come back within {} s: their own output says why",
        task_list(lost), worker_rejoin.as_secs_f64()
    )]
    Workers {
        /// The workers.
        lost: Vec<TaskName>,
        /// Time for which they were waited for: [`Timeouts::worker_rejoin`].
        worker_rejoin: Duration,
    },
    /// The network failed.
    #[error("the server has ended: {0}")]
    Ended(String),
}

/// Formats the first tasks, and the number of the others.
fn task_list(tasks: &[TaskName]) -> String {
    let first = tasks.iter().take(MAX_NAMED_TASKS);
    let first: Vec<String> = first.map(|(job, index)| task_label(job, *index)).collect();
    match tasks.len().saturating_sub(MAX_NAMED_TASKS) {
        0 => first.join(", "),
        more => format!("{}, and {more} more", first.join(", ")),
    }
}

/// The message: a program that returns the error from `main` prints it.
impl std::fmt::Debug for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_tells_of_keys_or_of_a_trusted_network() {
        let launched = |variable: &str, value: &str, flag: Option<&str>| {
            let get = |name: &str| (name == variable).then(|| OsString::from(value));
            ServerOptions::listening("").launched_with(flag.map(Path::new), get)
        };
        let trusts = |value| {
            let options = launched(variables::UNPROTECTED_NETWORK, value, None);
            options.unwrap().unprotected_network
        };
        assert!(trusts("1") && !trusts("0") && !trusts(""));
        let folder = |flag| {
            let options = launched(variables::PROTECTION, "of_launcher", flag);
            options.unwrap_err().to_string()
        };
        assert!(folder(None).contains("of_launcher"), "{}", folder(None));
        let own = folder(Some("of_flag"));
        assert!(own.contains("of_flag"), "{own}");
        let told = launched(variables::METRICS, "10.0.0.1:9100", None).unwrap();
        assert_eq!(told.metrics.as_deref(), Some("10.0.0.1:9100"));
    }
}
