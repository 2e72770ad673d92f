//! When a hook is due.

use std::time::{Duration, Instant};

/// How often something is due: TensorFlow's `SecondOrStepTimer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// After so many steps of the global step.
    Steps(u64),
    /// After so much time.
    Time(Duration),
}

impl Every {
    /// Every so many seconds.
    pub fn secs(seconds: u64) -> Every {
        Every::Time(Duration::from_secs(seconds))
    }
}

/// Tells when something is due: the first time that it is asked, and then once in each interval.
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
    /// One that is due.
    pub fn new(every: Every) -> Timer {
        Timer { every, last: None }
    }

    /// Whether it is due at this step. It is due once for each step at most, and again where the step has gone back.
    pub fn is_due(&self, step: i64) -> bool {
        let Some((last, at)) = self.last else {
            return true;
        };
        match self.every {
            _ if step == last => false,
            // A restore has gone back.
            _ if step < last => true,
            Every::Steps(steps) => {
                step.saturating_sub(last) >= i64::try_from(steps).unwrap_or(i64::MAX)
            }
            Every::Time(time) => at.elapsed() >= time,
        }
    }

    /// From which step on it may be due; of one that goes by time, from the first on.
    pub fn due_from(&self) -> i64 {
        match (self.every, self.last) {
            (Every::Steps(steps), Some((last, _))) => {
                last.saturating_add(i64::try_from(steps).unwrap_or(i64::MAX))
            }
            _ => i64::MIN,
        }
    }

    /// Notes that it was done at this step; gives the steps and the time since it was done before.
    pub fn done(&mut self, step: i64) -> Option<(i64, Duration)> {
        let now = Instant::now();
        let before = self.last.replace((step, now));
        before.map(|(last, at)| (step.saturating_sub(last), now.duration_since(at)))
    }

    /// When it was done last: at which step.
    pub fn last_step(&self) -> Option<i64> {
        self.last.map(|(step, _)| step)
    }
}
