//! Values between processes of one machine: the one that receives reads them from the memory of the one
//! that sends (`process_vm_readv`). That is one copy, where a connection takes two and the network's
//! work for each packet.
//!
//! A caller first shows itself that it can: it sends a nonce, is told of a process and an address, and
//! finds the nonce there ([`Nonce::find`]). The process must be the one that listens at the address that
//! was called, so that nobody can name another one's memory; and both only speak of memory to who is on
//! this machine. A value that is lent ([`Loan`]) stays in its place until the receiver has said that it
//! has it, or has dropped the stream that tells of it. A mark beside it says that it still is lent; a
//! receiver looks at the mark once it has the bytes, so that it never takes what was written there
//! afterwards.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::wire::WireError;
use crate::wire::messages as wire;

/// Values from this size on are lent, in bytes: smaller ones are as quick on the connection.
pub(crate) const LEAST: usize = 128 << 10;
/// Bytes of a nonce.
const NONCE: usize = 16;

/// A process whose memory this one can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Near {
    process: u32,
    /// As the task tells it from those before it.
    pub(crate) incarnation: u64,
}

/// What to look for in another process.
#[derive(Debug)]
pub(crate) struct Nonce(Vec<u8>);

impl Nonce {
    /// One that nobody can guess.
    pub(crate) fn new() -> Nonce {
        let random = RandomState::new();
        let halves = [random.hash_one(0), random.hash_one(1)];
        Nonce(halves.iter().flat_map(|h| h.to_le_bytes()).collect())
    }

    pub(crate) fn message(&self) -> wire::Near {
        wire::Near {
            nonce: self.0.clone(),
        }
    }

    /// The process that has it where it says, if it can be read, and is who listens on this port.
    pub(crate) fn find(&self, said: &wire::Nearby, port: u16) -> Option<Near> {
        if !listens(said.process, port) {
            return None;
        }
        let mut found = [0; NONCE];
        read(said.process, said.at, &mut found).ok()?;
        (found[..] == self.0).then_some(Near {
            process: said.process,
            incarnation: said.incarnation,
        })
    }
}

/// A nonce that another process looks for here.
pub(crate) struct Shown(Vec<u8>);

impl Shown {
    /// # Errors
    /// It is none.
    pub(crate) fn new(asked: wire::Near) -> Result<Shown, WireError> {
        match asked.nonce.len() {
            NONCE => Ok(Shown(asked.nonce)),
            _ => Err(WireError::Expected("a nonce of 16 bytes")),
        }
    }

    /// Where it is.
    pub(crate) fn message(&self, incarnation: u64) -> wire::Nearby {
        wire::Nearby {
            process: std::process::id(),
            incarnation,
            at: self.0.as_ptr().expose_provenance() as u64,
        }
    }
}

/// Whether an address is one of this machine's.
pub(crate) fn is_own(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    // What is sent to an own address comes from it. Nothing is sent here.
    let from = || {
        let any: IpAddr = match ip {
            IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    ip.is_loopback() || from().is_ok_and(|a: SocketAddr| a.ip() == ip)
}

/// The port of a host (`name:port`) that is this machine, all of its addresses.
pub(crate) async fn here(address: &str) -> Option<u16> {
    let all: Vec<SocketAddr> = tokio::net::lookup_host(address).await.ok()?.collect();
    let port = all.first()?.port();
    all.iter().all(|a| is_own(a.ip())).then_some(port)
}

/// Whether a process listens on this port.
fn listens(process: u32, port: u16) -> bool {
    // Of each socket, in this order: number, own address, the other one, state (0A listens), ...; the
    // tenth is its inode (proc_net_tcp of the kernel's documentation).
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, own) = fields.get(1)?.rsplit_once(':')?;
        let own = u16::from_str_radix(own, 16).ok()?;
        let listens = own == port && *fields.get(3)? == "0A";
        let inode = fields.get(9)?;
        listens.then(|| format!("socket:[{inode}]").into())
    };
    let tables = ["tcp", "tcp6"]
        .iter()
        .filter_map(|t| std::fs::read_to_string(format!("/proc/{process}/net/{t}")).ok());
    let listening: Vec<std::path::PathBuf> = tables
        .flat_map(|t| t.lines().filter_map(inode).collect::<Vec<_>>())
        .collect();
    let Ok(open) = std::fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    let mut targets = open
        .flatten()
        .filter_map(|f| std::fs::read_link(f.path()).ok());
    targets.any(|t| listening.contains(&t))
}

/// Bytes that another process may read here.
#[derive(Debug)]
pub(crate) struct Loan {
    bytes: Bytes,
    token: u64,
    mark: Box<AtomicU64>,
}

impl Loan {
    pub(crate) fn new(bytes: Bytes) -> Loan {
        // Another value than whatever was or will be there.
        let token = RandomState::new().hash_one(bytes.len()) | 1;
        Loan {
            bytes,
            token,
            mark: Box::new(AtomicU64::new(token)),
        }
    }

    pub(crate) fn message(&self) -> wire::Loan {
        wire::Loan {
            at: self.bytes.as_ptr().expose_provenance() as u64,
            mark: self.mark.as_ptr().expose_provenance() as u64,
            token: self.token,
        }
    }
}

/// What is lent on one stream, by token.
#[derive(Debug, Default)]
pub(crate) struct Loans(Mutex<BTreeMap<u64, Loan>>);

impl Loans {
    /// Lends these bytes.
    pub(crate) fn lend(&self, bytes: Bytes) -> wire::Loan {
        let loan = Loan::new(bytes);
        let message = loan.message();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(loan.token, loan);
        message
    }

    /// The receiver has what it knows by this token.
    pub(crate) fn taken(&self, token: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let loan = all.remove(&token);
        drop(all);
        drop(loan);
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // Before anybody can write to the bytes.
        self.mark.store(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

/// Bytes that this process reads from another.
pub(crate) struct Borrowed {
    from: Near,
    loan: wire::Loan,
    read: u64,
}

impl Borrowed {
    pub(crate) fn new(from: Near, loan: wire::Loan) -> Borrowed {
        Borrowed {
            from,
            loan,
            read: 0,
        }
    }

    /// Reads on.
    ///
    /// # Errors
    /// The process is gone, or does not have the bytes.
    pub(crate) fn fill(&mut self, into: &mut [u8]) -> Result<(), WireError> {
        let at = self.loan.at.checked_add(self.read);
        let at = at.ok_or(WireError::Expected("an address"))?;
        read(self.from.process, at, into)?;
        self.read += into.len() as u64;
        Ok(())
    }

    /// Looks whether what was read was lent all the while.
    ///
    /// # Errors
    /// It was not.
    pub(crate) fn end(self) -> Result<(), WireError> {
        fence(Ordering::SeqCst);
        let mut mark = [0; 8];
        read(self.from.process, self.loan.mark, &mut mark)?;
        match u64::from_ne_bytes(mark) == self.loan.token {
            true => Ok(()),
            false => Err(WireError::Broken("a value was taken back".to_owned())),
        }
    }
}

/// Reads memory of another process.
#[cfg(target_os = "linux")]
fn read(process: u32, at: u64, into: &mut [u8]) -> Result<(), WireError> {
    use nix::sys::uio::{RemoteIoVec, process_vm_readv};
    use nix::unistd::Pid;

    let broken = |why: &dyn std::fmt::Display| {
        WireError::Memory(format!("the memory of process {process}: {why}"))
    };
    let pid = i32::try_from(process).map_err(|e| broken(&e))?;
    let mut done = 0;
    while done < into.len() {
        let rest = &mut into[done..];
        let base = usize::try_from(at).ok().and_then(|at| at.checked_add(done));
        let remote = RemoteIoVec {
            base: base.ok_or_else(|| broken(&"no address"))?,
            len: rest.len(),
        };
        let mut local = [std::io::IoSliceMut::new(rest)];
        match process_vm_readv(Pid::from_raw(pid), &mut local, &[remote]) {
            Ok(0) => return Err(broken(&"it ends")),
            Ok(n) => done += n,
            Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(broken(&e)),
        }
    }
    Ok(())
}

/// Other systems have no such call: no nonce is ever found.
#[cfg(not(target_os = "linux"))]
fn read(_: u32, _: u64, _: &mut [u8]) -> Result<(), WireError> {
    Err(WireError::Memory(
        "memory is read on Linux alone".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use thalweg_graph::{DeviceSpec, Graph};
    use thalweg_ops::{NewGraph, StateOps};

    use super::*;
    use crate::{ClusterOptions, ClusterSpec, Server, ServerOptions, Session};

    impl Near {
        /// This process, as another one would know it.
        pub(crate) fn own() -> Near {
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            let nonce = Nonce::new();
            let shown = Shown::new(nonce.message()).unwrap();
            let port = socket.local_addr().unwrap().port();
            nonce.find(&shown.message(7), port).unwrap()
        }
    }

    #[test]
    fn a_process_is_near_only_where_the_nonce_is_found() {
        assert_eq!(Near::own().incarnation, 7);
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let nonce = Nonce::new();
        let other = Shown::new(Nonce::new().message()).unwrap();
        assert_eq!(nonce.find(&other.message(7), port), None);
        let shown = Shown::new(nonce.message()).unwrap();
        let said = shown.message(7);
        assert!(nonce.find(&said, port).is_some());
        // Somebody else listens there, or nobody.
        drop(socket);
        assert_eq!(nonce.find(&said, port), None);
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        for wrong in [
            wire::Nearby { at: 0, ..said },
            wire::Nearby {
                at: u64::MAX - 3,
                ..said
            },
            wire::Nearby { process: 0, ..said },
            wire::Nearby {
                process: u32::MAX,
                ..said
            },
        ] {
            assert_eq!(nonce.find(&wrong, port), None, "{wrong:?}");
        }
        let short = wire::Near { nonce: vec![1; 15] };
        assert!(Shown::new(short).is_err());
    }

    #[test]
    fn what_is_lent_is_read_and_what_is_taken_back_is_not() {
        let bytes: Vec<u8> = (0..3_000_017).map(|i| i as u8).collect();
        let loan = Loan::new(Bytes::from(bytes.clone()));
        let said = loan.message();
        let mut found = vec![0; bytes.len()];
        let mut borrowed = Borrowed::new(Near::own(), said);
        let (first, rest) = found.split_at_mut(12_345);
        borrowed.fill(first).unwrap();
        borrowed.fill(rest).unwrap();
        borrowed.end().unwrap();
        assert!(found == bytes);

        let mut borrowed = Borrowed::new(Near::own(), said);
        borrowed.fill(&mut found[..10]).unwrap();
        drop(loan);
        assert!(borrowed.end().is_err());
    }

    /// How many values the worker and the server have read from each other's memory, once both have
    /// given back what they lent.
    fn lent(near: bool) -> (u64, u64) {
        const LENGTH: usize = 1 << 18;
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [a, b] = sockets
            .each_ref()
            .map(|s| s.local_addr().unwrap().to_string());
        drop(sockets);
        let cluster = ClusterSpec::new([("ps", [a]), ("worker", [b])]).unwrap();
        let [ps, worker] = ["ps", "worker"].map(|job| {
            let mut options = ServerOptions::listening("");
            options.near = near;
            options.session.threads = 1;
            Server::new(cluster.clone(), job, 0, options).unwrap()
        });
        let g = Graph::new();
        let on = |job: &str| format!("/job:{job}/task:0").parse::<DeviceSpec>().unwrap();
        let w = g.device(on("ps"), || g.variable("w", vec![1.0f32; LENGTH]));
        let read = w.read();
        let next = g.device(on("worker"), || read + read);
        let add = w.assign_add(next);
        let session = Session::on(&worker, &g, ClusterOptions::default()).unwrap();
        session.run(g.initializers(), []).unwrap();
        for _ in 0..3 {
            session.run(add, []).unwrap();
        }
        let found = session.run(w.read(), []).unwrap();
        assert!(found.slice::<f32>(0).unwrap().iter().all(|&v| v == 27.0));
        drop(session);
        while ps.worker().held() != (0, 0, LENGTH * 4) || worker.worker().held() != (0, 0, 0) {
            std::thread::yield_now();
        }
        let copied = |from: &Server, of: &Server| {
            let task = of.task();
            let address = cluster.address(&task.0, task.1).unwrap();
            let peer = from.worker().peers.get(task, address).unwrap();
            peer.copied.load(Ordering::Relaxed)
        };
        (copied(&worker, &ps), copied(&ps, &worker))
    }

    #[test]
    fn large_values_between_servers_of_one_machine_are_lent_and_given_back() {
        assert_eq!(lent(true), (3, 3));
        assert_eq!(lent(false), (0, 0));
    }

    #[tokio::test]
    async fn only_this_machine_is_here() {
        assert_eq!(here("127.0.0.1:2222").await, Some(2222));
        assert_eq!(here("localhost:2222").await, Some(2222));
        // Addresses for documents, which nobody has.
        assert_eq!(here("192.0.2.1:2222").await, None);
        assert_eq!(here("[2001:db8::1]:2222").await, None);
        assert_eq!(here("no such host:1").await, None);
    }
}
