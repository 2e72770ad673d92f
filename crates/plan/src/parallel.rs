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

#[cfg(test)]
mod tests {
    use super::*;

    use smallvec::SmallVec;
    use thalweg_graph::GraphData;

    use crate::program::{Dependents, Instruction, Program};
    use crate::testing::{Planner, bare_node, bare_op};

    static OP: thalweg_graph::OpDef = bare_op("Op", thalweg_graph::op::Effect::Pure);

    /// An instruction: its cost, those that it waits for, its action.
    type Planned = (u64, &'static [u32], Action);

    /// A program of these instructions.
    fn program(device: usize, instructions: &[Planned]) -> Program {
        let mut graph = GraphData::new();
        let action = |action: &Action| match action {
            Action::Send { channel } => Action::Send { channel: *channel },
            Action::Receive => Action::Receive,
            _ => Action::Wait,
        };
        let waits: Vec<Vec<u32>> = instructions.iter().map(|(_, w, _)| w.to_vec()).collect();
        Program {
            device,
            instructions: instructions
                .iter()
                .map(|(.., of)| Instruction {
                    node: graph.push(bare_node(&OP, &[], &[])),
                    action: action(of),
                    inputs: SmallVec::new(),
                    outputs: SmallVec::new(),
                    variables: SmallVec::new(),
                    counter: None,
                    release: SmallVec::new(),
                })
                .collect(),
            graph,
            slots: Vec::new(),
            arena: 0,
            costs: instructions.iter().map(|(cost, ..)| *cost).collect(),
            dependents: Dependents::reversed(&waits),
            waits: waits.iter().map(|w| w.len() as u32).collect(),
            gpu: None,
        }
    }

    fn plan(programs: Vec<Program>, channels: Vec<Channel>, segments: Vec<(u32, u32)>) -> Plan {
        Plan {
            programs: programs.into(),
            channels,
            segments,
            feeds: Vec::new(),
            fetches: Vec::new(),
            handles: Vec::new(),
            moved: Vec::new(),
            collectives: Vec::new(),
            parallel: false,
            arrivals: Vec::new(),
            waits: false,
        }
    }

    /// A plan of one program.
    fn alone(instructions: &[Planned]) -> Plan {
        let end = instructions.len() as u32;
        plan(vec![program(0, instructions)], Vec::new(), vec![(0, end)])
    }

    #[test]
    fn the_longest_path_is_that_of_the_most_nanoseconds() {
        const EACH: u64 = PARALLEL_INSTRUCTION_NS;
        let cases: [(&[Planned], u64); 4] = [
            (&[], 0),
            (
                &[(100, &[], Action::Wait), (700, &[], Action::Wait)],
                700 + EACH,
            ),
            (
                &[(100, &[], Action::Wait), (700, &[0], Action::Wait)],
                800 + 2 * EACH,
            ),
            (
                // A fork: 0 before 1 and 2, both before 3.
                &[
                    (10, &[], Action::Wait),
                    (20, &[0], Action::Wait),
                    (5000, &[0], Action::Wait),
                    (40, &[1, 2], Action::Wait),
                ],
                5050 + 3 * EACH,
            ),
        ];
        for (instructions, expected) in cases {
            assert_eq!(alone(instructions).longest_path(), expected);
        }
        let endless = alone(&[(u64::MAX, &[], Action::Wait), (1, &[0], Action::Wait)]);
        assert_eq!(endless.longest_path(), u64::MAX);
    }

    #[test]
    fn a_path_over_two_devices_takes_the_time_of_a_handoff() {
        let sender = program(
            0,
            &[
                (100, &[], Action::Wait),
                (10, &[0], Action::Send { channel: 0 }),
            ],
        );
        let receiver = program(1, &[(20, &[], Action::Receive), (300, &[0], Action::Wait)]);
        let channel = Channel {
            to: 1,
            receive: 0,
            slot: None,
        };
        let plan = plan(vec![sender, receiver], vec![channel], vec![(0, 2), (1, 2)]);
        let expected = 430 + 4 * PARALLEL_INSTRUCTION_NS + HANDOFF_NS;
        assert_eq!(plan.longest_path(), expected);
    }

    #[test]
    fn threads_are_worth_it_only_where_the_step_gets_shorter() {
        let cpus = |threads| Planner::cpus(&[threads]);
        let four =
            |cost| -> Vec<Planned> { (0..4).map(|_| (cost, &[][..], Action::Wait)).collect() };
        let (large, small) = (four(10_000_000), four(100));
        let chain: Vec<Planned> = vec![
            (10_000_000, &[], Action::Wait),
            (10_000_000, &[0], Action::Wait),
            (10_000_000, &[1], Action::Wait),
        ];
        for (instructions, threads, cores, expected) in [
            (&large, 4, 4, true),
            (&large, 1, 4, false),
            (&large, 4, 1, false),
            (&chain, 4, 4, false),
            (&small, 4, 4, false),
        ] {
            let planner = cpus(threads);
            let devices = &planner.machine.devices;
            let plan = alone(instructions);
            assert_eq!(plan.threads(devices), threads);
            assert_eq!(
                plan.is_worth_threads(devices, cores),
                expected,
                "{threads}, {cores}"
            );
        }
    }
}
