//! Listener: accepts connections, each with a thread.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use super::timing::HEARTBEAT_INTERVAL;

/// Stack size of a connection's thread, which parses lines.
const STACK_SIZE: usize = 256 << 10;
/// Maximum number of unidentified connections, beside two for each expected process.
const MAX_UNIDENTIFIED: usize = 64;

/// Listener that serves each connection in a thread, until it is dropped. Its port is free then.
pub(crate) struct Listener {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    /// Thread that accepts connections; taken when the listener is dropped.
    accepting: Option<JoinHandle<()>>,
}

/// Place of an unidentified connection: their number is limited. Dropped when the peer is identified.
pub(crate) struct Unidentified(Arc<AtomicUsize>);

impl Drop for Unidentified {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Listener {
    /// Serves connections of so many processes; the accepting thread has this name.
    ///
    /// # Errors
    /// The system has no address or thread.
    pub(crate) fn open(
        listener: TcpListener,
        name: &str,
        processes: usize,
        serve: impl Fn(TcpStream, Unidentified) + Send + Sync + 'static,
    ) -> io::Result<Listener> {
        let address = listener.local_addr()?;
        let (ended, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (ends, serve) = (ended.clone(), Arc::new(serve));
        let max = MAX_UNIDENTIFIED + 2 * processes;
        let accept = move || {
            loop {
                let accepted = listener.accept();
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let Ok((stream, _)) = accepted else {
                    // The process has no descriptors left: try again later.
                    thread::sleep(HEARTBEAT_INTERVAL);
                    continue;
                };
                let place = Unidentified(count.clone());
                if count.fetch_add(1, Ordering::Relaxed) >= max {
                    // The peer may connect again when other connections are closed.
                    continue;
                }
                let serve = serve.clone();
                let thread = thread::Builder::new().stack_size(STACK_SIZE);
                // Without a thread the connection is closed, and the peer reports it as lost.
                let _ = thread.spawn(move || serve(stream, place));
            }
        };
        let accepting = thread::Builder::new().name(name.to_owned()).spawn(accept)?;
        Ok(Listener {
            address,
            ended,
            accepting: Some(accepting),
        })
    }

    /// Address of the listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // This connection wakes the accepting thread, which closes the socket when it ends.
        let woken = TcpStream::connect_timeout(&self.address, HEARTBEAT_INTERVAL).is_ok();
        if let Some(accepting) = self.accepting.take().filter(|_| woken) {
            let _ = accepting.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_dropped_listener_is_free() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        drop(Listener::open(first, "test", 1, |_, _| {}).unwrap());
        for _ in 0..200 {
            let again = TcpListener::bind(address).unwrap();
            drop(Listener::open(again, "test", 1, |_, _| {}).unwrap());
        }
    }
}
