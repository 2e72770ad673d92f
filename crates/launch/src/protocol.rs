//! Messages between a launcher and its agent on another host: one JSON object in a line.
//!
//! The launcher writes requests to the agent's standard input, and reads answers from its standard output. Lines of tasks
//! are sent within a window of bytes that the launcher has not yet taken, so that a slow screen holds up the tasks, and
//! neither the signals nor the exit codes.

use std::io::{BufRead, Read, Write};
use std::net::IpAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Version of this protocol. The version of the program must be the same too, as tasks of two versions do not work together.
pub(crate) const PROTOCOL: u32 = 1;
/// Maximum length of a message, in bytes: a task's command line and environment have 2 MiB on Linux.
pub(crate) const MAX_MESSAGE: usize = 8 << 20;
/// Interval of `Alive`, in both directions.
pub(crate) const ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Time without a message after which the other side is given up.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// Number of bytes of lines that the launcher has not taken yet.
pub(crate) const LINE_WINDOW: usize = 1 << 20;

/// Message of the launcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    /// First message.
    Hello { protocol: u32, version: String },
    /// Asks for the state of the host.
    Probe(ProbeRequest),
    /// Asks for a socket that answers `nonce` to those who connect.
    Listen {
        address: String,
        port: u16,
        nonce: String,
    },
    /// Closes the socket.
    CloseSocket,
    /// Asks to connect to sockets.
    Connect { to: Vec<Peer>, seconds: u64 },
    /// Starts a task, by a number that no other has.
    Start { task: usize, start: Box<StartTask> },
    /// Sends SIGTERM to a task and its group.
    Terminate { task: usize },
    /// Sends SIGKILL to a task and its group.
    Kill { task: usize },
    /// The launcher has taken lines with so many bytes.
    Taken { bytes: usize },
    /// The launcher runs.
    Alive,
    /// No more tasks come: the agent ends when all lines of the ended ones are sent.
    Finish,
}

/// Message of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Answer to `Hello`.
    Hello { protocol: u32, version: String },
    /// Answer to `Probe`.
    Probe(ProbeAnswer),
    /// Port of the socket, or why there is none.
    Listening { port: Result<u16, String> },
    /// The socket is closed.
    SocketClosed,
    /// For each of the sockets, why it is not reached.
    Connected { errors: Vec<Option<String>> },
    /// Line of a task.
    Line {
        task: usize,
        error: bool,
        line: String,
    },
    /// A task has ended.
    Ended { task: usize, code: i32 },
    /// A task cannot be started.
    NotStarted { task: usize, reason: String },
    /// The agent runs.
    Alive,
    /// The agent ends, because of a mistake.
    Failed { reason: String },
}

/// Question about a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProbeRequest {
    /// Program of the tasks.
    pub(crate) program: String,
    /// Folder in which they run.
    pub(crate) folder: String,
    /// Address at which they listen; all addresses if empty.
    pub(crate) address: String,
    /// Ports that may be used.
    pub(crate) ports: Vec<u16>,
    /// Address of the launcher, if tasks connect to it.
    pub(crate) launcher: Option<IpAddr>,
}

/// State of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProbeAnswer {
    /// Mistakes that keep tasks from running.
    pub(crate) errors: Vec<String>,
    /// Address from which the launcher is reached.
    pub(crate) own_address: Option<IpAddr>,
    /// Clock, in milliseconds since 1970.
    pub(crate) clock: u64,
    /// Ports at which others listen.
    pub(crate) taken_ports: Vec<u16>,
    /// GPUs.
    pub(crate) gpus: Vec<String>,
    /// Cores of each NUMA node.
    pub(crate) cores: Vec<Vec<usize>>,
}

/// Socket of a host that others connect to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) nonce: String,
}

/// Command of a task on a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartTask {
    /// Program, its path from the folder, or its name on the PATH.
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// Folder in which the task runs; that of the agent if empty.
    pub(crate) folder: String,
    /// Variables beside those of the agent.
    pub(crate) env: Vec<(String, String)>,
    /// Cores on which the task runs; all if empty.
    pub(crate) cores: Vec<usize>,
}

/// Number of bytes of the window that a line takes.
pub(crate) fn window_bytes(line: &str) -> usize {
    // Lines without text take memory too.
    line.len() + 64
}

/// Message that is no message of this protocol.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtocolError {
    /// A line is too long.
    #[error("a message has more than {MAX_MESSAGE} bytes")]
    TooLong,
    /// A line is no message.
    #[error("'{line}' is no message: {source}")]
    Malformed {
        /// Begin of the line.
        line: String,
        source: serde_json::Error,
    },
    /// The other side cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Reads a line of at most [`MAX_MESSAGE`] bytes; `None` at the end of the input, and for a last line without an end.
///
/// # Errors
/// The line is too long, or cannot be read.
pub(crate) fn read_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, ProtocolError> {
    let mut line = Vec::new();
    let limit = MAX_MESSAGE as u64 + 1;
    input.by_ref().take(limit).read_until(b'\n', &mut line)?;
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        return Ok(Some(line));
    }
    match line.len() > MAX_MESSAGE {
        true => Err(ProtocolError::TooLong),
        // The other side has ended within a message.
        false => Ok(None),
    }
}

/// Parses a message.
///
/// # Errors
/// The line is no message of this type.
pub(crate) fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, ProtocolError> {
    /// Number of characters of a wrong line that an error shows.
    const SHOWN: usize = 80;

    serde_json::from_slice(line).map_err(|source| {
        let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]);
        let line = text.chars().take(SHOWN).collect();
        ProtocolError::Malformed { line, source }
    })
}

/// Writes a message and flushes it.
///
/// # Errors
/// The other side has ended.
pub(crate) fn write<T: Serialize>(output: &mut impl Write, message: &T) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<Vec<u8>>, ProtocolError> {
        read_line(&mut std::io::BufReader::new(bytes))
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let start = StartTask {
            program: "sh".to_owned(),
            args: vec!["a\nb".to_owned(), "it's ü".to_owned()],
            ..StartTask::default()
        };
        let all = [
            Request::Start {
                task: 3,
                start: Box::new(start),
            },
            Request::Probe(ProbeRequest::default()),
            Request::Alive,
        ];
        for message in all {
            let mut bytes = Vec::new();
            write(&mut bytes, &message).unwrap();
            assert_eq!(bytes.iter().filter(|b| **b == b'\n').count(), 1);
            let line = read(&bytes).unwrap().unwrap();
            assert_eq!(parse::<Request>(&line).unwrap(), message);
        }
        let listening = Answer::Listening {
            port: Err("it's taken".to_owned()),
        };
        let mut bytes = Vec::new();
        write(&mut bytes, &listening).unwrap();
        assert_eq!(parse::<Answer>(&bytes).unwrap(), listening);
    }

    #[test]
    fn a_line_is_bounded_and_a_truncated_one_is_the_end() {
        let long = vec![b'x'; MAX_MESSAGE + 1];
        assert!(matches!(read(&long), Err(ProtocolError::TooLong)));
        let mut longest = vec![b'x'; MAX_MESSAGE];
        longest.push(b'\n');
        assert_eq!(read(&longest).unwrap().unwrap().len(), MAX_MESSAGE);
        assert!(read(b"{\"request\":").unwrap().is_none());
        assert!(read(b"").unwrap().is_none());
    }

    #[test]
    fn what_is_no_message_is_shown_in_part() {
        let line = "ü".repeat(1000);
        for text in [&*line, "", "{}", "[1]", r#"{"request":"dance"}"#, "\u{0}"] {
            let error = parse::<Request>(text.as_bytes()).unwrap_err();
            assert!(error.to_string().len() < 600, "{error}");
        }
    }
}
