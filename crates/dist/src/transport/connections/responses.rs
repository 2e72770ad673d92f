//! Progress of responses: detects clients that do not read them.
//!
//! The transport polls a response for its next piece when the peer's flow-control window has room. A peer that gives
//! no room keeps the response, and all that it holds, in memory. Such a peer need not be dead: it may answer pings
//! all the while.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// Factor of the timeout of a response while others of its connection progress: they share the line.
const SHARED_LINE_FACTOR: u32 = 10;

/// Progress of one response.
pub(crate) struct ResponseProgress {
    /// Number of pieces that were polled.
    asked: AtomicU64,
    /// `true` if a piece waits for room in the peer's window.
    ready: AtomicBool,
}

impl ResponseProgress {
    fn new() -> ResponseProgress {
        ResponseProgress {
            asked: AtomicU64::new(0),
            ready: AtomicBool::new(true),
        }
    }

    /// Notes that a piece was polled; `ready` if there was one.
    pub(crate) fn asked(&self, ready: bool) {
        self.asked.fetch_add(1, Relaxed);
        self.ready.store(ready, Relaxed);
    }
}

/// A response, and its progress at the last sweep.
struct SeenResponse {
    answer: Weak<ResponseProgress>,
    asked: u64,
    /// Begin of its wait. `None` before its first sweep.
    since: Option<Instant>,
}

/// Responses of one connection.
#[derive(Default)]
pub(super) struct ConnectionResponses {
    open: Vec<SeenResponse>,
    /// Time of the last progress of any response.
    moved: Option<Instant>,
}

impl ConnectionResponses {
    /// Adds a response, until the returned value is dropped.
    pub(super) fn begin(&mut self) -> Arc<ResponseProgress> {
        let answer = Arc::new(ResponseProgress::new());
        self.open.push(SeenResponse {
            answer: Arc::downgrade(&answer),
            asked: 0,
            since: None,
        });
        answer
    }

    /// Sweeps all responses. `true` if one waits for too long.
    pub(super) fn stuck(&mut self, now: Instant, heartbeat: Duration) -> bool {
        let mut moved = self.moved.unwrap_or(now);
        self.open.retain_mut(|seen| {
            let Some(answer) = seen.answer.upgrade() else {
                moved = now;
                return false;
            };
            let asked = answer.asked.load(Relaxed);
            if asked != seen.asked {
                (seen.asked, moved) = (asked, now);
                seen.since = Some(now);
            }
            if !answer.ready.load(Relaxed) || seen.since.is_none() {
                seen.since = Some(now);
            }
            true
        });
        self.moved = Some(moved);
        let all_rest = now.duration_since(moved) > heartbeat;
        let most = if all_rest {
            heartbeat
        } else {
            SHARED_LINE_FACTOR * heartbeat
        };
        let waits =
            |seen: &SeenResponse| seen.since.map_or(Duration::ZERO, |s| now.duration_since(s));
        self.open.iter().any(|seen| waits(seen) > most)
    }

    /// Returns the number of responses that wait for the peer.
    pub(super) fn waiting(&self) -> usize {
        let ready = |seen: &&SeenResponse| {
            let answer = seen.answer.upgrade();
            answer.is_some_and(|a| a.ready.load(Relaxed))
        };
        self.open.iter().filter(ready).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: Duration = Duration::from_secs(3);

    #[test]
    fn an_unread_response_is_stuck_and_a_response_without_data_is_not() {
        let mut answers = ConnectionResponses::default();
        let (taken, silent) = (answers.begin(), answers.begin());
        let began = Instant::now();
        let at = |seconds: u32| began + Duration::from_secs(1) * seconds;
        silent.asked(false);
        assert!(!answers.stuck(at(0), HEARTBEAT));
        assert_eq!(answers.waiting(), 1);
        for second in 1..20 {
            taken.asked(true);
            assert!(!answers.stuck(at(second), HEARTBEAT));
        }
        assert!(!answers.stuck(at(22), HEARTBEAT));
        assert!(answers.stuck(at(23), HEARTBEAT));
        drop(taken);
        assert!(!answers.stuck(at(60), HEARTBEAT));
    }

    #[test]
    fn a_response_beside_active_ones_has_more_time() {
        let mut answers = ConnectionResponses::default();
        let (_waits, moves) = (answers.begin(), answers.begin());
        let began = Instant::now();
        let mut seconds = 0;
        while !answers.stuck(began + Duration::from_secs(seconds), HEARTBEAT) {
            moves.asked(true);
            seconds += 1;
        }
        assert_eq!(seconds, 31);
    }
}
