//! HTTP request for the metrics of an endpoint, bounded in time and memory.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Instant;

use super::error::PollError;
use super::limits::{MAX_FIELDS, MAX_HEAD, MAX_RESPONSE, REQUEST_TIMEOUT};
use super::numbers::TaskNumbers;

/// Requests the metrics of an address. The text is read one line at a time, and is never in memory as a whole.
///
/// # Errors
/// The endpoint is not reached, answers too slowly, or with something else than the metrics of a server.
pub(super) fn request(address: &str) -> Result<TaskNumbers, PollError> {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    let mut stream = connect(address, deadline)?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    // HTTP/1.0 has no chunks, and the connection ends with the response.
    let host = host_field(address);
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let limited = DeadlineReader {
        stream,
        deadline,
        left: MAX_RESPONSE,
    };
    let mut response = BufReader::new(limited);
    read_head(&mut response)?;
    TaskNumbers::read(&mut response)
}

/// Returns an address for the field `Host`, without characters that would end the field.
fn host_field(address: &str) -> String {
    address.chars().filter(char::is_ascii_graphic).collect()
}

fn connect(address: &str, deadline: Instant) -> Result<TcpStream, PollError> {
    let addresses = address.to_socket_addrs().map_err(PollError::Resolve)?;
    let mut failure = PollError::Resolve(ErrorKind::NotFound.into());
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(PollError::Timeout);
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(e) if e.kind() == ErrorKind::TimedOut => failure = PollError::Timeout,
            Err(e) => failure = PollError::Connect(e),
        }
    }
    Err(failure)
}

/// Reads the head of a response, up to its empty line, and checks the status.
fn read_head(response: &mut impl BufRead) -> Result<(), PollError> {
    let mut head = Vec::new();
    loop {
        let before = head.len();
        let mut limited = Read::take(&mut *response, (MAX_HEAD - before) as u64);
        limited.read_until(b'\n', &mut head)?;
        match &head[before..] {
            b"\r\n" | b"\n" => break,
            line if line.ends_with(b"\n") && head.starts_with(b"HTTP/") => {}
            _ => return Err(PollError::NotHttp),
        }
    }
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    parsed.parse(&head).map_err(|_| PollError::NotHttp)?;
    match parsed.code {
        Some(200) => Ok(()),
        Some(status) => Err(PollError::Status(status)),
        None => Err(PollError::NotHttp),
    }
}

/// Reader of a stream until a deadline, and up to a number of bytes.
struct DeadlineReader {
    stream: TcpStream,
    deadline: Instant,
    left: u64,
}

impl Read for DeadlineReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let time = self.deadline.saturating_duration_since(Instant::now());
        if time.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(time))?;
        let count = self.stream.read(buffer)?;
        let too_large = || Error::from(ErrorKind::FileTooLarge);
        self.left = (self.left)
            .checked_sub(count as u64)
            .ok_or_else(too_large)?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
