//! List schedule: an estimate of the start and end of each instruction of a program on several threads.
//!
//! The compiler of plans makes one while it builds a program. The arena uses it: memory whose last users are done by then
//! costs no waiting.

use smallvec::SmallVec;

/// List schedule (Graham, 1969): each instruction runs on the thread that keeps it waiting least,
/// in the order in which the instructions are added.
///
/// Times are nanoseconds from the start of the program.
pub struct ListSchedule {
    /// By thread: the end of all that it was given.
    free: SmallVec<[u64; 4]>,
    /// By instruction: its end.
    done: Vec<u64>,
}

impl ListSchedule {
    /// Empty schedule of so many threads.
    pub fn new(threads: usize) -> ListSchedule {
        ListSchedule {
            free: SmallVec::from_elem(0, threads.max(1)),
            done: Vec::new(),
        }
    }

    /// Start of the next instruction, if it waits for these.
    pub fn start(&self, waits_for: &[u32]) -> u64 {
        let free = self.free.iter().copied().min().unwrap_or(0);
        free.max(self.latest(waits_for))
    }

    /// End of the last of these instructions.
    pub fn latest(&self, instructions: &[u32]) -> u64 {
        let done = instructions.iter().map(|&i| self.done[i as usize]);
        done.max().unwrap_or(0)
    }

    /// Adds the next instruction, which takes so many nanoseconds.
    pub fn add(&mut self, waits_for: &[u32], cost: u64) {
        let ready = self.latest(waits_for);
        // Of the threads that are free by then the one that was busy last: its gap is the smallest.
        let gap = |&at: &usize| match self.free[at] {
            free if free <= ready => (false, ready - free),
            free => (true, free - ready),
        };
        let thread = (0..self.free.len()).min_by_key(gap).unwrap_or(0);
        let done = self.free[thread].max(ready).saturating_add(cost);
        self.free[thread] = done;
        self.done.push(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_one_thread_an_instruction_begins_when_all_before_it_have_run() {
        let mut schedule = ListSchedule::new(1);
        schedule.add(&[], 10);
        schedule.add(&[], 5);
        assert_eq!(schedule.start(&[]), 15);
        assert_eq!(schedule.latest(&[0, 1]), 15);
    }

    #[test]
    fn on_two_threads_independent_instructions_run_at_the_same_time() {
        let mut schedule = ListSchedule::new(2);
        schedule.add(&[], 10);
        schedule.add(&[0], 10);
        assert_eq!(
            schedule.start(&[]),
            0,
            "the second thread has nothing to do"
        );
        assert_eq!(schedule.start(&[1]), 20);
        schedule.add(&[], 15);
        assert_eq!(schedule.start(&[]), 15);
    }
}
