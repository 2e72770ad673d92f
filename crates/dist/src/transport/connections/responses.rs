//! Answers on their way out, and whether whoever asked for them takes them.
//!
//! The transport asks an answer for its next piece when the other side has room for it. A side that gives no room keeps
//! the answer, and what it holds, in memory. That is no sign of a dead process: it may answer pings all the while.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// An answer may wait so many times as long while others of its connection go on: they share the line.
const SHARED_LINE_FACTOR: u32 = 10;

/// One answer.
pub(crate) struct ResponseProgress {
    /// How many pieces were asked for.
    asked: AtomicU64,
    /// Whether the other side has to make room: the server has something to say.
    ready: AtomicBool,
}

impl ResponseProgress {
    fn new() -> ResponseProgress {
        ResponseProgress {
            asked: AtomicU64::new(0),
            ready: AtomicBool::new(true),
        }
    }

    /// Notes that a piece was asked for, and whether there was one.
    pub(crate) fn asked(&self, ready: bool) {
        self.asked.fetch_add(1, Relaxed);
        self.ready.store(ready, Relaxed);
    }
}

/// An answer, and what was last seen of it.
struct SeenResponse {
    answer: Weak<ResponseProgress>,
    asked: u64,
    /// Since when it has waited; none before it was looked at.
    since: Option<Instant>,
}

/// The answers of one connection.
#[derive(Default)]
pub(super) struct ConnectionResponses {
    open: Vec<SeenResponse>,
    /// When one of them went on.
    moved: Option<Instant>,
}

impl ConnectionResponses {
    /// One more, which is gone when it is dropped.
    pub(super) fn begin(&mut self) -> Arc<ResponseProgress> {
        let answer = Arc::new(ResponseProgress::new());
        self.open.push(SeenResponse {
            answer: Arc::downgrade(&answer),
            asked: 0,
            since: None,
        });
        answer
    }

    /// Looks at all of them: whether one waits for too long.
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

    /// How many of them wait for the other side.
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
