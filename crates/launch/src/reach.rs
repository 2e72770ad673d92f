//! Connections between the hosts of a job before it runs: a socket on each that answers a nonce, and attempts to connect.

use std::io::ErrorKind::{TimedOut, UnexpectedEof, WouldBlock};
use std::io::{Read, Result, Write};
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::protocol::Peer;

/// Time for which a socket is looked at between connections.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Address of this host that a name stands for; all addresses if it stands for none, as one that is translated on the way.
pub(crate) fn own_address(name: &str) -> IpAddr {
    let found = (name, 0).to_socket_addrs().into_iter().flatten();
    let mut own = found.map(|address| address.ip());
    own.find(|ip| TcpListener::bind((*ip, 0)).is_ok())
        .unwrap_or(IpAddr::from([0u8; 4]))
}

/// Maximum number of connections that a socket holds open.
const MAX_STREAMS: usize = 4096;

/// Address of this host from which another one is reached.
///
/// # Errors
/// There is no way to the other host.
pub(crate) fn address_toward(other: IpAddr) -> Result<IpAddr> {
    let any: IpAddr = match other.is_ipv4() {
        true => IpAddr::from([0u8; 4]),
        false => IpAddr::from([0u8; 16]),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // Nothing is sent: the system chooses the source address.
    socket.connect((other, 22))?;
    Ok(socket.local_addr()?.ip())
}

/// Socket that answers a nonce to all who connect, until this is dropped.
pub(crate) struct NonceSocket {
    port: u16,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl NonceSocket {
    /// Opens the socket.
    ///
    /// # Errors
    /// The port is not free; the system has no thread.
    pub(crate) fn open(address: &str, port: u16, nonce: &str) -> Result<NonceSocket> {
        let listener = TcpListener::bind((own_address(address), port))?;
        let port = listener.local_addr()?.port();
        listener.set_nonblocking(true)?;
        let ends = Arc::new(AtomicBool::new(false));
        let (ended, nonce) = (ends.clone(), nonce.as_bytes().to_vec());
        let thread = std::thread::Builder::new().spawn(move || {
            // The other side closes first, so that no connection holds up the port afterwards.
            let mut streams = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    // The nonce fits into the buffer of any socket. An error is a client that has left.
                    Ok((mut stream, _)) => {
                        let _ = stream.write_all(&nonce);
                        streams.truncate(MAX_STREAMS);
                        streams.push(stream);
                    }
                    Err(_) => std::thread::sleep(POLL_INTERVAL),
                }
            }
        })?;
        Ok(NonceSocket {
            port,
            ends,
            thread: Some(thread),
        })
    }

    /// Port of the socket.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for NonceSocket {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // The port is free afterwards.
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Connects to all peers at the same time. Returns, for each, why it is not reached.
pub(crate) fn connect_all(peers: &[Peer], timeout: Duration) -> Vec<Option<String>> {
    let attempts: Vec<_> = peers
        .iter()
        .map(|peer| {
            let peer = peer.clone();
            std::thread::Builder::new().spawn(move || connect(&peer, timeout).err())
        })
        .collect();
    let of_attempt = |attempt: Result<std::thread::JoinHandle<Option<String>>>| match attempt {
        Ok(thread) => thread
            .join()
            .unwrap_or_else(|_| Some("the attempt failed".to_owned())),
        Err(e) => Some(e.to_string()),
    };
    attempts.into_iter().map(of_attempt).collect()
}

/// Connects to a peer, and reads its nonce.
fn connect(peer: &Peer, timeout: Duration) -> std::result::Result<(), String> {
    let until = Instant::now() + timeout;
    let name = (&*peer.address, peer.port);
    let addresses = name.to_socket_addrs().map_err(|e| e.to_string())?;
    let mut failure = "the name has no address".to_owned();
    for address in addresses {
        let left = until.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        let read = || -> Result<Vec<u8>> {
            let mut stream = TcpStream::connect_timeout(&address, left)?;
            stream.set_read_timeout(Some(left))?;
            let mut read = vec![0; peer.nonce.len()];
            stream.read_exact(&mut read)?;
            Ok(read)
        };
        failure = match read() {
            Ok(nonce) if nonce == peer.nonce.as_bytes() => return Ok(()),
            Ok(_) => format!("another program answers at {address}"),
            Err(e) if e.kind() == UnexpectedEof => {
                format!("another program answers at {address}")
            }
            Err(e) if matches!(e.kind(), WouldBlock | TimedOut) => {
                format!("{address}: there is no answer within {timeout:?}")
            }
            Err(e) => format!("{address}: {e}"),
        };
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_reached_by_its_nonce_only() {
        let socket = NonceSocket::open("127.0.0.1", 0, "the nonce").unwrap();
        let peer = |nonce: &str, address: &str| Peer {
            address: address.to_owned(),
            port: socket.port(),
            nonce: nonce.to_owned(),
        };
        let peers = [
            peer("the nonce", "127.0.0.1"),
            peer("the other", "127.0.0.1"),
            peer("the nonce", "no.such.host.invalid"),
        ];
        let errors = connect_all(&peers, Duration::from_secs(10));
        assert_eq!(errors[0], None);
        let error = errors[1].as_ref().unwrap();
        assert!(error.starts_with("another program answers"), "{error}");
        assert!(errors[2].is_some());
        let port = socket.port();
        drop(socket);
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
        assert_eq!(own_address("192.0.2.1"), IpAddr::from([0u8; 4]));
    }
}
