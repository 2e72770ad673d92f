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

mod machine;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::wire::WireError;
use crate::wire::messages as wire;

use machine::listens;
pub(crate) use machine::{here, is_own};

/// Values from this size on are lent, in bytes: a loan takes system calls and a message of its own.
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
            false => Err(WireError::Broken(
                "a value was taken back before it was read: this process stood still for longer than \
                 others wait for it. Run the step again"
                    .to_owned(),
            )),
        }
    }
}

/// Reads memory of another process.
#[cfg(target_os = "linux")]
fn read(process: u32, at: u64, into: &mut [u8]) -> Result<(), WireError> {
    use nix::sys::uio::{RemoteIoVec, process_vm_readv};
    use nix::unistd::Pid;

    let broken = |why: &dyn std::fmt::Display| {
        WireError::Memory(format!(
            "the memory of process {process} cannot be read ({why}): run the step again, its values then \
             come over the connection"
        ))
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
mod tests;
