//! Communicators: the connection of one GPU of each rank.

use std::sync::Arc;

use super::{Driver, GpuError, Handle, KeepWaiting};

/// A communicator: a GPU's connection to those of other ranks.
#[derive(Debug)]
pub struct Communicator {
    driver: Arc<dyn Driver>,
    handle: Handle,
    members: Vec<usize>,
}

impl Communicator {
    /// Meets the GPUs of these ranks, in this order, of which this is the one at `place`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn meet(
        driver: &Arc<dyn Driver>,
        identity: &[u8],
        (members, place): (Vec<usize>, usize),
        keep_waiting: KeepWaiting,
    ) -> Result<Communicator, GpuError> {
        let communicators = driver.communicators()?;
        let handle = communicators.meet(identity, place, members.len(), keep_waiting)?;
        Ok(Communicator {
            driver: driver.clone(),
            handle,
            members,
        })
    }

    /// The driver's number for it.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// The place of a rank, numbered among all.
    pub fn place_of(&self, rank: usize) -> Option<usize> {
        self.members.iter().position(|&m| m == rank)
    }

    /// As [`Communicators::abort`](super::communicators::Communicators::abort).
    pub fn abort(&self) {
        if let Ok(communicators) = self.driver.communicators() {
            communicators.abort(self.handle);
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if let Ok(communicators) = self.driver.communicators() {
            communicators.drop_communicator(self.handle);
        }
    }
}
