//! NCCL communicators of a rank's GPUs, one for each set of ranks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use thalweg_device::gpu::Communicator;

/// Communicators of a rank's GPUs, and their wait for other ranks.
#[derive(Default)]
pub(super) struct Communicators {
    /// By set of ranks, and the address of a card's driver.
    pub(super) by_set: HashMap<(i32, usize), Arc<Communicator>>,
    /// Since when a GPU waits for those of other ranks.
    pub(super) waits_since: Option<Instant>,
}
