//! Accepts the connections of a server.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::liveness::MonitoredConnection;
use super::stream::ConnectionStream;
use super::table::{ConnectionTable, OccupiedSlot};
use crate::limits::settings::limit_name;
use crate::transport::protection::Protection;

/// Pause after the system has had no descriptor or memory for a connection.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(50);
/// Interval between two sweeps of expired connections.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);
/// Capacity of the queue of accepted connections.
const ACCEPT_QUEUE: usize = 16;

/// Stream of the accepted connections of a server, each ready to be served. A drop closes the listener.
pub(crate) struct AcceptedConnections(mpsc::Receiver<io::Result<ConnectionStream>>);

/// Accept loop of a listener.
struct Acceptor {
    listener: TcpListener,
    connection_table: Arc<ConnectionTable>,
    heartbeat: Duration,
    protection: Option<Protection>,
    ready: mpsc::Sender<io::Result<ConnectionStream>>,
}

impl AcceptedConnections {
    /// Starts to accept on this socket, on the current runtime. `heartbeat` is the time without a sign of life of a
    /// connection.
    pub(crate) fn new(
        listener: TcpListener,
        connection_table: Arc<ConnectionTable>,
        heartbeat: Duration,
        protection: Option<Protection>,
    ) -> AcceptedConnections {
        let (ready, given) = mpsc::channel(ACCEPT_QUEUE);
        let door = Acceptor {
            listener,
            connection_table,
            heartbeat,
            protection,
            ready,
        };
        tokio::spawn(door.run());
        AcceptedConnections(given)
    }
}

impl tonic::codegen::tokio_stream::Stream for AcceptedConnections {
    type Item = io::Result<ConnectionStream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

impl Acceptor {
    /// Accepts until the stream of connections is dropped.
    async fn run(self) {
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => self.accepted(accepted).await,
                _ = sweep.tick() => self.connection_table.sweep(),
                () = self.ready.closed() => return,
            }
        }
    }

    async fn accepted(&self, stream: io::Result<(TcpStream, SocketAddr)>) {
        match stream {
            Ok((stream, from)) => {
                // If no slot is free, the connection is closed here.
                match self.connection_table.take(from).await {
                    Some(held) => self.begin(stream, held),
                    None => self.connection_table.refusals().count_limit(
                        const { limit_name("connections") },
                        &format_args!(
                            "a connection from {from} is refused: every other one has a call open (the server's --connections raises the limit)"
                        ),
                    ),
                }
            }
            Err(e) if is_of_one(&e) => {}
            Err(e) => {
                self.connection_table
                    .refusals()
                    .count_caller("system", None, &e);
                if is_of_the_system(&e) {
                    self.connection_table.make_room();
                }
                // An immediate retry would fail again, in a busy loop.
                tokio::time::sleep(ACCEPT_RETRY_AFTER).await;
            }
        }
    }

    /// Makes a connection ready, concurrently with others.
    fn begin(&self, stream: TcpStream, held: OccupiedSlot) {
        // Without it the connection is slower, which is no error.
        let _ = stream.set_nodelay(true);
        let (ready, protection) = (self.ready.clone(), self.protection.clone());
        let (connection_table, from) = (self.connection_table.clone(), held.slot.address);
        let monitored = MonitoredConnection::new(stream, self.heartbeat, Some(held.slot.clone()));
        tokio::spawn(async move {
            let stream = match protection {
                None => ConnectionStream::new(monitored, Some(held)),
                Some(protection) => {
                    let keys = protection.fresh().await;
                    let accepted = TlsAcceptor::from(keys.server.clone()).accept(monitored);
                    // TLS itself reports a missing certificate to the client.
                    match accepted.await {
                        Ok(stream) => ConnectionStream::new(stream, Some(held)),
                        Err(e) => {
                            let refusals = connection_table.refusals();
                            refusals.count_caller("certificate", Some(from), &e);
                            return;
                        }
                    }
                }
            };
            // An error means that the server ends.
            let _ = ready.send(Ok(stream)).await;
        });
    }
}

/// `true` if the system lacks descriptors or memory for a connection.
fn is_of_the_system(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    let lacks = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    #[cfg(target_os = "linux")]
    return error.raw_os_error().is_some_and(|e| lacks.contains(&e));
    #[cfg(not(target_os = "linux"))]
    return !is_of_one(error);
}

/// `true` if an error concerns one connection only: the next one may be accepted.
fn is_of_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
    )
}
