//! The end that maps.

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

/// How many requests are sent before the first answer is read.
const MAX_PIPELINED: usize = 64;
/// What is asked of a lender.
enum DescriptorRequest {
    /// The descriptor of what is lent by this token.
    Descriptor(u64, oneshot::Sender<Result<File, WireError>>),
    /// To take back what is lent by these tokens; what is beside them is dropped then.
    Back(Vec<u64>, Box<dyn Send>),
}

/// A connection to a lender, which a task of its own keeps.
#[derive(Debug)]
pub(crate) struct DescriptorClient(mpsc::UnboundedSender<DescriptorRequest>);

impl DescriptorClient {
    /// Connects to a lender; none where it is not on this machine, is not of this user, or does not take
    /// the secret in time.
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
        // Where it is kept, whoever asks.
        let connected = runtime.spawn(within(timeout, connect)).await;
        let stream = connected.ok()?.ok()?;
        let (ask, asked) = mpsc::unbounded_channel();
        runtime.spawn(keep(stream, asked, timeout));
        Some(DescriptorClient(ask))
    }

    /// Whether the lender has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// The descriptor of what is lent by this token.
    ///
    /// # Errors
    /// It is not lent, or does not come in time.
    pub(crate) async fn descriptor(&self, token: u64) -> Result<File, WireError> {
        let (give, given) = oneshot::channel();
        let gone = || WireError::Broken("the socket for shared memory is closed".to_owned());
        let sent = self.0.send(DescriptorRequest::Descriptor(token, give));
        sent.map_err(|_| gone())?;
        given.await.map_err(|_| gone())?
    }

    /// Gives back what is lent by these tokens, and drops `stream` once the lender knows.
    pub(crate) fn back(&self, tokens: Vec<u64>, stream: Box<dyn Send>) {
        // Where the link is closed the stream is dropped at once: the lender knows what that means.
        let _ = self.0.send(DescriptorRequest::Back(tokens, stream));
    }
}

/// Asks a lender, until one of the two goes.
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
                // Nobody may wait for it any more.
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

/// Waits until the lender closes the socket, or says what nobody has asked for.
async fn closed(stream: &UnixStream) {
    while stream.readable().await.is_ok() {
        match stream.try_read(&mut [0]) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}

/// Asks for a descriptor; none where there is none.
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
            // What it does not know any more it has taken back already.
            answered(stream).await?;
        }
    }
    Ok(())
}

fn none() -> io::Error {
    io::Error::other("none came: one of the two processes may have as many files open as it may")
}

/// Why a descriptor has not come.
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
