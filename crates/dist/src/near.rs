//! Values between processes of one machine: the one that receives maps the memory of the one that sends,
//! and reads them in place; or, where they do not lie in shared memory, copies them from there
//! (`process_vm_readv`). That is no copy or one, where a connection takes two and the network's work for
//! each packet.
//!
//! A caller first shows itself that it can: it sends a nonce, is told of a process and an address, and
//! finds the nonce there ([`Nonce::find`]). The process must be the one that listens at the address that
//! was called, so that nobody can name another one's memory; and both only speak of memory to who is on
//! this machine. A value that is lent ([`lend`]) stays in its place until the receiver has said that it
//! reads it no more, or has dropped the stream that tells of it; [`borrow`] is the receiver's side.

mod borrow;
mod lend;
mod machine;

use std::hash::{BuildHasher, RandomState};

use crate::wire::WireError;
use crate::wire::messages as wire;

pub(crate) use borrow::{Borrowed, Maps};
#[cfg(test)]
pub(crate) use lend::Loan;
pub(crate) use lend::Loans;
use machine::listens;
pub(crate) use machine::{here, is_own};

/// Values from this size on are lent, in bytes: a loan takes a message of its own, and may take system calls.
pub(crate) const LEAST: usize = thalweg_tensor::LEAST_SHARED;
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
