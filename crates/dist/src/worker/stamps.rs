//! Deduplication of parts that run exactly once: the last stamp of each that has run, with its result.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use thalweg_tensor::sync::Unpoisoned;
use tokio::sync::watch;

use crate::error::ClusterError;
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
        self.0.lock().unpoisoned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_succeeds_advances_the_stamp() {
        let log = StampLog::default();
        let once = |name: &str, stamp| wire::Once {
            name: name.to_owned(),
            stamp,
        };
        let state = || {
            let stamps = log.stamps();
            let known = stamps.get("t").unwrap();
            (known.last, known.running.is_some())
        };
        let begin = |stamp| {
            let running = (stamp, watch::channel(None).1);
            let mut stamps = log.stamps();
            stamps.entry("t".to_owned()).or_default().running = Some(running);
        };
        begin(3);
        log.ended(&once("t", 3), &Err(ClusterError::invalid("it fails")));
        assert_eq!(state(), (0, false));
        begin(3);
        // Of another training.
        log.ended(&once("u", 9), &Ok(()));
        assert_eq!(state(), (0, true));
        log.ended(&once("t", 3), &Ok(()));
        assert_eq!(state(), (3, false));
        assert_eq!(log.stamps().len(), 1);
    }
}
