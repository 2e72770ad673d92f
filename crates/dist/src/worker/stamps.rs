//! Deduplication of parts that run exactly once: the last stamp of each that has run, with its result.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;

use crate::error::ClusterError;
use crate::runtime::lock::locked;
use crate::transport::messages as wire;

/// State of the stamps, by name.
#[derive(Default)]
pub(super) struct StampLog(Mutex<HashMap<String, StampState>>);

pub(super) type StampedResult = Result<(), ClusterError>;

#[derive(Default)]
pub(super) struct StampState {
    /// The last stamp that has run to its end.
    pub(super) last: u64,
    pub(super) running: Option<(u64, watch::Receiver<Option<StampedResult>>)>,
}

impl StampLog {
    pub(super) fn stamps(&self) -> MutexGuard<'_, HashMap<String, StampState>> {
        locked(&self.0)
    }

    pub(super) fn ended(&self, of: &wire::Once, ended: &StampedResult) {
        if let Some(stamps) = self.stamps().get_mut(&of.name) {
            stamps.running = None;
            if ended.is_ok() {
                stamps.last = of.stamp;
            }
        }
    }
}
