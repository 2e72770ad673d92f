use thalweg_device::Device;
use thalweg_graph::Output;
use thalweg_ops::{LinalgOps, MathOps, SourceOps};

use super::*;
use crate::gpu_program::{STATUS_BYTES, Watched};
use crate::testing::{Planner, graph};

#[test]
fn waits_are_inverted_to_dependents() {
    let lists: [&[&[u32]]; 4] = [
        &[],
        &[&[]],
        &[&[], &[0], &[0, 1]],
        &[&[], &[], &[1, 0], &[1]],
    ];
    let expected: [&[&[u32]]; 4] = [
        &[],
        &[&[]],
        &[&[1, 2], &[2], &[]],
        &[&[2], &[2, 3], &[], &[]],
    ];
    for (waits, expected) in lists.into_iter().zip(expected) {
        let waits: Vec<Vec<u32>> = waits.iter().map(|w| w.to_vec()).collect();
        let dependents = Dependents::reversed(&waits);
        let found: Vec<&[u32]> = (0..waits.len() as u32).map(|i| dependents.of(i)).collect();
        assert_eq!(found, expected, "{waits:?}");
    }
}

/// The program that computes these outputs on one CPU.
fn program(fetches: &[Output<'_>], feeds: &[Output<'_>]) -> Program {
    let plan = Planner::cpus(&[1]).plan(fetches, feeds).unwrap();
    plan.programs.into_iter().next().unwrap()
}

#[test]
fn the_largest_value_is_that_of_the_most_bytes() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [4, 3]);
    let wide = g
        .op("Cast")
        .input(x)
        .attr("DstT", DType::F64)
        .name("wide")
        .output();
    let narrow = g.op("Cast").input(wide).attr("DstT", DType::F16).output();
    let program = program(&[narrow], &[x]);
    let (node, fact) = program.largest().unwrap();
    assert_eq!(
        (node.name.as_str(), fact.to_string()),
        ("wide", "f64[4,3]".to_owned())
    );
}

#[test]
fn a_program_is_shown_with_places_and_the_instructions_that_each_waits_for() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, [2, 2]);
    let c = g.constant([[1.0f32, 2.0], [3.0, 4.0]]);
    let y = x.matmul(c).named("y");
    let z = (y.tanh().named("t") + y).named("z");
    let program = program(&[z], &[x]);
    assert!(!program.is_empty());
    assert_eq!(
        program.to_text(),
        "3 instructions, 128 bytes\n\
         0: %2@0 = MatMul y (%0 %1=const) after []\n\
         1: %3@64 = Tanh t (%2@0) after [0]\n\
         2: %4@64 = AddV2 z (%3@64 %2@0) after [0, 1]\n"
    );
    assert_eq!(program.node(1).name, "t");
}

#[test]
fn a_gpu_program_needs_its_arena_its_constants_and_its_statuses() {
    let planner = Planner::with_gpu();
    assert!(matches!(planner.machine.devices[1], Device::Gpu(_)));
    let g = graph();
    let x = g.placeholder("x", DType::F32, [64]);
    let y = x.tanh();
    let plan = planner.plan_on(&[y], &[x], &[(x, 1), (y, 1)]).unwrap();
    let mut program = plan.programs.into_iter().next().unwrap();
    // The feed lies behind the arena.
    assert_eq!((program.arena, program.arena_bytes()), (256, 512));
    let fault = thalweg_device::gpu::Fault {
        input: 0,
        reason: String::new(),
    };
    let node = program.instructions[0].node;
    let commands = program.gpu.as_mut().unwrap();
    commands.watched.push(Watched { node, fault });
    assert_eq!(program.arena_bytes(), 512 + STATUS_BYTES);
}
