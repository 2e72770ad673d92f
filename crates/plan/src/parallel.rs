//! Whether a step is shorter when instructions that do not wait for each other run at the same
//! time.

use thalweg_device::Device;

use crate::plan::{Channel, Plan};
use crate::program::Action;

/// Nanoseconds that an instruction takes beside its kernel when one thread runs all in turn.
const IN_TURN: u64 = 50;

/// The same on several threads: counting down what waits, taking from a queue, and reading what
/// another core has written.
pub(super) const SHARED: u64 = 350;

/// Nanoseconds from a send until another thread has seen what arrived.
const CROSSING: u64 = 1_000;

/// Nanoseconds until other threads are awake.
const WAKING: u64 = 50_000;

impl Plan {
    /// The threads of all devices that take part.
    pub fn threads(&self, devices: &[Device]) -> usize {
        let of = |d: usize| devices[d].host().pool().threads();
        self.programs.iter().map(|p| of(p.device)).sum()
    }

    /// Whether running at the same time is estimated to be shorter: what it takes is no less than
    /// the longest path, the work of a device over its threads, and all work over the machine's
    /// cores (Graham's bounds, 1969).
    pub fn is_worth_threads(&self, devices: &[Device], cores: usize) -> bool {
        let threads = self.threads(devices);
        if threads < 2 || cores < 2 {
            return false;
        }
        let (mut in_turn, mut shared, mut busiest) = (0u64, 0u64, 0u64);
        for program in &self.programs {
            let kernels = program.costs.iter().fold(0u64, |a, c| a.saturating_add(*c));
            let count = program.len() as u64;
            let of_device = kernels.saturating_add(count * SHARED);
            let threads = devices[program.device].host().pool().threads() as u64;
            in_turn = in_turn.saturating_add(kernels.saturating_add(count * IN_TURN));
            shared = shared.saturating_add(of_device);
            busiest = busiest.max(of_device / threads);
        }
        let spread = shared / threads.min(cores) as u64;
        let least = spread.max(busiest).saturating_add(WAKING);
        // The path is walked only where it can matter.
        least < in_turn && self.longest_path().saturating_add(WAKING) < in_turn
    }

    /// Nanoseconds of the longest chain of instructions that wait for each other.
    fn longest_path(&self) -> u64 {
        // By instruction: when all that it waits for has run, if everything runs as early as it can.
        let mut ready: Vec<Vec<u64>> = self.programs.iter().map(|p| vec![0; p.len()]).collect();
        let mut starts: Vec<u32> = vec![0; self.programs.len()];
        let mut longest = 0u64;
        for &(number, end) in &self.segments {
            let program = &self.programs[number as usize];
            for at in std::mem::replace(&mut starts[number as usize], end)..end {
                let cost = program.costs[at as usize].saturating_add(SHARED);
                let done = ready[number as usize][at as usize].saturating_add(cost);
                longest = longest.max(done);
                for &next in program.dependents.of(at) {
                    let ready = &mut ready[number as usize][next as usize];
                    *ready = done.max(*ready);
                }
                if let Action::Send { channel } = program.instructions[at as usize].action {
                    let Channel { to, receive, .. } = self.channels[channel];
                    let ready = &mut ready[to as usize][receive as usize];
                    *ready = done.saturating_add(CROSSING).max(*ready);
                }
            }
        }
        longest
    }
}
