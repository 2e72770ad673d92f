//! Wire format of the descriptor socket: the codes of requests and answers, and its address.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Number of bytes of a socket's name, and of its secret.
pub(super) const SECRET_BYTES: usize = 16;
/// Request for the descriptor of a loan.
pub(super) const DESCRIPTOR: u8 = 1;
/// Return of a loan.
pub(super) const BACK: u8 = 2;
/// Answers.
pub(super) const NO: u8 = 0;
pub(super) const YES: u8 = 1;
/// Number of bytes of a request.
pub(super) const REQUEST_BYTES: usize = 9;
/// Returns random bytes that cannot be guessed.
pub(super) fn random() -> io::Result<[u8; SECRET_BYTES]> {
    let mut bytes = [0; SECRET_BYTES];
    // So few bytes come in one call.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes)
}

/// Returns the address of this name, in the abstract namespace.
pub(super) fn address(name: &[u8; SECRET_BYTES]) -> OsString {
    let hex = name.iter().map(|b| format!("{b:02x}")).collect::<String>();
    OsString::from_vec(format!("\0thalweg-{hex}").into_bytes())
}

/// `true` if the peer is of the same user.
pub(super) fn is_own(stream: &UnixStream) -> io::Result<bool> {
    Ok(stream.peer_cred()?.uid() == geteuid().as_raw())
}

pub(super) fn request(kind: u8, token: u64) -> [u8; REQUEST_BYTES] {
    let mut request = [kind; REQUEST_BYTES];
    request[1..].copy_from_slice(&token.to_le_bytes());
    request
}

/// Runs `work`, with this time limit.
pub(super) async fn within<T>(
    timeout: Duration,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    tokio::time::timeout(timeout, work).await.map_err(late)?
}

/// Sends an answer, with a descriptor beside it if there is one.
pub(super) async fn answer(
    stream: &UnixStream,
    status: u8,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            // The buffer has room for one descriptor.
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
pub(super) async fn answered(stream: &UnixStream) -> io::Result<(u8, Option<OwnedFd>)> {
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
