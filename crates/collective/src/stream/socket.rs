//! Stream: a connection over TCP, plain or over TLS. Only the TLS handshake blocks, and every wait has a timeout.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

#[cfg(feature = "tls")]
use super::tls;
use crate::secret::Secret;

/// Connection, for use by several threads.
pub(crate) struct Stream {
    socket: TcpStream,
    #[cfg(feature = "tls")]
    tls: Option<tls::TlsSession>,
}

/// Readiness that a wait asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    ToRead,
    ToWrite,
}

impl Stream {
    /// Wraps a connection to this address.
    ///
    /// # Errors
    /// Errors of the system; the other end has no certificate of the cluster for the address.
    pub(crate) fn dialed(
        socket: TcpStream,
        address: SocketAddr,
        secret: &Secret,
    ) -> io::Result<Stream> {
        Stream::new(socket, Some(address.ip()), secret)
    }

    /// Wraps an accepted connection.
    ///
    /// # Errors
    /// Errors of the system; the other end has no certificate of the cluster.
    pub(crate) fn accepted(socket: TcpStream, secret: &Secret) -> io::Result<Stream> {
        Stream::new(socket, None, secret)
    }

    fn new(socket: TcpStream, dialed: Option<IpAddr>, secret: &Secret) -> io::Result<Stream> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        #[cfg(feature = "tls")]
        {
            let tls = match &secret.tls {
                Some(of) => Some(tls::TlsSession::begin(&socket, dialed, of)?),
                None => None,
            };
            Ok(Stream { socket, tls })
        }
        #[cfg(not(feature = "tls"))]
        {
            let _ = (dialed, secret);
            Ok(Stream { socket })
        }
    }

    /// Address of this end.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Reads the bytes that are there.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there are none; errors of the system.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.read(&self.socket, into);
        }
        (&self.socket).read(into)
    }

    /// Writes as much of two parts as the connection takes.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it takes nothing; errors of the system.
    pub(crate) fn write(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let parts = [IoSlice::new(first), IoSlice::new(second)];
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.write(&self.socket, &parts);
        }
        (&self.socket).write_vectored(&parts)
    }

    /// Passes buffered bytes on to the system. Returns `true` if none are left.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn flush(&self) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.flush(&self.socket);
        }
        Ok(true)
    }

    /// Reads as [`Stream::read`] does, after a wait of at most `most`.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub(crate) fn read_within(&self, into: &mut [u8], most: Duration) -> io::Result<usize> {
        let until = Instant::now() + most;
        loop {
            match self.read(into) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(e);
                    }
                    wait(&[(self, Ready::ToRead)], left);
                }
                done => return done,
            }
        }
    }

    /// Fills this memory within a time.
    ///
    /// # Errors
    /// Errors of the system; the stream ends, or the time is over.
    pub(crate) fn read_exact_within(&self, mut into: &mut [u8], most: Duration) -> io::Result<()> {
        let until = Instant::now() + most;
        while !into.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            match self.read_within(into, left)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => into = &mut into[n..],
            }
        }
        Ok(())
    }

    /// Writes all bytes within a time.
    ///
    /// # Errors
    /// Errors of the system; the time is over.
    pub(crate) fn write_all_within(&self, mut bytes: &[u8], most: Duration) -> io::Result<()> {
        let until = Instant::now() + most;
        while !bytes.is_empty() {
            match self.write(bytes, &[]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.wait_to_write(until)?,
                Err(e) => return Err(e),
            }
        }
        while !self.flush()? {
            self.wait_to_write(until)?;
        }
        Ok(())
    }

    /// Waits until the stream takes bytes.
    ///
    /// # Errors
    /// The time is over.
    fn wait_to_write(&self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        wait(&[(self, Ready::ToWrite)], left);
        Ok(())
    }

    /// Shuts down both directions.
    pub(crate) fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Waits until one of the streams is ready, for at most `most`. An error shows when the stream is used.
#[cfg(unix)]
pub(crate) fn wait(streams: &[(&Stream, Ready)], most: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(streams.len());
    for (stream, ready) in streams {
        let flags = match ready {
            Ready::ToRead => PollFlags::IN,
            Ready::ToWrite => PollFlags::OUT,
        };
        fds.push(PollFd::new(&stream.socket, flags));
    }
    let most = Timespec {
        tv_sec: most.as_secs() as _,
        tv_nsec: most.subsec_nanos() as _,
    };
    let _ = poll(&mut fds, Some(&most));
}

#[cfg(not(unix))]
pub(crate) fn wait(_: &[(&Stream, Ready)], most: Duration) {
    std::thread::sleep(most.min(Duration::from_micros(50)));
}
