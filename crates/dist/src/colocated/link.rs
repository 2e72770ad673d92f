//! The Unix socket that descriptors come through.
//!
//! A receiver says the secret, and has a byte back. Then it asks: a byte that says for what, and a token of
//! eight (little-endian). Each has a byte back, with a descriptor beside it if one was asked for.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use super::lend::Lender;
use crate::wire::WireError;
use crate::wire::messages as wire;

/// Bytes of a name, and of a secret.
const RANDOM: usize = 16;
/// Asks for the descriptor of what is lent.
const DESCRIPTOR: u8 = 1;
/// Gives back what was lent.
const BACK: u8 = 2;
/// The answers.
const NO: u8 = 0;
const YES: u8 = 1;
/// Bytes of a request.
const REQUEST: usize = 9;
/// How many requests are sent before the first answer is read.
const AHEAD: usize = 64;
/// How long no connection is taken when one could not be: the process may have no more files open.
const RETRY: Duration = Duration::from_millis(100);

/// Bytes that nobody can guess.
fn random() -> io::Result<[u8; RANDOM]> {
    let mut bytes = [0; RANDOM];
    // So few bytes come all at once.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes)
}

/// The address of this name, in the abstract namespace.
fn address(name: &[u8; RANDOM]) -> OsString {
    let hex = name.iter().map(|b| format!("{b:02x}")).collect::<String>();
    OsString::from_vec(format!("\0thalweg-{hex}").into_bytes())
}

/// Whether the other end is of the same user.
fn is_own(stream: &UnixStream) -> io::Result<bool> {
    Ok(stream.peer_cred()?.uid() == geteuid().as_raw())
}

fn request(kind: u8, token: u64) -> [u8; REQUEST] {
    let mut request = [kind; REQUEST];
    request[1..].copy_from_slice(&token.to_le_bytes());
    request
}

/// Ends what takes longer.
async fn within<T>(patience: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    tokio::time::timeout(patience, work).await.map_err(late)?
}

/// Where a lender listens, until this is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    name: [u8; RANDOM],
    secret: [u8; RANDOM],
    accepts: AbortHandle,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

impl Socket {
    /// # Errors
    /// The system has no such sockets, or no more files.
    pub(super) fn listen(
        lender: &Arc<Lender>,
        runtime: &Handle,
        most: usize,
        patience: Duration,
    ) -> io::Result<Socket> {
        let (name, secret) = (random()?, random()?);
        let _context = runtime.enter();
        let listener = UnixListener::bind(address(&name))?;
        let served = Served {
            lender: Arc::downgrade(lender),
            secret,
            patience,
        };
        let accepts = runtime.spawn(accept(listener, served, most));
        Ok(Socket {
            name,
            secret,
            accepts: accepts.abort_handle(),
        })
    }

    /// Where it is; whose it is the caller fills in.
    pub(super) fn message(&self) -> wire::Colocation {
        wire::Colocation {
            incarnation: 0,
            name: self.name.to_vec(),
            secret: self.secret.to_vec(),
        }
    }
}

/// What a receiver is answered from.
#[derive(Clone)]
struct Served {
    lender: Weak<Lender>,
    secret: [u8; RANDOM],
    patience: Duration,
}

async fn accept(listener: UnixListener, served: Served, most: usize) {
    let mut links = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        while links.try_join_next().is_some() {}
        if links.len() < most {
            // An error is a receiver that has gone, or was none.
            links.spawn(serve(stream, served.clone()));
        }
    }
}

/// Answers one receiver until it goes.
async fn serve(mut stream: UnixStream, served: Served) -> io::Result<()> {
    let patience = served.patience;
    if !is_own(&stream)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut said = [0; RANDOM];
    within(patience, stream.read_exact(&mut said)).await?;
    if !bool::from(said.ct_eq(&served.secret)) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    within(patience, answer(&stream, YES, None)).await?;
    loop {
        let mut asked = [0; REQUEST];
        stream.read_exact(&mut asked).await?;
        let [kind, token @ ..] = asked;
        let token = u64::from_le_bytes(token);
        let lender = served.lender.upgrade().ok_or(io::ErrorKind::NotFound)?;
        match kind {
            DESCRIPTOR => {
                #[cfg(test)]
                if lender.is_mute() {
                    std::future::pending::<()>().await;
                }
                let buffer = lender.buffer(token);
                let file = buffer.as_ref().and_then(|b| b.segment_file());
                let status = if file.is_some() { YES } else { NO };
                let file = file.map(AsFd::as_fd);
                within(patience, answer(&stream, status, file)).await?;
            }
            BACK => {
                let status = if lender.back(token).is_some() {
                    YES
                } else {
                    NO
                };
                within(patience, answer(&stream, status, None)).await?;
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Sends an answer, with a descriptor beside it if there is one.
async fn answer(
    stream: &UnixStream,
    status: u8,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            // There is room for one.
            beside.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let status = [status];
        let bytes = [IoSlice::new(&status)];
        sendmsg(stream, &bytes, &mut beside, SendFlags::NOSIGNAL)?;
        Ok(())
    };
    stream.async_io(Interest::WRITABLE, send).await
}

/// Receives an answer, with the first descriptor beside it; others are closed.
async fn answered(stream: &UnixStream) -> io::Result<(u8, Option<OwnedFd>)> {
    let receive = || {
        let mut status = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let bytes = &mut [IoSliceMut::new(&mut status)];
        let received = recvmsg(stream, bytes, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
        let rights = |message| match message {
            RecvAncillaryMessage::ScmRights(all) => Some(all),
            _ => None,
        };
        let descriptor = beside.drain().filter_map(rights).flatten().next();
        match received.bytes {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok((status[0], descriptor)),
        }
    };
    stream.async_io(Interest::READABLE, receive).await
}

/// What is asked of a lender.
enum Ask {
    /// The descriptor of what is lent by this token.
    Descriptor(u64, oneshot::Sender<Result<File, WireError>>),
    /// To take back what is lent by these tokens; what is beside them is dropped then.
    Back(Vec<u64>, Box<dyn Send>),
}

/// A connection to a lender, which a task of its own keeps.
#[derive(Debug)]
pub(super) struct Link(mpsc::UnboundedSender<Ask>);

impl Link {
    /// Connects to a lender; none where it is not on this machine, is not of this user, or does not take
    /// the secret in time.
    pub(super) async fn connect(
        said: wire::Colocation,
        runtime: &Handle,
        patience: Duration,
    ) -> Option<Link> {
        let name: [u8; RANDOM] = said.name.try_into().ok()?;
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
        let connected = runtime.spawn(within(patience, connect)).await;
        let stream = connected.ok()?.ok()?;
        let (ask, asked) = mpsc::unbounded_channel();
        runtime.spawn(keep(stream, asked, patience));
        Some(Link(ask))
    }

    /// Whether the lender has gone.
    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// The descriptor of what is lent by this token.
    ///
    /// # Errors
    /// It is not lent, or does not come in time.
    pub(super) async fn descriptor(&self, token: u64) -> Result<File, WireError> {
        let (give, given) = oneshot::channel();
        let gone = || WireError::Broken("the socket for shared memory is closed".to_owned());
        let sent = self.0.send(Ask::Descriptor(token, give));
        sent.map_err(|_| gone())?;
        given.await.map_err(|_| gone())?
    }

    /// Gives back what is lent by these tokens, and drops `stream` once the lender knows.
    pub(super) fn back(&self, tokens: Vec<u64>, stream: Box<dyn Send>) {
        // Where the link is closed the stream is dropped at once: the lender knows what that means.
        let _ = self.0.send(Ask::Back(tokens, stream));
    }
}

/// Asks a lender, until one of the two goes.
async fn keep(mut stream: UnixStream, mut asked: mpsc::UnboundedReceiver<Ask>, patience: Duration) {
    loop {
        let ask = tokio::select! {
            ask = asked.recv() => ask,
            () = closed(&stream) => None,
        };
        match ask {
            None => return,
            Some(Ask::Descriptor(token, give)) => {
                let asking = descriptor(&mut stream, token);
                let found = within(patience, asking).await;
                let ends = found.is_err();
                let found = found.and_then(|f| f.ok_or_else(none));
                // Nobody may wait for it any more.
                let _ = give.send(found.map_err(failure));
                if ends {
                    return;
                }
            }
            Some(Ask::Back(tokens, beside)) => {
                let given = within(patience, back(&mut stream, &tokens)).await;
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
    for tokens in tokens.chunks(AHEAD) {
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

#[cfg(test)]
mod tests;
