//! Connections as a server accepts them.

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
use crate::limit_names::CONNECTIONS;
use crate::transport::protection::Protection;

/// How long nobody is accepted after the system has had no descriptor or memory for a connection.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(50);
/// How often connections are ended whose time is over.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);
/// Connections that are ready and wait to be served.
const ACCEPT_QUEUE: usize = 16;

/// The connections of a server, each once it can be served. They end with this.
pub(crate) struct AcceptedConnections(mpsc::Receiver<io::Result<ConnectionStream>>);

/// What accepts them.
struct Acceptor {
    listener: TcpListener,
    connection_table: Arc<ConnectionTable>,
    heartbeat: Duration,
    protection: Option<Protection>,
    ready: mpsc::Sender<io::Result<ConnectionStream>>,
}

impl AcceptedConnections {
    /// Accepts on this socket, with tasks of the runtime that calls this. A connection may be silent for so long.
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
    /// Accepts until nobody takes connections any more.
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
                // Where no seat is free, the connection is closed here.
                match self.connection_table.take(from).await {
                    Some(held) => self.begin(stream, held),
                    None => self.connection_table.refusals().limit(
                        CONNECTIONS,
                        &format_args!(
                            "a connection from {from} is refused: every other one has a call open (the server's --connections raises the limit)"
                        ),
                    ),
                }
            }
            Err(e) if is_of_one(&e) => {}
            Err(e) => {
                self.connection_table.refusals().caller("system", None, &e);
                if is_of_the_system(&e) {
                    self.connection_table.make_room();
                }
                // It would fail again at once, and turn in a circle.
                tokio::time::sleep(ACCEPT_RETRY_AFTER).await;
            }
        }
    }

    /// Makes a connection ready, beside the others.
    fn begin(&self, stream: TcpStream, held: OccupiedSlot) {
        // One that is slow all the same is no error.
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
                    // Who does not show a certificate is told so by TLS.
                    match accepted.await {
                        Ok(stream) => ConnectionStream::new(stream, Some(held)),
                        Err(e) => {
                            let refusals = connection_table.refusals();
                            refusals.caller("certificate", Some(from), &e);
                            return;
                        }
                    }
                }
            };
            // An error is a server that ends.
            let _ = ready.send(Ok(stream)).await;
        });
    }
}

/// Whether the system lacks what a connection takes: descriptors or memory.
fn is_of_the_system(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    let lacks = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    #[cfg(target_os = "linux")]
    return error.raw_os_error().is_some_and(|e| lacks.contains(&e));
    #[cfg(not(target_os = "linux"))]
    return !is_of_one(error);
}

/// Whether an error is of one connection alone: the next one may well be accepted.
fn is_of_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
    )
}
