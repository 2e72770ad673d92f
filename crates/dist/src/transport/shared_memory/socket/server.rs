//! Sender's side of the descriptor socket: serves descriptors, and takes back loans.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use subtle::ConstantTimeEq;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use super::protocol::{
    BACK, DESCRIPTOR, NO, REQUEST_BYTES, SECRET_BYTES, YES, address, answer, is_own, random, within,
};
use crate::transport::messages as wire;
use crate::transport::shared_memory::loan_table::LoanTable;

/// Pause after a failed accept: the process may have no more files open.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Socket of a lender. A drop closes it.
#[derive(Debug)]
pub(crate) struct DescriptorServer {
    name: [u8; SECRET_BYTES],
    secret: [u8; SECRET_BYTES],
    accepts: AbortHandle,
}

impl Drop for DescriptorServer {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

impl DescriptorServer {
    /// # Errors
    /// The system has no such sockets, or no more files.
    pub(crate) fn listen(
        lender: &Arc<LoanTable>,
        runtime: &Handle,
        most: usize,
        timeout: Duration,
    ) -> io::Result<DescriptorServer> {
        let (name, secret) = (random()?, random()?);
        let _context = runtime.enter();
        let listener = UnixListener::bind(address(&name))?;
        let served = ServerState {
            lender: Arc::downgrade(lender),
            secret,
            timeout,
        };
        let accepts = runtime.spawn(accept(listener, served, most));
        Ok(DescriptorServer {
            name,
            secret,
            accepts: accepts.abort_handle(),
        })
    }

    /// Returns its address. The caller fills in the incarnation.
    pub(crate) fn message(&self) -> wire::Colocation {
        wire::Colocation {
            incarnation: 0,
            name: self.name.to_vec(),
            secret: self.secret.to_vec(),
        }
    }
}

/// State that receivers are served from.
#[derive(Clone)]
struct ServerState {
    lender: Weak<LoanTable>,
    secret: [u8; SECRET_BYTES],
    timeout: Duration,
}

async fn accept(listener: UnixListener, served: ServerState, most: usize) {
    let mut links = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(RETRY_AFTER).await;
            continue;
        };
        while links.try_join_next().is_some() {}
        if links.len() < most {
            // An error means that the receiver is gone, or was none.
            links.spawn(serve(stream, served.clone()));
        }
    }
}

/// Serves one receiver until it closes the connection.
async fn serve(mut stream: UnixStream, served: ServerState) -> io::Result<()> {
    let timeout = served.timeout;
    if !is_own(&stream)? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut said = [0; SECRET_BYTES];
    within(timeout, stream.read_exact(&mut said)).await?;
    if !bool::from(said.ct_eq(&served.secret)) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    within(timeout, answer(&stream, YES, None)).await?;
    loop {
        let mut asked = [0; REQUEST_BYTES];
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
                within(timeout, answer(&stream, status, file)).await?;
            }
            BACK => {
                let status = if lender.end_loan(token).is_some() {
                    YES
                } else {
                    NO
                };
                within(timeout, answer(&stream, status, None)).await?;
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
