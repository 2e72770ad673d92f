//! Values between processes of one machine: the one that receives reads them from the memory of the one
//! that sends (`process_vm_readv`). That is one copy, where a connection takes two and the network's
//! work for each packet.
//!
//! A caller first shows itself that it can: it sends a nonce, is told of a process and an address, and
//! finds the nonce there ([`prove`]). A value that is lent ([`Loan`]) stays in its place until the
//! receiver has dropped the stream that tells of it. A mark beside it says that it still is lent; a
//! receiver looks at the mark once it has the bytes, so that it never takes what was written there
//! afterwards. Only addresses of this machine are asked, so that nobody elsewhere can name memory.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering, fence};

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

    /// The process that has it where it says, if it can be read.
    pub(crate) fn find(&self, said: &wire::Nearby) -> Option<Near> {
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

/// Whether a host (`name:port`) is this machine, all of its addresses.
pub(crate) async fn is_here(address: &str) -> bool {
    // Only what is an address of this machine can be bound to.
    let own = |ip: IpAddr| UdpSocket::bind((ip, 0)).is_ok();
    match tokio::net::lookup_host(address).await {
        Ok(mut all) => {
            let mut any = false;
            all.all(|a| {
                any = true;
                own(a.ip())
            }) && any
        }
        Err(_) => false,
    }
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
        WireError::Broken(format!("the memory of process {process}: {why}"))
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
    Err(WireError::Broken(
        "memory is read on Linux alone".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Near {
        /// This process, as another one would know it.
        pub(crate) fn own() -> Near {
            let nonce = Nonce::new();
            let shown = Shown::new(nonce.message()).unwrap();
            nonce.find(&shown.message(7)).unwrap()
        }
    }

    #[test]
    fn a_process_is_near_only_where_the_nonce_is_found() {
        assert_eq!(Near::own().incarnation, 7);
        let nonce = Nonce::new();
        let other = Shown::new(Nonce::new().message()).unwrap();
        assert_eq!(nonce.find(&other.message(7)), None);
        let shown = Shown::new(nonce.message()).unwrap();
        let said = shown.message(7);
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
            assert_eq!(nonce.find(&wrong), None, "{wrong:?}");
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

    #[tokio::test]
    async fn only_this_machine_is_here() {
        assert!(is_here("127.0.0.1:2222").await);
        assert!(is_here("localhost:2222").await);
        // Addresses for documents, which nobody has.
        assert!(!is_here("192.0.2.1:2222").await);
        assert!(!is_here("[2001:db8::1]:2222").await);
        assert!(!is_here("no such host:1").await);
    }
}
