//! Simulated, deterministic connections for tonic.

use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::transport::{Channel, Endpoint};
use turmoil::net::{TcpListener, TcpStream};

use super::line::{Busy, SlowLine};
use crate::transport::connections::dialer::Dialer;
use crate::transport::connections::liveness::MonitoredConnection;
use crate::transport::connections::stream::ConnectionStream;
use crate::transport::connections::table::{ConnectionSlot, ConnectionTable};
use crate::transport::connections::tcp_info::{AckInfo, AckSource};
use crate::transport::network::Network;

/// Port on which every host listens.
pub(super) const PORT: u16 = 2222;

/// Connections of a host, in the order of their creation.
///
/// A runtime that ends drops its tasks in an order that depends on the number of tasks of the whole process. The
/// latency of each close is drawn when it is sent: so a crashing host closes its connections in their own order, as
/// soon as the first of them is dropped.
#[derive(Default)]
pub(super) struct Connections {
    dies: AtomicBool,
    open: Mutex<Vec<Weak<Held>>>,
    /// Line of the bytes that the host sends.
    line: Option<SlowLine>,
}

/// A connection, while it is open.
pub(super) type Held = Mutex<Option<TcpStream>>;

impl Connections {
    /// Returns the connections of a host with this line.
    pub(super) fn over(line: Option<SlowLine>) -> Connections {
        Connections {
            line,
            ..Connections::default()
        }
    }

    /// Notes that the host crashes: later drops are part of the crash.
    pub(super) fn die(&self) {
        self.dies.store(true, Ordering::Relaxed);
    }

    fn add(
        self: &Arc<Self>,
        stream: TcpStream,
        heartbeat: Duration,
        slot: Option<Arc<ConnectionSlot>>,
    ) -> MonitoredConnection<Connection> {
        let held = Arc::new(Mutex::new(Some(stream)));
        let mut open = self.open.lock().unwrap();
        open.retain(|h| h.strong_count() > 0);
        open.push(Arc::downgrade(&held));
        let connection = Connection {
            line: self.line.map(|line| Busy::start(line, &held)),
            held,
            of: self.clone(),
        };
        MonitoredConnection::new(connection, heartbeat, slot)
    }
}

/// Connections to other hosts, made in the simulation.
pub(super) struct SimulatedNetwork(pub(super) Arc<Connections>);

impl Network for SimulatedNetwork {
    fn connect(&self, endpoint: &Endpoint, dial: &Dialer) -> Channel {
        endpoint.connect_with_connector_lazy(Connector {
            connections: self.0.clone(),
            heartbeat: dial.heartbeat,
        })
    }
}

/// A simulated connection.
pub(super) struct Connection {
    held: Arc<Held>,
    of: Arc<Connections>,
    line: Option<Arc<Busy>>,
}

impl Connection {
    fn polled<T>(
        &self,
        poll: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *self.held.lock().unwrap() {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.end();
        }
        if self.of.dies.load(Ordering::Relaxed) {
            for held in &*self.of.open.lock().unwrap() {
                drop(held.upgrade().and_then(|h| h.lock().unwrap().take()));
            }
        }
    }
}

impl AckSource for Connection {
    fn acknowledged(&self) -> Option<AckInfo> {
        self.line.as_ref().map(|line| line.acknowledged())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.polled(|s| s.poll_read(cx, buf))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &self.line {
            Some(line) => line.poll_write(cx, buf),
            None => self.polled(|s| s.poll_write(cx, buf)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.polled(|s| s.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.polled(|s| s.poll_shutdown(cx))
    }
}

/// Connects to hosts by their names.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) connections: Arc<Connections>,
    /// Time without a sign of life.
    pub(super) heartbeat: Duration,
}

impl Service<http::Uri> for Connector {
    type Response = TokioIo<MonitoredConnection<Connection>>;
    type Error = io::Error;
    type Future = BoxFuture<Self::Response, io::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let host = uri.host().unwrap_or_default().to_owned();
        let (connections, heartbeat) = (self.connections.clone(), self.heartbeat);
        Box::pin(async move {
            let connects = TcpStream::connect((host, PORT));
            let stream = tokio::time::timeout(heartbeat, connects).await??;
            Ok(TokioIo::new(connections.add(stream, heartbeat, None)))
        })
    }
}

/// Interval of the sweeps of expired connections.
const SWEEP: Duration = Duration::from_millis(250);

/// Accepts the connections of the current host.
pub(super) async fn incoming(
    connections: Arc<Connections>,
    connection_table: Arc<ConnectionTable>,
    heartbeat: Duration,
) -> io::Result<ReceiverStream<io::Result<ConnectionStream>>> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
    let (give, given) = tokio::sync::mpsc::channel(16);
    let swept = connection_table.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(SWEEP).await;
            swept.sweep();
        }
    });
    tokio::spawn(async move {
        while let Ok((stream, from)) = listener.accept().await {
            let Some(held) = connection_table.take(from).await else {
                continue;
            };
            let monitored = connections.add(stream, heartbeat, Some(held.slot.clone()));
            let accepted = give
                .send(Ok(ConnectionStream::new(monitored, Some(held))))
                .await;
            if accepted.is_err() {
                return;
            }
        }
    });
    Ok(ReceiverStream::new(given))
}
