//! Estimate of the global step, which avoids reading it in each step.

/// Known bounds of the global step between two reads of it.
#[derive(Default)]
pub(super) struct GlobalStepEstimate {
    /// The last value that was read, from before its step.
    last: Option<i64>,
    /// Number of steps of this session since then.
    steps: i64,
    /// Largest growth per step of this session; unknown before the second read.
    pace: Option<i64>,
}

/// Largest number of steps between two reads of the global step: other threads may train the same variables.
const MAX_STEPS_BETWEEN_READS: i64 = 16;

impl GlobalStepEstimate {
    /// `true` if the global step may be `from` or later at the next step.
    pub(super) fn may_reach(&self, from: i64) -> bool {
        let (Some(last), Some(pace)) = (self.last, self.pace) else {
            return true;
        };
        let ahead = (self.steps + 1).saturating_mul(pace);
        self.steps >= MAX_STEPS_BETWEEN_READS || last.saturating_add(ahead) >= from
    }

    /// Records a step, with the global step if it was read.
    pub(super) fn ran(&mut self, found: Option<i64>) {
        self.steps += 1;
        if let Some(found) = found {
            if let Some(last) = self.last {
                let grown = found.saturating_sub(last);
                let paced = grown.saturating_add(self.steps - 1) / self.steps;
                self.pace = self.pace.max(Some(paced.max(1)));
            }
            (self.last, self.steps) = (Some(found), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists the steps of a session that read the global step, if each adds `pace` and a hook is due from `from` on.
    fn read_at(pace: i64, from: i64, steps: i64) -> Vec<i64> {
        let mut known = GlobalStepEstimate::default();
        let step = |i: i64| {
            let reads = known.may_reach(from);
            known.ran(reads.then_some(i * pace));
            reads.then_some(i)
        };
        (0..steps).filter_map(step).collect()
    }

    #[test]
    fn due_steps_are_not_missed_however_fast_the_global_step_grows() {
        for pace in [1, 2, 7] {
            for from in [1, 5, 40, 100] {
                let read = read_at(pace, from, 200);
                let due = (from + pace - 1) / pace;
                assert!(
                    read.contains(&due),
                    "pace {pace}, due from {from}: {read:?}"
                );
            }
        }
    }

    #[test]
    fn the_global_step_is_read_at_least_every_sixteen_steps() {
        let read = read_at(1, i64::MAX - 1, 100);
        let apart = |w: &[i64]| w[1] - w[0] == MAX_STEPS_BETWEEN_READS + 1;
        assert!(read[1..].windows(2).all(apart), "{read:?}");
        // The pace is known after two reads; when the hook is due, each step reads it.
        assert_eq!(read_at(1, 4, 7), [0, 1, 4, 5, 6]);
    }
}
