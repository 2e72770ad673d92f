//! Stamps of the parts that have run once and to their end.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;

use crate::error::ClusterError;
use crate::runtime::lock::locked;
use crate::transport::messages as wire;

/// What has run once, by the name of the stamps.
#[derive(Default)]
pub(super) struct Once(Mutex<HashMap<String, Stamps>>);

pub(super) type Ended = Result<(), ClusterError>;

#[derive(Default)]
pub(super) struct Stamps {
    /// The last that has run to its end.
    pub(super) last: u64,
    pub(super) running: Option<(u64, watch::Receiver<Option<Ended>>)>,
}

impl Once {
    pub(super) fn stamps(&self) -> MutexGuard<'_, HashMap<String, Stamps>> {
        locked(&self.0)
    }

    pub(super) fn ended(&self, of: &wire::Once, ended: &Ended) {
        if let Some(stamps) = self.stamps().get_mut(&of.name) {
            stamps.running = None;
            if ended.is_ok() {
                stamps.last = of.stamp;
            }
        }
    }
}
