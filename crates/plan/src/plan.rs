//! Plans: the compiled form of a step. One program for each device that takes part, and the channels between them.

use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_device::{Device, PlannedCollective, Variable};
use thalweg_graph::GraphData;
use thalweg_tensor::Dims;

use crate::program::{Action, Program, SlotPlan};

/// A step, ready to run any number of times, by several threads at once.
pub struct Plan {
    /// The program of each device.
    pub programs: SmallVec<[Program; 1]>,
    /// By number in a send: the receiver.
    pub channels: Vec<Channel>,
    /// The order in which one thread runs all programs: instructions of which one come next, and up
    /// to which number.
    pub segments: Vec<(u32, u32)>,
    /// By feed: the slots that it fills, with their programs; none where nothing needs it.
    pub feeds: Vec<SmallVec<[(u32, u32); 1]>>,
    /// By fetch: the slot of its value; none for a node that is only run.
    pub fetches: Vec<Option<FetchPlan>>,
    /// The variables behind fetches that are handles, with the numbers of these: a function may return one.
    pub handles: Vec<(usize, Arc<Variable>)>,
    /// Nodes that were placed on a GPU and run on its host.
    pub moved: Vec<HostedNode>,
    /// Its collectives with other ranks, in order.
    pub collectives: Vec<PlannedCollective>,
    /// `true` if independent instructions run at the same time.
    pub parallel: bool,
    /// Values that come from other tasks or clients while the step runs.
    pub arrivals: Vec<Arrival>,
    /// `true` if nodes may have to wait for other steps, tasks or clients.
    pub waits: bool,
}

/// A node that was placed on a GPU and runs on its host.
#[derive(Clone, Debug)]
pub struct HostedNode {
    /// The name of the node.
    pub node: String,
    /// Its op.
    pub op: &'static str,
    /// The GPU that it was placed on.
    pub from: String,
    /// The reason that the GPU does not run it.
    pub why: String,
}

/// The receiving end of a channel between two programs.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// The program.
    pub to: u32,
    /// The instruction there that waits for it.
    pub receive: u32,
    /// The slot there that it fills; none where the channel only orders the programs.
    pub slot: Option<u32>,
}

/// A value that comes from another task, or from a client, while the step runs.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The program that receives it.
    pub program: u32,
    /// The instruction there that waits for it.
    pub instruction: u32,
    /// The number of its channel.
    pub channel: i64,
}

/// The slot of a fetched value, and its dimensions where they are not those of the held tensor.
#[derive(Clone, Debug)]
pub struct FetchPlan {
    /// The number of the program.
    pub program: u32,
    /// The slot there.
    pub slot: u32,
    /// The dimensions, if all are known.
    pub dims: Option<Dims>,
}

/// Estimate of the bytes that a node of a plan takes: as a node of its graph, an instruction and its kernel.
const NODE_BYTES: usize = 2048;
/// Estimate of the bytes that an output of a node takes, with its slot.
const OUTPUT_BYTES: usize = 256;

/// Estimate of the bytes that a plan of a graph takes.
pub(crate) fn estimated_bytes(graph: &GraphData) -> usize {
    let nodes = graph.nodes();
    nodes
        .map(|(_, node)| NODE_BYTES + node.name.len() + node.outputs.len() * OUTPUT_BYTES)
        .sum()
}

impl Plan {
    /// Returns an estimate of the bytes that the plan takes.
    pub fn estimated_bytes(&self) -> usize {
        let programs = self.programs.iter();
        programs.map(|p| estimated_bytes(&p.graph)).sum()
    }

    /// Returns a slot of a program.
    pub fn slot(&self, program: u32, slot: u32) -> &SlotPlan {
        &self.programs[program as usize].slots[slot as usize]
    }

    /// Returns the place of an instruction in the order of the whole step.
    pub fn rank(&self, program: u32, instruction: u32) -> usize {
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

    /// Returns the bytes of all arenas that one step in flight needs.
    pub fn arena_bytes(&self) -> usize {
        self.programs.iter().map(Program::arena_bytes).sum()
    }

    /// Returns the programs in Graphviz's language: a coloured box for each device, with the channels as thick edges
    /// between them.
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

    /// Returns the programs as text, each under the name of its device; without a name where there is one device.
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
            let HostedNode {
                node,
                op,
                from,
                why,
            } = moved;
            text.push_str(&format!(
                "# {op} '{node}' runs on the host of {from}: {why}\n"
            ));
        }
        for gpu in devices.iter().filter_map(Device::gpu) {
            for (library, path) in gpu.driver().libraries() {
                text.push_str(&format!(
                    "# {} uses {library} of {}\n",
                    gpu.name(),
                    path.display()
                ));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use thalweg_ops::{MathOps, SourceOps};
    use thalweg_tensor::DType;

    use crate::testing::{Planner, graph};

    /// A step that goes from device 0 to device 1 and back.
    fn there_and_back() -> (Planner, Plan) {
        let planner = Planner::cpus(&[1, 1]);
        let g = graph();
        let x = g.placeholder("x", DType::F32, [2]);
        let a = x.tanh().named("a");
        let b = a.sin().named("b");
        let c = b.cos().named("c");
        let plan = planner.plan_on(&[c], &[x], &[(b, 1)]).unwrap();
        (planner, plan)
    }

    #[test]
    fn ranks_of_instructions_follow_the_segments() {
        let (_, plan) = there_and_back();
        // Tanh, Send; Recv, Sin, Send; Recv, Cos.
        assert_eq!(plan.segments, [(0, 2), (1, 3), (0, 4)]);
        let ranks = |program: u32, len: u32| (0..len).map(move |i| (program, i));
        let ranks = ranks(0, 4).chain(ranks(1, 3)).map(|(p, i)| plan.rank(p, i));
        assert_eq!(ranks.collect::<Vec<_>>(), [0, 1, 5, 6, 2, 3, 4]);
    }

    #[test]
    fn a_plan_needs_the_arenas_of_all_its_programs() {
        let (_, plan) = there_and_back();
        let bytes: Vec<usize> = plan.programs.iter().map(Program::arena_bytes).collect();
        assert_eq!(plan.arena_bytes(), bytes.iter().sum::<usize>());
        assert!(bytes.iter().all(|&b| b > 0));
        let fetch = plan.fetches[0].as_ref().unwrap();
        assert_eq!((fetch.program, plan.slot(0, fetch.slot).len), (0, 2));
    }

    #[test]
    fn the_text_of_a_plan_names_devices_where_there_are_several_and_moved_nodes() {
        let (planner, mut plan) = there_and_back();
        plan.moved.push(HostedNode {
            node: "n".to_owned(),
            op: "Shape",
            from: "/gpu:0".to_owned(),
            why: "it is small".to_owned(),
        });
        let text = plan.to_text(&planner.machine.devices);
        for line in [
            "# /job:localhost/replica:0/task:0/device:CPU:0\n",
            "# /job:localhost/replica:0/task:0/device:CPU:1\n",
            "# Shape 'n' runs on the host of /gpu:0: it is small\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let alone = Planner::cpus(&[1]);
        assert!(!plan.to_text(&alone.machine.devices).contains("# /job"));
    }

    #[test]
    fn a_drawing_has_a_box_for_each_device_and_an_edge_for_each_channel() {
        let (planner, plan) = there_and_back();
        let dot = plan.to_dot(&planner.machine.devices);
        for (text, count) in [
            ("subgraph cluster_", 2),
            ("[penwidth=2.5];", 2),
            (" -> p1_", 2),
        ] {
            assert!(dot.matches(text).count() >= count, "{text}: {dot}");
        }
        assert!(dot.ends_with("}\n"));
    }
}
