//! TLS over a non-blocking socket.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use thalweg_protection::rustls::pki_types::ServerName;
use thalweg_protection::rustls::{ClientConnection, Connection, ServerConnection};
use thalweg_tensor::sync::Unpoisoned;

use crate::secret::Tls;

/// Timeout of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// TLS session, with buffered bytes.
pub(super) struct TlsSession(Mutex<Connection>);

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl TlsSession {
    /// Does the handshake: as the client of an address, or as the server.
    ///
    /// # Errors
    /// Errors of the system; a certificate that is not of the cluster, or not for this address; a timeout.
    pub(super) fn begin(
        socket: &TcpStream,
        dialed: Option<IpAddr>,
        tls: &Tls,
    ) -> io::Result<TlsSession> {
        let mut connection: Connection = match dialed {
            Some(ip) => {
                let name = ServerName::IpAddress(ip.into());
                ClientConnection::new(tls.client.clone(), name)
                    .map_err(broken)?
                    .into()
            }
            None => ServerConnection::new(tls.server.clone())
                .map_err(broken)?
                .into(),
        };
        let until = Instant::now() + HANDSHAKE_TIMEOUT;
        // The socket blocks during the handshake.
        socket.set_nonblocking(false)?;
        let mut handshake = || {
            while connection.is_handshaking() || connection.wants_write() {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::Error::from(io::ErrorKind::TimedOut));
                }
                socket.set_read_timeout(Some(left))?;
                socket.set_write_timeout(Some(left))?;
                let moved = match connection.wants_write() {
                    true => connection.write_tls(&mut &*socket),
                    false => connection.read_tls(&mut &*socket),
                };
                match moved {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => {}
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        let text = "the other end says nothing of TLS";
                        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                    }
                    Err(e) => return Err(e),
                }
                if let Err(e) = connection.process_new_packets() {
                    // Sends the alert with the reason.
                    let _ = connection.write_tls(&mut &*socket);
                    return Err(broken(e));
                }
            }
            Ok(())
        };
        let result = handshake();
        socket.set_nonblocking(true)?;
        result.map(|()| TlsSession(Mutex::new(connection)))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unpoisoned()
    }

    pub(super) fn read(&self, socket: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
        let mut connection = self.connection();
        loop {
            match connection.reader().read(into) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // An end without a TLS alert counts as an end: messages have lengths.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            if connection.read_tls(&mut &*socket)? == 0 {
                return Ok(0);
            }
            connection.process_new_packets().map_err(broken)?;
        }
    }

    pub(super) fn write(&self, socket: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut connection = self.connection();
        if !push(&mut connection, socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = connection.writer().write_vectored(parts)?;
        push(&mut connection, socket)?;
        Ok(taken)
    }

    pub(super) fn flush(&self, socket: &TcpStream) -> io::Result<bool> {
        push(&mut self.connection(), socket)
    }
}

/// Writes buffered bytes as far as the system takes them. Returns `true` if none are left.
fn push(connection: &mut Connection, socket: &TcpStream) -> io::Result<bool> {
    while connection.wants_write() {
        match connection.write_tls(&mut &*socket) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}
