//! NCCL communicators of a rank's GPUs, one for each set of ranks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use thalweg_device::gpu::Communicator;

/// A communicator, once the ranks have met.
pub(super) type Slot = Arc<Mutex<Option<Arc<Communicator>>>>;

/// Communicators of a rank's GPUs, and their wait for other ranks.
#[derive(Default)]
pub(super) struct Communicators {
    /// By set of ranks, number of the GPU in its task, and address of its card's driver.
    pub(super) by_set: HashMap<(i32, u32, usize), Slot>,
    /// Since when a GPU waits for those of other ranks.
    pub(super) waits_since: Option<Instant>,
}
