//! Choice of a step's threads: one, or several that run independent instructions at the same time.

use thalweg_device::Device;
use thalweg_estimate::{HANDOFF_NS, PARALLEL_INSTRUCTION_NS, StepEstimate};

use crate::plan::{Channel, Plan};
use crate::program::Action;

impl Plan {
    /// Number of threads of all devices that take part.
    pub fn threads(&self, devices: &[Device]) -> usize {
        let of = |d: usize| devices[d].host().pool().threads();
        self.programs.iter().map(|p| of(p.device)).sum()
    }

    /// `true` if the step is estimated to be shorter on several threads.
    pub fn is_worth_threads(&self, devices: &[Device], cores: usize) -> bool {
        let threads = self.threads(devices);
        if threads < 2 || cores < 2 {
            return false;
        }
        let mut estimate = StepEstimate::default();
        for program in &self.programs {
            let kernels = program.costs.iter().fold(0u64, |a, c| a.saturating_add(*c));
            let threads = devices[program.device].host().pool().threads();
            estimate.add_device(kernels, program.len() as u64, threads as u64);
        }
        estimate.is_shorter_in_parallel(threads.min(cores), || self.longest_path())
    }

    /// Nanoseconds of the longest chain of instructions that wait for each other.
    fn longest_path(&self) -> u64 {
        // By instruction: the earliest time at which all that it waits for has run.
        let mut ready: Vec<Vec<u64>> = self.programs.iter().map(|p| vec![0; p.len()]).collect();
        let mut starts: Vec<u32> = vec![0; self.programs.len()];
        let mut longest = 0u64;
        for &(number, end) in &self.segments {
            let program = &self.programs[number as usize];
            for at in std::mem::replace(&mut starts[number as usize], end)..end {
                let cost = program.costs[at as usize].saturating_add(PARALLEL_INSTRUCTION_NS);
                let done = ready[number as usize][at as usize].saturating_add(cost);
                longest = longest.max(done);
                for &next in program.dependents.of(at) {
                    let ready = &mut ready[number as usize][next as usize];
                    *ready = done.max(*ready);
                }
                if let Action::Send { channel } = program.instructions[at as usize].action {
                    let Channel { to, receive, .. } = self.channels[channel];
                    let ready = &mut ready[to as usize][receive as usize];
                    *ready = done.saturating_add(HANDOFF_NS).max(*ready);
                }
            }
        }
        longest
    }
}
