//! Where connections come in.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::timing::HEARTBEAT_INTERVAL;

/// The stack of a connection's thread: it parses lines.
const STACK: usize = 256 << 10;
/// How many connections may not have said yet who they are, beside two for each process that is expected.
const UNKNOWN: usize = 64;

/// Accepts connections, each of which has a thread, until it is dropped.
pub(crate) struct Door {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
}

/// A connection that has not said yet who it is: there are only so many. Dropped once that is known.
pub(crate) struct Unknown(Arc<AtomicUsize>);

impl Drop for Unknown {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Door {
    /// Serves connections of so many processes, in threads of this name.
    ///
    /// # Errors
    /// The system has no address or thread.
    pub(crate) fn open(
        listener: TcpListener,
        name: &str,
        processes: usize,
        serve: impl Fn(TcpStream, Unknown) + Send + Sync + 'static,
    ) -> io::Result<Door> {
        let address = listener.local_addr()?;
        let (ended, unknown) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (ends, serve) = (ended.clone(), Arc::new(serve));
        let most = UNKNOWN + 2 * processes;
        let accept = move || {
            loop {
                let accepted = listener.accept();
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let Ok((stream, _)) = accepted else {
                    // The process has no more descriptors: perhaps later.
                    thread::sleep(HEARTBEAT_INTERVAL);
                    continue;
                };
                let guest = Unknown(unknown.clone());
                if unknown.fetch_add(1, Ordering::Relaxed) >= most {
                    // It may come again when some of those have been closed.
                    continue;
                }
                let serve = serve.clone();
                let thread = thread::Builder::new().stack_size(STACK);
                // Without a thread the connection is closed, and the other end says that it is lost.
                let _ = thread.spawn(move || serve(stream, guest));
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(accept)?;
        Ok(Door { address, ended })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // So that it looks.
        let _ = TcpStream::connect_timeout(&self.address, HEARTBEAT_INTERVAL);
    }
}
