//! Tests of liveness, eviction and expiry of connections.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tonic::codegen::tokio_stream::StreamExt;

use super::listener::AcceptedConnections;
use super::liveness::MonitoredConnection;
use super::table::{ConnectionLimits, ConnectionSlot, ConnectionTable};
use super::tcp_info::{AckInfo, AckSource};

const SILENCE: Duration = Duration::from_secs(2);

/// A connection whose acknowledgements a test sets.
struct TestConnection {
    bytes: DuplexStream,
    acknowledged: Arc<AtomicU64>,
    round_trip: Arc<Mutex<Duration>>,
}

impl AckSource for TestConnection {
    fn acknowledged(&self) -> Option<AckInfo> {
        Some(AckInfo {
            bytes: self.acknowledged.load(Relaxed),
            round_trip: *self.round_trip.lock().unwrap(),
        })
    }
}

impl AsyncRead for TestConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(cx, buf)
    }
}

impl AsyncWrite for TestConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(cx)
    }
}

/// Returns a connection with a buffer of 1 MiB, its other end, and its counter of acknowledged bytes.
fn line(
    slot: Option<Arc<ConnectionSlot>>,
) -> (
    MonitoredConnection<TestConnection>,
    DuplexStream,
    Arc<AtomicU64>,
) {
    let (bytes, other) = tokio::io::duplex(1 << 20);
    let acknowledged = Arc::<AtomicU64>::default();
    let line = TestConnection {
        bytes,
        acknowledged: acknowledged.clone(),
        round_trip: Arc::default(),
    };
    (
        MonitoredConnection::new(line, SILENCE, slot),
        other,
        acknowledged,
    )
}

/// Returns the time until a read of a byte fails, as it must.
async fn fails(monitored: &mut MonitoredConnection<TestConnection>) -> Duration {
    let began = Instant::now();
    let error = monitored.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains("no bytes for"), "{error}");
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_answer_times_out() {
    let (mut monitored, _other, _) = line(None);
    monitored.write_all(b"ping").await.unwrap();
    let after = fails(&mut monitored).await;
    assert!(
        after >= SILENCE && after < SILENCE + SILENCE / 4,
        "{after:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_peer_without_requests_does_not_time_out() {
    let (mut monitored, mut other, _) = line(None);
    let read = tokio::time::timeout(100 * SILENCE, monitored.read_u8()).await;
    assert!(read.is_err());
    monitored.write_all(b"ping").await.unwrap();
    other.write_all(b"p").await.unwrap();
    assert_eq!(monitored.read_u8().await.unwrap(), b'p');
    // The answer to the ping may still be in flight: the transport sends no other ping until it arrives.
    assert!(fails(&mut monitored).await >= SILENCE);
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_of_many_bytes_keep_a_connection_alive() {
    let (mut monitored, _other, acknowledged) = line(None);
    monitored.write_all(&[7; 1 << 20]).await.unwrap();
    let began = Instant::now();
    let moves = async {
        // 50 KB a second, which takes 20 s.
        while acknowledged.load(Relaxed) < 1 << 20 {
            acknowledged.fetch_add(5_000, Relaxed);
            sleep(Duration::from_millis(100)).await;
        }
        std::future::pending().await
    };
    let after = tokio::select! {
        after = fails(&mut monitored) => after,
        () = moves => unreachable!(),
    };
    assert!(began.elapsed() == after);
    // All but a few bytes, then nothing more.
    assert!(after > Duration::from_secs(20), "{after:?}");
    assert!(
        after < Duration::from_secs(21) + SILENCE + SILENCE / 4,
        "{after:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn acknowledged_pings_do_not_keep_a_stopped_peer_alive() {
    let (mut monitored, _other, acknowledged) = line(None);
    let began = Instant::now();
    let error = loop {
        // Its system acknowledges all bytes; no process reads them.
        if let Err(e) = monitored.write_all(&[7; 1000]).await {
            break e;
        }
        acknowledged.fetch_add(1000, Relaxed);
        let read = tokio::time::timeout(SILENCE / 10, monitored.read_u8()).await;
        if let Ok(read) = read {
            break read.unwrap_err();
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(
        began.elapsed() < SILENCE + SILENCE / 2,
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn long_round_trips_extend_the_timeout() {
    let (mut monitored, _other, _) = line(None);
    *monitored.inner.round_trip.lock().unwrap() = Duration::from_secs(3);
    monitored.write_all(b"ping").await.unwrap();
    let after = fails(&mut monitored).await;
    let expected = SILENCE + Duration::from_secs(6);
    assert!(
        after >= expected && after < expected + SILENCE / 4,
        "{after:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_open_calls_does_not_time_out_at_a_server() {
    let connection_table = connection_table(1, 1000 * SILENCE, 1000 * SILENCE);
    let held = connection_table
        .take(SocketAddr::from(([127, 0, 0, 1], 1)))
        .await
        .unwrap();
    let (mut monitored, mut other, _) = line(Some(held.slot.clone()));
    monitored.write_all(b"ping").await.unwrap();
    let read = tokio::time::timeout(10 * SILENCE, monitored.read_u8()).await;
    assert!(read.is_err());
    other.write_all(b"c").await.unwrap();
    assert_eq!(monitored.read_u8().await.unwrap(), b'c');
    let call = held.slot.call();
    assert!(fails(&mut monitored).await >= SILENCE - SILENCE / 8);
    drop(call);
}

fn connection_table(most: usize, arrival: Duration, idle: Duration) -> Arc<ConnectionTable> {
    let bounds = ConnectionLimits {
        most,
        arrival,
        idle,
        heartbeat: SILENCE,
    };
    ConnectionTable::new(bounds, Arc::default())
}

/// Returns the accepted connections of a server without TLS, and its table.
async fn door(
    most: usize,
    arrival: Duration,
    idle: Duration,
) -> (AcceptedConnections, Arc<ConnectionTable>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connection_table = connection_table(most, arrival, idle);
    (
        AcceptedConnections::new(listener, connection_table.clone(), SILENCE, None),
        connection_table,
        address,
    )
}

/// `true` if the peer has closed the connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut [0])).await;
    !matches!(read, Err(_) | Ok(Ok(1..)))
}

/// Serves connections: reads each until it fails.
fn serve(
    mut incoming: AcceptedConnections,
) -> tokio::sync::mpsc::UnboundedReceiver<Arc<ConnectionSlot>> {
    let (give, given) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(mut stream)) = incoming.next().await {
            let slot = tonic::transport::server::Connected::connect_info(&stream);
            give.send(slot.unwrap()).unwrap();
            tokio::spawn(async move { while stream.read_u8().await.is_ok() {} });
        }
    });
    given
}

#[tokio::test]
async fn unauthenticated_connections_are_evicted_before_idle_ones() {
    let hour = Duration::from_secs(3600);
    let (incoming, connection_table, address) = door(3, hour, hour).await;
    let mut served = serve(incoming);
    let mut streams = Vec::new();
    let mut given = Vec::new();
    for _ in 0..3 {
        streams.push(TcpStream::connect(address).await.unwrap());
        given.push(served.recv().await.unwrap());
    }
    // The first is authenticated, the second and third are not: the second is older than the third.
    given[0].authenticate();
    drop(given[0].call());
    streams.push(TcpStream::connect(address).await.unwrap());
    given.push(served.recv().await.unwrap());
    assert!(is_closed(&mut streams[1]).await);
    for at in [0, 2, 3] {
        assert!(!is_closed(&mut streams[at]).await, "{at}");
    }
    // All are authenticated: the one without a call for longest is evicted.
    for at in [3, 2] {
        given[at].authenticate();
        drop(given[at].call());
        connection_table.sweep();
    }
    let open = given[0].call();
    streams.push(TcpStream::connect(address).await.unwrap());
    given.push(served.recv().await.unwrap());
    assert!(is_closed(&mut streams[3]).await);
    assert!(!is_closed(&mut streams[0]).await);
    // All have an open call: no other connection is accepted.
    let calls = [given[2].call(), given[4].call()];
    given[4].authenticate();
    let mut late = TcpStream::connect(address).await.unwrap();
    while !is_closed(&mut late).await {}
    drop((open, calls));
    assert_eq!(connection_table.taken(), 3);
}

#[tokio::test]
async fn connections_without_a_first_call_and_idle_ones_are_closed() {
    let (short, long) = (Duration::from_millis(100), Duration::from_millis(400));
    let (incoming, connection_table, address) = door(10, short, long).await;
    let mut served = serve(incoming);
    let mut guest = TcpStream::connect(address).await.unwrap();
    served.recv().await.unwrap();
    let mut known = TcpStream::connect(address).await.unwrap();
    let slot = served.recv().await.unwrap();
    slot.authenticate();
    let call = slot.call();
    while !is_closed(&mut guest).await {}
    tokio::time::sleep(2 * long).await;
    assert!(!is_closed(&mut known).await, "a call is open");
    drop(call);
    while !is_closed(&mut known).await {}
    assert_eq!(connection_table.taken(), 0);
}

#[tokio::test]
async fn a_listener_closes_with_its_server() {
    let hour = Duration::from_secs(3600);
    let (incoming, _, address) = door(3, hour, hour).await;
    drop(incoming);
    while TcpStream::connect(address).await.is_ok() {}
}
