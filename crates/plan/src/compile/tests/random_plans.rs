//! Plans of random graphs: values in use share no memory, and devices agree about channels and counts.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use thalweg_graph::{Graph, Output};
use thalweg_ops::{LinalgOps, MathOps, SourceOps};
use thalweg_tensor::DType;

use super::super::*;
use crate::program::Home;
use crate::testing::{Planner, graph};

/// By instruction: those that have run before it, whatever the threads do.
fn earlier(program: &Program) -> Vec<BTreeSet<u32>> {
    let mut earlier = vec![BTreeSet::new(); program.len()];
    for i in 0..program.len() as u32 {
        for &next in program.dependents.of(i) {
            let of_first = earlier[i as usize].clone();
            earlier[next as usize].extend(of_first);
            earlier[next as usize].insert(i);
        }
    }
    earlier
}

/// Memory of the arena while it is in use: its bytes, the instruction that fills it, those that use it.
#[derive(Debug)]
struct Use {
    bytes: std::ops::Range<usize>,
    writer: Option<u32>,
    users: Vec<u32>,
    fetched: bool,
}

/// The uses of the arena by slots and scratch memory.
fn arena_uses(plan: &Plan, number: u32) -> Vec<Use> {
    let program = &plan.programs[number as usize];
    let mut uses = Vec::new();
    for (slot, of) in program.slots.iter().enumerate() {
        let Home::Arena(offset) = of.home else {
            continue;
        };
        let slot = slot as u32;
        let with = |list: fn(&Instruction) -> &[u32]| {
            let all = program.instructions.iter().enumerate();
            all.filter(move |(_, i)| list(i).contains(&slot))
                .map(|(at, _)| at as u32)
        };
        uses.push(Use {
            bytes: offset..offset + of.len * of.dtype.size(),
            writer: with(|i| &i.outputs).next(),
            users: with(|i| &i.inputs).collect(),
            fetched: plan
                .fetches
                .iter()
                .flatten()
                .any(|f| (f.program, f.slot) == (number, slot)),
        });
    }
    for (at, instruction) in program.instructions.iter().enumerate() {
        if let Action::Run { scratch, .. } = instruction.action {
            uses.push(Use {
                bytes: scratch.0..scratch.0 + scratch.1,
                writer: Some(at as u32),
                users: Vec::new(),
                fetched: false,
            });
        }
    }
    uses
}

/// Checks that no two values are in one place at the same time: all uses of one come before the other is written.
fn check_memory(plan: &Plan) -> Result<(), TestCaseError> {
    for (number, program) in plan.programs.iter().enumerate() {
        let earlier = earlier(program);
        let uses = arena_uses(plan, number as u32);
        // A kernel may write its output in the place of its input.
        let done_by = |a: &Use, b: &Use| {
            let Some(writer) = b.writer else { return false };
            let before = |i: &u32| *i == writer || earlier[writer as usize].contains(i);
            !a.fetched && a.writer != b.writer && a.writer.iter().chain(&a.users).all(before)
        };
        for (i, a) in uses.iter().enumerate() {
            prop_assert!(a.bytes.end <= program.arena);
            for b in &uses[i + 1..] {
                let apart = a.bytes.end <= b.bytes.start || b.bytes.end <= a.bytes.start;
                let empty = a.bytes.is_empty() || b.bytes.is_empty();
                let in_turn = done_by(a, b) || done_by(b, a);
                prop_assert!(
                    apart || empty || in_turn,
                    "{a:?} {b:?}\n{}",
                    program.to_text()
                );
            }
        }
    }
    Ok(())
}

/// Checks the counts and numbers of a plan's programs against each other.
fn check_counts(plan: &Plan) -> Result<(), TestCaseError> {
    let mut received: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); plan.programs.len()];
    let mut sent = vec![0; plan.channels.len()];
    for (number, channel) in plan.channels.iter().enumerate() {
        let program = &plan.programs[channel.to as usize];
        let receive = &program.instructions[channel.receive as usize];
        prop_assert!(matches!(receive.action, Action::Receive));
        prop_assert!(received[channel.to as usize].insert(channel.receive as usize));
        prop_assert_eq!(channel.slot, receive.outputs.first().copied(), "{}", number);
    }
    for (number, program) in plan.programs.iter().enumerate() {
        let mut waits = vec![0; program.len()];
        for i in 0..program.len() as u32 {
            for &next in program.dependents.of(i) {
                prop_assert!(next > i);
                waits[next as usize] += 1;
            }
        }
        for (at, instruction) in program.instructions.iter().enumerate() {
            // A receive waits for its send too.
            let receives = received[number].contains(&at);
            prop_assert_eq!(program.waits[at], waits[at] + u32::from(receives));
            prop_assert_eq!(matches!(instruction.action, Action::Receive), receives);
            if let Action::Send { channel } = instruction.action {
                sent[channel] += 1;
                prop_assert!(plan.channels[channel].to as usize != number);
            }
        }
        prop_assert_eq!(program.costs.len(), program.len());
    }
    prop_assert!(sent.iter().all(|&n| n == 1));
    // The segments run every instruction once, each send before its receive.
    let mut ends = vec![0; plan.programs.len()];
    let mut landed = BTreeSet::new();
    for &(p, end) in &plan.segments {
        for at in std::mem::replace(&mut ends[p as usize], end)..end {
            match plan.programs[p as usize].instructions[at as usize].action {
                Action::Send { channel } => {
                    let to = plan.channels[channel];
                    landed.insert((to.to, to.receive));
                }
                Action::Receive => prop_assert!(landed.contains(&(p, at))),
                _ => {}
            }
        }
    }
    let lengths: Vec<u32> = plan.programs.iter().map(|p| p.len() as u32).collect();
    prop_assert_eq!(ends, lengths);
    Ok(())
}

/// A node of a random graph: its op, its inputs among the nodes before it, its device, and `true` if it is fetched.
type DeviceNode = (u8, usize, usize, u32, bool);

/// Builds a random graph of matrices and rows; returns its feeds and nodes.
fn drawn<'g>(g: &'g Graph, nodes: &[DeviceNode]) -> Vec<Output<'g>> {
    let mut all = vec![
        g.placeholder("m", DType::F32, [24, 24]),
        g.placeholder("r", DType::F32, [1, 24]),
    ];
    for &(op, a, b, ..) in nodes {
        let (a, b) = (all[a % all.len()], all[b % all.len()]);
        let rows = |o: Output<'_>| o.shape().dim(0);
        all.push(match op {
            0 => a.tanh(),
            1 => a + b,
            2 => a * b,
            3 if rows(b) == Some(24) => a.matmul(b),
            4 => {
                let axis = g.constant([0i32]);
                let sum = g.op("Sum").input(a).input(axis);
                sum.attr("keep_dims", true).output()
            }
            5 => g.control_dependencies([b], || a.sin()),
            _ => g
                .op("Reshape")
                .input(a)
                .input(g.constant([-1i32, 24]))
                .output(),
        });
    }
    all
}

/// Compiles random graphs and checks the plans.
fn check_random_plans(planner: &Planner, check: impl Fn(&Plan) -> Result<(), TestCaseError>) {
    let devices = planner.machine.devices.len() as u32;
    let node = (0u8..7, 0usize..30, 0usize..30, 0..devices, any::<bool>());
    let nodes = proptest::collection::vec(node, 1..30);
    let mut runner = TestRunner::new(Config::with_cases(64));
    let checked = runner.run(&nodes, |nodes| {
        let g = graph();
        let all = drawn(&g, &nodes);
        let (feeds, made) = all.split_at(2);
        let chosen = made.iter().zip(&nodes).filter(|(_, n)| n.4);
        let last = made.last().unwrap();
        let fetches: Vec<Output<'_>> = chosen.map(|(o, _)| *o).chain([*last]).collect();
        let elsewhere: Vec<_> = made.iter().zip(&nodes).map(|(o, n)| (*o, n.3)).collect();
        check(&planner.plan_on(&fetches, feeds, &elsewhere).unwrap())
    });
    checked.unwrap();
}

#[test]
fn values_of_a_program_never_share_memory_while_both_are_in_use() {
    for optimised in [false, true] {
        let mut planner = Planner::cpus(&[3]);
        planner.options.optimise = optimised;
        planner.options.parallel = Parallel::Always;
        check_random_plans(&planner, check_memory);
    }
}

#[test]
fn programs_of_several_devices_agree_about_channels_and_counts() {
    let planner = Planner::cpus(&[1, 1, 1]);
    check_random_plans(&planner, |plan| {
        check_counts(plan)?;
        check_memory(plan)
    });
}
