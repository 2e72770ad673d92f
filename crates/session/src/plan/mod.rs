//! Plans: what a step runs, compiled once. One program for each device that takes part, and how
//! they meet.

mod bindings;
mod compile;
pub(crate) mod gpu;
mod memory;
mod order;
mod parallel;
mod program;
pub(crate) mod region;

use smallvec::SmallVec;
use thalweg_device::Device;
use thalweg_graph::Node;
use thalweg_tensor::{DType, Dims, Shape};

use crate::error::SessionError;

pub(crate) use bindings::{Kernels, failed, find};
pub(crate) use compile::NO_SLOT;
pub use compile::{Request, Workshop, compile};
pub(crate) use compile::{compile_part, compile_partial, in_pieces, ordered, simplified};
pub use program::Program;
pub(crate) use program::{Action, Dependents, Home, Instruction, SlotPlan};

/// A step, ready to run any number of times, by several threads at once.
pub struct Plan {
    /// What each device runs.
    pub programs: SmallVec<[Program; 1]>,
    /// By number in a send: who receives.
    pub(crate) channels: Vec<Channel>,
    /// The order in which one thread runs all programs: instructions of which one come next, and up
    /// to which number.
    pub(crate) segments: Vec<(u32, u32)>,
    /// By feed: the slots that it fills, with their programs; none where nothing needs it.
    pub(crate) feeds: Vec<SmallVec<[(u32, u32); 1]>>,
    pub(crate) fetches: Vec<Option<FetchPlan>>,
    /// What stands on a GPU and runs on its host.
    pub(crate) moved: Vec<Moved>,
    /// Whether instructions that do not wait for each other run at the same time.
    pub(crate) parallel: bool,
    /// Whether nodes may have to wait for other steps.
    pub(crate) waits: bool,
}

/// A node that stands on a GPU and runs on its host.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    pub(crate) node: String,
    pub(crate) op: &'static str,
    pub(crate) from: String,
    pub(crate) why: &'static str,
}

/// Where what is sent goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    /// The program.
    pub(crate) to: u32,
    /// The instruction there that waits for it.
    pub(crate) receive: u32,
    /// The slot there that it fills; none where only that it was sent matters.
    pub(crate) slot: Option<u32>,
}

/// Where a fetched value is, and its dimensions where they are not those of the held tensor.
#[derive(Clone, Debug)]
pub(crate) struct FetchPlan {
    pub(crate) program: u32,
    pub(crate) slot: u32,
    pub(crate) dims: Option<Dims>,
}

impl Plan {
    /// The slot of a program.
    pub(crate) fn slot(&self, program: u32, slot: u32) -> &SlotPlan {
        &self.programs[program as usize].slots[slot as usize]
    }

    /// The place of an instruction in the order of the whole step.
    pub(crate) fn rank(&self, program: u32, instruction: u32) -> usize {
        let mut ends: SmallVec<[u32; 8]> = SmallVec::from_elem(0, self.programs.len());
        let mut rank = 0;
        for &(p, end) in &self.segments {
            let start = std::mem::replace(&mut ends[p as usize], end);
            if p == program && instruction < end {
                return rank + (instruction - start) as usize;
            }
            rank += (end - start) as usize;
        }
        rank
    }

    /// Bytes of all arenas that one step in flight needs.
    pub fn arena_bytes(&self) -> usize {
        self.programs.iter().map(Program::arena_bytes).sum()
    }

    /// The programs in Graphviz's language: a coloured box for each device, with what crosses as
    /// thick edges between them.
    pub fn to_dot(&self, devices: &[Device]) -> String {
        use std::fmt::Write;
        const COLOURS: [&str; 6] = [
            "#e8f1fa", "#faeee6", "#e8f5ec", "#f5ebf7", "#f7f4e3", "#eef0f2",
        ];
        let mut dot = String::from(thalweg_graph::dump::DOT_HEAD);
        let mut sends = vec![None; self.channels.len()];
        for (i, program) in self.programs.iter().enumerate() {
            let colour = COLOURS[program.device % COLOURS.len()];
            let name = devices[program.device].name().to_string();
            // Writing to a String cannot fail.
            let _ = writeln!(
                dot,
                "  subgraph cluster_{i} {{\n  label={name:?}; style=filled; color={colour:?};"
            );
            program.graph.write_dot(&mut dot, &format!("p{i}_"));
            dot.push_str("  }\n");
            for instruction in &program.instructions {
                if let Action::Send { channel } = instruction.action {
                    sends[channel] = Some((i, instruction.node.index()));
                }
            }
        }
        for (channel, send) in self.channels.iter().zip(sends) {
            let to = &self.programs[channel.to as usize];
            let receive = to.instructions[channel.receive as usize].node.index();
            if let Some((from, send)) = send {
                let _ = writeln!(
                    dot,
                    "  p{from}_{send} -> p{}_{receive} [penwidth=2.5];",
                    channel.to
                );
            }
        }
        dot.push_str("}\n");
        dot
    }

    /// The programs, each under the name of its device; without a name where there is one device.
    pub fn to_text(&self, devices: &[Device]) -> String {
        let mut text = String::new();
        for program in &self.programs {
            if devices.len() > 1 {
                text.push_str(&format!("# {}\n", devices[program.device].name()));
            }
            text.push_str(&program.graph.to_text());
            text.push('\n');
            text.push_str(&program.to_text());
        }
        for moved in &self.moved {
            let Moved {
                node,
                op,
                from,
                why,
            } = moved;
            text.push_str(&format!(
                "# {op} '{node}' runs on the host of {from}: {why}\n"
            ));
        }
        text
    }
}

/// The error of a value for which a device has no memory.
pub(crate) fn memory(on: &Device, node: &Node, dtype: DType, shape: Shape) -> SessionError {
    SessionError::Memory {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        dtype,
        shape,
        device: on.name().clone(),
        limit: on.memory().limit(),
        used: on.memory().used(),
    }
}
