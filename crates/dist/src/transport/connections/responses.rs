//! Answers on their way out, and whether whoever asked for them takes them.
//!
//! The transport asks an answer for its next piece when the other side has room for it. A side that gives no room keeps
//! the answer, and what it holds, in memory. That is no sign of a dead process: it may answer pings all the while.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// An answer may wait so many times as long while others of its connection go on: they share the line.
const SHARED: u32 = 10;

/// One answer.
pub(crate) struct Answer {
    /// How many pieces were asked for.
    asked: AtomicU64,
    /// Whether the other side has to make room: the server has something to say.
    ready: AtomicBool,
}

impl Answer {
    fn new() -> Answer {
        Answer {
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
struct Seen {
    answer: Weak<Answer>,
    asked: u64,
    /// Since when it has waited; none before it was looked at.
    since: Option<Instant>,
}

/// The answers of one connection.
#[derive(Default)]
pub(super) struct Answers {
    open: Vec<Seen>,
    /// When one of them went on.
    moved: Option<Instant>,
}

impl Answers {
    /// One more, which is gone when it is dropped.
    pub(super) fn begin(&mut self) -> Arc<Answer> {
        let answer = Arc::new(Answer::new());
        self.open.push(Seen {
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
            SHARED * heartbeat
        };
        let waits = |seen: &Seen| seen.since.map_or(Duration::ZERO, |s| now.duration_since(s));
        self.open.iter().any(|seen| waits(seen) > most)
    }

    /// How many of them wait for the other side.
    pub(super) fn waiting(&self) -> usize {
        let ready = |seen: &&Seen| {
            let answer = seen.answer.upgrade();
            answer.is_some_and(|a| a.ready.load(Relaxed))
        };
        self.open.iter().filter(ready).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(3);

    #[test]
    fn an_answer_that_nobody_takes_is_stuck_and_one_that_has_nothing_to_say_is_not() {
        let mut answers = Answers::default();
        let (taken, silent) = (answers.begin(), answers.begin());
        let began = Instant::now();
        let at = |seconds: u32| began + Duration::from_secs(1) * seconds;
        silent.asked(false);
        assert!(!answers.stuck(at(0), SILENCE));
        assert_eq!(answers.waiting(), 1);
        for second in 1..20 {
            taken.asked(true);
            assert!(!answers.stuck(at(second), SILENCE));
        }
        assert!(!answers.stuck(at(22), SILENCE));
        assert!(answers.stuck(at(23), SILENCE));
        drop(taken);
        assert!(!answers.stuck(at(60), SILENCE));
    }

    #[test]
    fn an_answer_that_shares_its_line_has_more_time_and_not_all_time() {
        let mut answers = Answers::default();
        let (_waits, moves) = (answers.begin(), answers.begin());
        let began = Instant::now();
        let mut seconds = 0;
        while !answers.stuck(began + Duration::from_secs(seconds), SILENCE) {
            moves.asked(true);
            seconds += 1;
        }
        assert_eq!(seconds, 31);
    }
}
