//! Tests of the access to descriptors, and of their checks.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::{SocketAddr, UnixStream as Blocking};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::geteuid;
use thalweg_tensor::{Buffer, DType, MIN_SHARED_BYTES, Memory, SegmentError, Tensor};

use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::client::*;
use super::protocol::*;
use crate::transport::messages as wire;
use crate::transport::shared_memory::lender::{Lender, Loans};
use crate::transport::shared_memory::segments::ColocatedTask;
use crate::transport::wire_error::WireError;

const TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout in tests of a lender that never answers.
const SHORT: Duration = Duration::from_secs(1);

/// Returns a lender and the address of its socket, which serves `most` receivers.
fn lender(most: usize) -> (Arc<Lender>, wire::Colocation) {
    let lender = Arc::<Lender>::default();
    let said = lender.socket(&Handle::current(), most, TIMEOUT).unwrap();
    (lender, said)
}

async fn found(said: &wire::Colocation) -> Option<Arc<ColocatedTask>> {
    ColocatedTask::find(said.clone(), &Handle::current(), TIMEOUT).await
}

/// Returns a tensor in shared memory.
fn shared(elements: usize) -> Tensor {
    let memory = Arc::new(Memory::new(None).sharing(0));
    let buffer = Buffer::try_copied(&vec![7; elements * 4], Some(&memory)).unwrap();
    Tensor::from_buffer(DType::I32, &[elements], Arc::new(buffer)).unwrap()
}

#[tokio::test]
async fn a_lender_is_found_by_its_name_and_secret_alone() {
    let (lender, said) = lender(2);
    assert_eq!(
        lender.socket(&Handle::current(), 2, TIMEOUT),
        Some(said.clone())
    );
    let first = found(&said).await.unwrap();
    for wrong in [
        wire::Colocation {
            secret: vec![0; SECRET_BYTES],
            ..said.clone()
        },
        wire::Colocation {
            name: vec![0; SECRET_BYTES],
            ..said.clone()
        },
        wire::Colocation {
            name: said.name[1..].to_vec(),
            ..said.clone()
        },
    ] {
        assert!(found(&wrong).await.is_none(), "{wrong:?}");
    }
    let second = found(&said).await.unwrap();
    // No more than its limit.
    assert!(found(&said).await.is_none());
    assert!(!first.is_gone() && !second.is_gone());
    drop(lender);
    while !first.is_gone() || !second.is_gone() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn descriptors_of_open_loans_only() {
    let (lender, said) = lender(1);
    let link = DescriptorClient::connect(said, &Handle::current(), TIMEOUT)
        .await
        .unwrap();
    let tensor = shared(MIN_SHARED_BYTES);
    let mut loans = Loans::new(lender.clone());
    let loan = loans.lend(&tensor).unwrap();
    let file = link.descriptor(loan.token).await.unwrap();
    let mapped = Buffer::mapped(&file, loan.segment, tensor.bytes().len()).unwrap();
    assert_eq!(mapped.bytes(), tensor.bytes());
    for other in [0, loan.token.wrapping_add(1)] {
        let none = link.descriptor(other).await;
        assert!(matches!(none, Err(WireError::Descriptor(_))), "{none:?}");
    }
    // It still answers.
    assert!(link.descriptor(loan.token).await.is_ok());
    drop(loans);
    let none = link.descriptor(loan.token).await;
    assert!(matches!(none, Err(WireError::Descriptor(_))), "{none:?}");
    drop(lender);
    // It is closed eventually.
    while !matches!(link.descriptor(1).await, Err(WireError::Broken(_))) {}
}

#[tokio::test]
async fn many_loans_are_returned_at_once() {
    let (lender, said) = lender(1);
    let link = DescriptorClient::connect(said, &Handle::current(), TIMEOUT)
        .await
        .unwrap();
    let tensor = shared(MIN_SHARED_BYTES);
    let mut loans = Loans::new(lender.clone());
    let tokens: Vec<u64> = (0..30_000)
        .map(|_| loans.lend(&tensor).unwrap().token)
        .collect();
    let (done, is_done) = oneshot::channel::<()>();
    link.return_loans(tokens.clone(), Box::new(done));
    // Dropped when all are back.
    assert!(is_done.await.is_err());
    assert!(tokens.iter().all(|&t| lender.loans.buffer(t).is_none()));
}

/// Connects to a lender as another user and sends the secret. Returns the bytes that come back.
fn as_user(user: u32, said: &wire::Colocation) -> io::Result<Vec<u8>> {
    let name = address(said.name[..].try_into().unwrap());
    let name = name.into_vec();
    let at = SocketAddr::from_abstract_name(&name[1..])?;
    let secret = said.secret.clone();
    let connect = move || {
        // Of this thread only, which ends here.
        let user = rustix::process::Uid::from_raw(user);
        let become_it = rustix::thread::set_thread_uid(user);
        become_it.map_err(|_| io::ErrorKind::Unsupported)?;
        let mut stream = Blocking::connect_addr(&at)?;
        stream.write_all(&secret)?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    std::thread::spawn(connect).join().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_refused() {
    const NOBODY: u32 = 65_534;
    let (_lender, said) = lender(4);
    let own = geteuid();
    let answers = |user| {
        let said = said.clone();
        tokio::task::spawn_blocking(move || as_user(user, &said))
    };
    assert_eq!(answers(own.as_raw()).await.unwrap().unwrap(), [YES]);
    // The lender closes the connection, before or after the secret is sent.
    match answers(NOBODY).await.unwrap() {
        Err(e) if e.kind() == io::ErrorKind::Unsupported => {
            eprintln!("NOT TESTED: only root can become another user");
        }
        Ok(answer) => assert!(answer.is_empty(), "{answer:?}"),
        Err(e) => assert!(
            matches!(
                e.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ),
            "{e:?}"
        ),
    }
    assert!(found(&said).await.is_some());
}

/// Connects to a lender that answers the request for a descriptor by `answers`.
async fn odd<F: Future<Output = ()> + Send + 'static>(
    timeout: Duration,
    answers: impl FnOnce(UnixStream) -> F + Send + 'static,
) -> DescriptorClient {
    let (name, secret) = (random().unwrap(), random().unwrap());
    let listener = UnixListener::bind(address(&name)).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; SECRET_BYTES]).await.unwrap();
        answer(&stream, YES, None).await.unwrap();
        stream.read_exact(&mut [0; REQUEST_BYTES]).await.unwrap();
        answers(stream).await;
    });
    let said = wire::Colocation {
        incarnation: 7,
        name: name.to_vec(),
        secret: secret.to_vec(),
    };
    DescriptorClient::connect(said, &Handle::current(), timeout)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_missing_descriptor_times_out() {
    let mute = odd(SHORT, |stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    });
    let link = mute.await;
    let none = link.descriptor(1).await;
    assert!(
        matches!(&none, Err(WireError::Descriptor(e)) if e.kind() == io::ErrorKind::TimedOut),
        "{none:?}"
    );
    // Later bytes are not taken for the answer to another request.
    assert!(link.descriptor(2).await.is_err());
    let done = async {
        while !link.is_closed() {
            tokio::task::yield_now().await
        }
    };
    done.await;

    for status in [YES, NO, 7] {
        let link = odd(TIMEOUT, move |stream| async move {
            answer(&stream, status, None).await.unwrap();
            std::future::pending::<()>().await;
        });
        let none = link.await.descriptor(1).await;
        assert!(matches!(none, Err(WireError::Descriptor(_))), "{none:?}");
    }
    let link = odd(TIMEOUT, |stream| async move { drop(stream) });
    let none = link.await.descriptor(1).await;
    assert!(matches!(none, Err(WireError::Broken(_))), "{none:?}");
}

/// Maps a descriptor that is sent for a segment of this number and length.
async fn mapped(file: OwnedFd, number: u64, len: usize) -> Result<Buffer, SegmentError> {
    let link = odd(TIMEOUT, move |stream| async move {
        answer(&stream, YES, Some(file.as_fd())).await.unwrap();
        std::future::pending::<()>().await;
    });
    let file = link.await.descriptor(1).await.unwrap();
    Buffer::mapped(&file, number, len)
}

#[tokio::test]
async fn a_descriptor_of_another_file_is_refused() {
    let file = |seals, len: usize| {
        let file = memfd_create("odd", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, len as u64).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        let number = rustix::fs::fstat(&file).unwrap().st_ino;
        (file, number)
    };
    let (good, number) = file(SealFlags::SHRINK, MIN_SHARED_BYTES);
    assert!(mapped(good, number, MIN_SHARED_BYTES).await.is_ok());
    let (good, number) = file(SealFlags::SHRINK, MIN_SHARED_BYTES);
    let other = mapped(good, number + 1, MIN_SHARED_BYTES).await;
    assert!(
        matches!(other, Err(SegmentError::WrongFile { .. })),
        "{other:?}"
    );
    let (short, number) = file(SealFlags::SHRINK, MIN_SHARED_BYTES - 1);
    let short = mapped(short, number, MIN_SHARED_BYTES).await;
    assert!(
        matches!(short, Err(SegmentError::Short { .. })),
        "{short:?}"
    );
    let (unsealed, number) = file(SealFlags::GROW, MIN_SHARED_BYTES);
    let unsealed = mapped(unsealed, number, MIN_SHARED_BYTES).await;
    assert!(
        matches!(unsealed, Err(SegmentError::Unsealed)),
        "{unsealed:?}"
    );
    let (_reader, pipe) = io::pipe().unwrap();
    let pipe = mapped(pipe.into(), 1, MIN_SHARED_BYTES).await;
    assert!(matches!(pipe, Err(SegmentError::Unsealed)), "{pipe:?}");
}

#[tokio::test]
async fn unrequested_descriptors_are_closed() {
    // More descriptors than there is room for, beside the answer; and some behind it.
    for count in [1, 2, 5, 50] {
        let (mut reader, writer) = io::pipe().unwrap();
        let link = odd(TIMEOUT, move |stream| async move {
            let writer = OwnedFd::from(writer);
            let all = vec![writer.as_fd(); count];
            let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(50))];
            for _ in 0..2 {
                let mut beside = SendAncillaryBuffer::new(&mut space);
                assert!(beside.push(SendAncillaryMessage::ScmRights(&all)));
                let bytes = [IoSlice::new(b"\x01")];
                sendmsg(&stream, &bytes, &mut beside, SendFlags::NOSIGNAL).unwrap();
            }
            drop(writer);
            std::future::pending::<()>().await;
        });
        let link = link.await;
        let file = link.descriptor(1).await.unwrap();
        // Bytes without a request end the connection.
        while !link.is_closed() {
            tokio::task::yield_now().await;
        }
        drop(file);
        // The other end is closed.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
