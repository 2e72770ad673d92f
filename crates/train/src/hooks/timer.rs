//! Timer: triggers a hook in intervals of steps or time.

use std::time::{Duration, Instant};

/// Interval of a timer: TensorFlow's `SecondOrStepTimer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Number of global steps.
    Steps(u64),
    /// Time.
    Time(Duration),
}

impl Every {
    /// An interval of seconds.
    pub fn secs(seconds: u64) -> Every {
        Every::Time(Duration::from_secs(seconds))
    }
}

/// Reports when an action is due: at the first call, and then once per interval.
///
/// ```
/// use thalweg_train::hooks::{Every, Timer};
///
/// let mut timer = Timer::new(Every::Steps(10));
/// assert!(timer.is_due(5));
/// timer.done(5);
/// assert!(!timer.is_due(14));
/// assert!(timer.is_due(15));
/// // After a restore of step 3.
/// assert!(timer.is_due(3));
/// ```
#[derive(Clone, Debug)]
pub struct Timer {
    every: Every,
    last: Option<(i64, Instant)>,
}

impl Timer {
    /// Creates a timer that is due.
    pub fn new(every: Every) -> Timer {
        Timer { every, last: None }
    }

    /// `true` if it is due at this step. It is due at most once for each step, and again if the step has gone back.
    pub fn is_due(&self, step: i64) -> bool {
        let Some((last, at)) = self.last else {
            return true;
        };
        match self.every {
            _ if step == last => false,
            // A restore moves the global step back.
            _ if step < last => true,
            Every::Steps(steps) => {
                step.saturating_sub(last) >= i64::try_from(steps).unwrap_or(i64::MAX)
            }
            Every::Time(time) => at.elapsed() >= time,
        }
    }

    /// First step at which it may be due; for intervals of time, the first of all.
    pub fn due_from(&self) -> i64 {
        match (self.every, self.last) {
            (Every::Steps(steps), Some((last, _))) => {
                last.saturating_add(i64::try_from(steps).unwrap_or(i64::MAX))
            }
            _ => i64::MIN,
        }
    }

    /// Records that the action ran at this step. Returns the steps and the time since it ran before.
    pub fn done(&mut self, step: i64) -> Option<(i64, Duration)> {
        let now = Instant::now();
        let before = self.last.replace((step, now));
        before.map(|(last, at)| (step.saturating_sub(last), now.duration_since(at)))
    }

    /// Step at which the action ran last.
    pub fn last_step(&self) -> Option<i64> {
        self.last.map(|(step, _)| step)
    }
}
