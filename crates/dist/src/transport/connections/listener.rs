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

use super::liveness::Watched;
use super::stream::Stream;
use super::table::{Held, Seats};
use crate::limit_names::CONNECTIONS;
use crate::transport::protection::Protection;

/// How long nobody is accepted after the system has had no descriptor or memory for a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// How often connections are ended whose time is over.
const SWEEP: Duration = Duration::from_millis(250);
/// Connections that are ready and wait to be served.
const WAITING: usize = 16;

/// The connections of a server, each once it can be served. They end with this.
pub(crate) struct Incoming(mpsc::Receiver<io::Result<Stream>>);

/// What accepts them.
struct Door {
    listener: TcpListener,
    seats: Arc<Seats>,
    heartbeat: Duration,
    protection: Option<Protection>,
    ready: mpsc::Sender<io::Result<Stream>>,
}

impl Incoming {
    /// Accepts on this socket, with tasks of the runtime that calls this. A connection may be silent for so long.
    pub(crate) fn new(
        listener: TcpListener,
        seats: Arc<Seats>,
        heartbeat: Duration,
        protection: Option<Protection>,
    ) -> Incoming {
        let (ready, given) = mpsc::channel(WAITING);
        let door = Door {
            listener,
            seats,
            heartbeat,
            protection,
            ready,
        };
        tokio::spawn(door.run());
        Incoming(given)
    }
}

impl tonic::codegen::tokio_stream::Stream for Incoming {
    type Item = io::Result<Stream>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

impl Door {
    /// Accepts until nobody takes connections any more.
    async fn run(self) {
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => self.accepted(accepted).await,
                _ = sweep.tick() => self.seats.sweep(),
                () = self.ready.closed() => return,
            }
        }
    }

    async fn accepted(&self, stream: io::Result<(TcpStream, SocketAddr)>) {
        match stream {
            Ok((stream, from)) => {
                // Where no seat is free, the connection is closed here.
                match self.seats.take(from).await {
                    Some(held) => self.begin(stream, held),
                    None => self.seats.refusals().limit(
                        CONNECTIONS,
                        &format_args!(
                            "a connection from {from} is refused: every other one has a call open (the server's --connections raises the limit)"
                        ),
                    ),
                }
            }
            Err(e) if is_of_one(&e) => {}
            Err(e) => {
                self.seats.refusals().caller("system", None, &e);
                if is_of_the_system(&e) {
                    self.seats.make_room();
                }
                // It would fail again at once, and turn in a circle.
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Makes a connection ready, beside the others.
    fn begin(&self, stream: TcpStream, held: Held) {
        // One that is slow all the same is no error.
        let _ = stream.set_nodelay(true);
        let (ready, protection) = (self.ready.clone(), self.protection.clone());
        let (seats, from) = (self.seats.clone(), held.seat.address);
        let watched = Watched::new(stream, self.heartbeat, Some(held.seat.clone()));
        tokio::spawn(async move {
            let stream = match protection {
                None => Stream::new(watched, Some(held)),
                Some(protection) => {
                    let keys = protection.fresh().await;
                    let accepted = TlsAcceptor::from(keys.server.clone()).accept(watched);
                    // Who does not show a certificate is told so by TLS.
                    match accepted.await {
                        Ok(stream) => Stream::new(stream, Some(held)),
                        Err(e) => {
                            let refusals = seats.refusals();
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
