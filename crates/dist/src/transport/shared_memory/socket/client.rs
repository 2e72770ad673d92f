//! Receiver's side of the descriptor socket: requests descriptors, and returns loans.

use std::fs::File;
use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::protocol::{
    BACK, DESCRIPTOR, SECRET_BYTES, YES, address, answered, is_own, request, within,
};
use crate::transport::messages as wire;
use crate::transport::wire_error::WireError;

/// Number of requests that are sent before the first answer is read.
const MAX_PIPELINED: usize = 64;
/// A request to a lender.
enum DescriptorRequest {
    /// The descriptor of this loan.
    Descriptor(u64, oneshot::Sender<Result<File, WireError>>),
    /// The return of these loans; the second field is dropped afterwards.
    Back(Vec<u64>, Box<dyn Send>),
}

/// A connection to a lender, owned by an async task of its own.
#[derive(Debug)]
pub(crate) struct DescriptorClient(mpsc::UnboundedSender<DescriptorRequest>);

impl DescriptorClient {
    /// Connects to a lender. `None` if it is not on this machine, is of another user, or does not accept the secret
    /// in time.
    pub(crate) async fn connect(
        said: wire::Colocation,
        runtime: &Handle,
        timeout: Duration,
    ) -> Option<DescriptorClient> {
        let name: [u8; SECRET_BYTES] = said.name.try_into().ok()?;
        let connect = async move {
            let mut stream = UnixStream::connect(address(&name)).await?;
            if !is_own(&stream)? {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            stream.write_all(&said.secret).await?;
            match answered(&stream).await? {
                (YES, None) => Ok(stream),
                _ => Err(io::ErrorKind::InvalidData.into()),
            }
        };
        // On the runtime that owns the connection, whichever thread calls.
        let connected = runtime.spawn(within(timeout, connect)).await;
        let stream = connected.ok()?.ok()?;
        let (ask, asked) = mpsc::unbounded_channel();
        runtime.spawn(keep(stream, asked, timeout));
        Some(DescriptorClient(ask))
    }

    /// `true` if the lender is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Requests the descriptor of a loan.
    ///
    /// # Errors
    /// The loan does not exist, or the descriptor does not come in time.
    pub(crate) async fn descriptor(&self, token: u64) -> Result<File, WireError> {
        let (give, given) = oneshot::channel();
        let gone = || WireError::Broken("the socket for shared memory is closed".to_owned());
        let sent = self.0.send(DescriptorRequest::Descriptor(token, give));
        sent.map_err(|_| gone())?;
        given.await.map_err(|_| gone())?
    }

    /// Returns these loans, and drops `stream` once the lender has them.
    pub(crate) fn return_loans(&self, tokens: Vec<u64>, stream: Box<dyn Send>) {
        // If the connection is closed, the stream is dropped at once: the lender then freezes the buffers.
        let _ = self.0.send(DescriptorRequest::Back(tokens, stream));
    }
}

/// Sends requests to a lender, until one of the two ends.
async fn keep(
    mut stream: UnixStream,
    mut asked: mpsc::UnboundedReceiver<DescriptorRequest>,
    timeout: Duration,
) {
    loop {
        let ask = tokio::select! {
            ask = asked.recv() => ask,
            () = closed(&stream) => None,
        };
        match ask {
            None => return,
            Some(DescriptorRequest::Descriptor(token, give)) => {
                let asking = descriptor(&mut stream, token);
                let found = within(timeout, asking).await;
                let ends = found.is_err();
                let found = found.and_then(|f| f.ok_or_else(none));
                // The receiver may be gone.
                let _ = give.send(found.map_err(failure));
                if ends {
                    return;
                }
            }
            Some(DescriptorRequest::Back(tokens, beside)) => {
                let given = within(timeout, back(&mut stream, &tokens)).await;
                drop(beside);
                if given.is_err() {
                    return;
                }
            }
        }
    }
}

/// Waits until the lender closes the socket, or sends bytes without a request.
async fn closed(stream: &UnixStream) {
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut [0]) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}

/// Requests a descriptor. `None` if there is none.
async fn descriptor(stream: &mut UnixStream, token: u64) -> io::Result<Option<File>> {
    stream.write_all(&request(DESCRIPTOR, token)).await?;
    let (status, descriptor) = answered(stream).await?;
    Ok(descriptor.filter(|_| status == YES).map(File::from))
}

async fn back(stream: &mut UnixStream, tokens: &[u64]) -> io::Result<()> {
    for tokens in tokens.chunks(MAX_PIPELINED) {
        let requests: Vec<u8> = tokens.iter().flat_map(|&t| request(BACK, t)).collect();
        stream.write_all(&requests).await?;
        for _ in tokens {
            // A loan that the lender no longer knows was returned before.
            answered(stream).await?;
        }
    }
    Ok(())
}

fn none() -> io::Error {
    io::Error::other("none came: one of the two processes may have as many files open as it may")
}

/// Converts the error of a request for a descriptor.
fn failure(why: io::Error) -> WireError {
    match why.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset => {
            WireError::Broken(format!("the socket for shared memory: {why}"))
        }
        _ => WireError::Descriptor(why),
    }
}
