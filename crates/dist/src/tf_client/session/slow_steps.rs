//! Finds the node that makes a step slow.
//!
//! Nodes are not measured while steps are fast. After a slow step, the next one with the same fetches is traced.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::tf_client::request::Request;

/// Hash of the fetches and targets of the last slow step; 0 if there was none, or if it was traced.
#[derive(Default)]
pub(super) struct SlowStepWatch(AtomicU64);

impl SlowStepWatch {
    pub(super) fn note(&self, request: &Request) {
        self.0.store(number(request), Relaxed);
    }

    /// `true` if this step has to be traced: once after each slow step.
    pub(super) fn watches(&self, request: &Request) -> bool {
        let slow = self.0.load(Relaxed);
        let watches = slow != 0 && slow == number(request);
        if watches {
            self.0.store(0, Relaxed);
        }
        watches
    }
}

fn number(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&request.fetches, &request.targets).hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_with_the_fetches_of_a_slow_one_is_traced() {
        let request = |fetch: &str| Request {
            fetches: vec![fetch.to_owned()],
            ..Request::default()
        };
        let slow = SlowStepWatch::default();
        assert!(!slow.watches(&request("loss")));
        slow.note(&request("loss"));
        assert!(!slow.watches(&request("accuracy")));
        assert!(slow.watches(&request("loss")));
        assert!(!slow.watches(&request("loss")));
    }
}
