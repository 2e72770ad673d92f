//! Connections as they fail, live on, and give way.

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

use super::listener::Incoming;
use super::liveness::Watched;
use super::table::{Bounds, Seat, Seats};
use super::tcp_info::{Acknowledged, Evidence};

const SILENCE: Duration = Duration::from_secs(2);

/// A connection whose acknowledgements a test makes.
struct Line {
    bytes: DuplexStream,
    acknowledged: Arc<AtomicU64>,
    round_trip: Arc<Mutex<Duration>>,
}

impl Evidence for Line {
    fn acknowledged(&self) -> Option<Acknowledged> {
        Some(Acknowledged {
            bytes: self.acknowledged.load(Relaxed),
            round_trip: *self.round_trip.lock().unwrap(),
        })
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(cx, buf)
    }
}

impl AsyncWrite for Line {
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

/// A line of 1 MiB, its other end, and how many bytes were acknowledged.
fn line(seat: Option<Arc<Seat>>) -> (Watched<Line>, DuplexStream, Arc<AtomicU64>) {
    let (bytes, other) = tokio::io::duplex(1 << 20);
    let acknowledged = Arc::<AtomicU64>::default();
    let line = Line {
        bytes,
        acknowledged: acknowledged.clone(),
        round_trip: Arc::default(),
    };
    (Watched::new(line, SILENCE, seat), other, acknowledged)
}

/// After how long a read of a byte fails; it must.
async fn fails(watched: &mut Watched<Line>) -> Duration {
    let began = Instant::now();
    let error = watched.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains("no bytes for"), "{error}");
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_is_given_up_after_the_silence() {
    let (mut watched, _other, _) = line(None);
    watched.write_all(b"ping").await.unwrap();
    let after = fails(&mut watched).await;
    assert!(
        after >= SILENCE && after < SILENCE + SILENCE / 4,
        "{after:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_was_told_nothing_may_be_silent_and_who_was_told_something_may_not() {
    let (mut watched, mut other, _) = line(None);
    let read = tokio::time::timeout(100 * SILENCE, watched.read_u8()).await;
    assert!(read.is_err());
    watched.write_all(b"ping").await.unwrap();
    other.write_all(b"p").await.unwrap();
    assert_eq!(watched.read_u8().await.unwrap(), b'p');
    // The answer to the ping may be on its way still: the transport sends no other one until it is there.
    assert!(fails(&mut watched).await >= SILENCE);
}

#[tokio::test(start_paused = true)]
async fn acknowledged_bytes_are_a_sign_of_life_while_many_are_on_their_way() {
    let (mut watched, _other, acknowledged) = line(None);
    watched.write_all(&[7; 1 << 20]).await.unwrap();
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
        after = fails(&mut watched) => after,
        () = moves => unreachable!(),
    };
    assert!(began.elapsed() == after);
    // All but a few bytes, then the silence.
    assert!(after > Duration::from_secs(20), "{after:?}");
    assert!(
        after < Duration::from_secs(21) + SILENCE + SILENCE / 4,
        "{after:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn acknowledged_pings_do_not_keep_a_process_alive_that_has_stopped() {
    let (mut watched, _other, acknowledged) = line(None);
    let began = Instant::now();
    let error = loop {
        // Its system acknowledges whatever comes; nobody reads it.
        if let Err(e) = watched.write_all(&[7; 1000]).await {
            break e;
        }
        acknowledged.fetch_add(1000, Relaxed);
        let read = tokio::time::timeout(SILENCE / 10, watched.read_u8()).await;
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
async fn a_line_of_long_round_trips_is_given_more_time() {
    let (mut watched, _other, _) = line(None);
    *watched.inner.round_trip.lock().unwrap() = Duration::from_secs(3);
    watched.write_all(b"ping").await.unwrap();
    let after = fails(&mut watched).await;
    let expected = SILENCE + Duration::from_secs(6);
    assert!(
        after >= expected && after < expected + SILENCE / 4,
        "{after:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_expects_nothing_of_who_has_no_call_open() {
    let seats = seats(1, 1000 * SILENCE, 1000 * SILENCE);
    let held = seats
        .take(SocketAddr::from(([127, 0, 0, 1], 1)))
        .await
        .unwrap();
    let (mut watched, mut other, _) = line(Some(held.seat.clone()));
    watched.write_all(b"ping").await.unwrap();
    let read = tokio::time::timeout(10 * SILENCE, watched.read_u8()).await;
    assert!(read.is_err());
    other.write_all(b"c").await.unwrap();
    assert_eq!(watched.read_u8().await.unwrap(), b'c');
    let call = held.seat.call();
    assert!(fails(&mut watched).await >= SILENCE - SILENCE / 8);
    drop(call);
}

fn seats(most: usize, arrival: Duration, idle: Duration) -> Arc<Seats> {
    let bounds = Bounds {
        most,
        arrival,
        idle,
        heartbeat: SILENCE,
    };
    Seats::new(bounds, Arc::default())
}

/// A server's connections, without TLS; and how many there are.
async fn door(
    most: usize,
    arrival: Duration,
    idle: Duration,
) -> (Incoming, Arc<Seats>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seats = seats(most, arrival, idle);
    (
        Incoming::new(listener, seats.clone(), SILENCE, None),
        seats,
        address,
    )
}

/// Whether the other side has closed it.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut [0])).await;
    !matches!(read, Err(_) | Ok(Ok(1..)))
}

/// Serves connections: each is read until it fails.
fn serve(mut incoming: Incoming) -> tokio::sync::mpsc::UnboundedReceiver<Arc<Seat>> {
    let (give, given) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(mut stream)) = incoming.next().await {
            let seat = tonic::transport::server::Connected::connect_info(&stream);
            give.send(seat.unwrap()).unwrap();
            tokio::spawn(async move { while stream.read_u8().await.is_ok() {} });
        }
    });
    given
}

#[tokio::test]
async fn a_guest_gives_way_to_who_comes_next_and_then_who_was_idle_longest() {
    let hour = Duration::from_secs(3600);
    let (incoming, seats, address) = door(3, hour, hour).await;
    let mut served = serve(incoming);
    let mut streams = Vec::new();
    let mut given = Vec::new();
    for _ in 0..3 {
        streams.push(TcpStream::connect(address).await.unwrap());
        given.push(served.recv().await.unwrap());
    }
    // The first is known, the second and third are guests: the second came before the third.
    given[0].admit();
    drop(given[0].call());
    streams.push(TcpStream::connect(address).await.unwrap());
    given.push(served.recv().await.unwrap());
    assert!(is_closed(&mut streams[1]).await);
    for at in [0, 2, 3] {
        assert!(!is_closed(&mut streams[at]).await, "{at}");
    }
    // Nobody is a guest any more: the one goes whose last call is longest ago.
    for at in [3, 2] {
        given[at].admit();
        drop(given[at].call());
        seats.sweep();
    }
    let open = given[0].call();
    streams.push(TcpStream::connect(address).await.unwrap());
    given.push(served.recv().await.unwrap());
    assert!(is_closed(&mut streams[3]).await);
    assert!(!is_closed(&mut streams[0]).await);
    // All have a call open: nobody else comes in.
    let calls = [given[2].call(), given[4].call()];
    given[4].admit();
    let mut late = TcpStream::connect(address).await.unwrap();
    while !is_closed(&mut late).await {}
    drop((open, calls));
    assert_eq!(seats.taken(), 3);
}

#[tokio::test]
async fn who_makes_no_call_in_time_is_closed_and_so_is_who_is_idle_for_too_long() {
    let (short, long) = (Duration::from_millis(100), Duration::from_millis(400));
    let (incoming, seats, address) = door(10, short, long).await;
    let mut served = serve(incoming);
    let mut guest = TcpStream::connect(address).await.unwrap();
    served.recv().await.unwrap();
    let mut known = TcpStream::connect(address).await.unwrap();
    let seat = served.recv().await.unwrap();
    seat.admit();
    let call = seat.call();
    while !is_closed(&mut guest).await {}
    tokio::time::sleep(2 * long).await;
    assert!(!is_closed(&mut known).await, "a call is open");
    drop(call);
    while !is_closed(&mut known).await {}
    assert_eq!(seats.taken(), 0);
}

#[tokio::test]
async fn a_server_that_ends_closes_its_door() {
    let hour = Duration::from_secs(3600);
    let (incoming, _, address) = door(3, hour, hour).await;
    drop(incoming);
    while TcpStream::connect(address).await.is_ok() {}
}
