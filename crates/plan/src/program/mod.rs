//! Programs: the compiled instructions of one device.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use smallvec::SmallVec;
use thalweg_device::kernel::RunFn;
use thalweg_device::{Op, Variable};
use thalweg_graph::{Fact, GraphData, Node, NodeId};
use thalweg_ops::fused::ops;
use thalweg_tensor::{DType, Shape, Tensor};

use crate::gpu_program::{Commands, GpuPlace};
use crate::region::Region;

/// A flat list of instructions, kernels resolved to functions, arguments to slots, slots to offsets
/// in one arena.
pub struct Program {
    /// The number of its device.
    pub device: usize,
    /// Its nodes: for names, dumps and errors.
    pub graph: GraphData,
    /// The instructions, in the order of the step.
    pub instructions: Vec<Instruction>,
    /// The slots, by number.
    pub slots: Vec<SlotPlan>,
    /// Bytes of the arena.
    pub arena: usize,
    /// By instruction: estimated nanoseconds on one thread.
    pub costs: Vec<u64>,
    /// By instruction: those of this program that wait for it.
    pub dependents: Dependents,
    /// By instruction: the number that it waits for.
    pub waits: Vec<u32>,
    /// Its GPU commands, if its device is a GPU.
    pub gpu: Option<Commands>,
}

impl Program {
    /// Returns the node of instruction `i`.
    pub fn node(&self, i: u32) -> &Arc<Node> {
        self.graph.node(self.instructions[i as usize].node)
    }

    /// Returns the bytes of the arena that one step in flight needs.
    pub fn arena_bytes(&self) -> usize {
        let whole = self.gpu.as_ref().map(|c| c.bytes(self.arena));
        whole.unwrap_or(self.arena)
    }

    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// `true` if a step runs nothing.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// Returns the node and fact of the largest value.
    pub fn largest(&self) -> Option<(&Arc<Node>, &Fact)> {
        let bytes = |f: &Fact| f.shape.elements().map(|n| n.saturating_mul(f.dtype.size()));
        let values = self
            .graph
            .nodes()
            .flat_map(|(_, node)| node.outputs.iter().map(move |f| (bytes(f), node, f)));
        let largest = values.max_by_key(|(bytes, ..)| *bytes);
        largest.map(|(_, node, fact)| (node, fact))
    }

    /// Returns the program as text, one line an instruction: number, node, places of its outputs, instructions that it
    /// waits for. On a GPU, also the implementation of each GEMM and convolution.
    pub fn to_text(&self) -> String {
        use std::fmt::Write;
        let bytes = self.arena_bytes();
        let mut text = format!("{} instructions, {bytes} bytes\n", self.len());
        let mut waits_for = vec![Vec::new(); self.len()];
        for i in 0..self.len() as u32 {
            for &d in self.dependents.of(i) {
                waits_for[d as usize].push(i);
            }
        }
        for (i, instruction) in self.instructions.iter().enumerate() {
            let node = self.graph.node(instruction.node);
            let place = |&s: &u32| match self.slots.get(s as usize).map(|s| &s.home) {
                Some(Home::Arena(offset)) => format!("%{s}@{offset}"),
                Some(Home::Constant(_)) => format!("%{s}=const"),
                Some(Home::Staged(offset)) => format!("%{s}@host+{offset}"),
                Some(Home::OnGpu(_)) => format!("%{s}@gpu"),
                Some(Home::Own) => format!("%{s}@own"),
                Some(Home::Held) => format!("%{s}"),
                None => "handle".to_owned(),
            };
            let list = |slots: &[u32]| slots.iter().map(place).collect::<Vec<_>>().join(" ");
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{i}: {} = {}{} {} ({}) after {:?}",
                list(&instruction.outputs),
                node.op.name,
                match &ops(node)[..] {
                    [] => String::new(),
                    members => format!("[{}]", members.join(" ")),
                },
                node.name,
                list(&instruction.inputs),
                waits_for[i]
            );
        }
        for (&id, by) in self.gpu.iter().flat_map(|gpu| &gpu.computed_by) {
            let node = self.graph.node(id);
            let _ = writeln!(text, "{} ({}) is computed {by}", node.name, node.op.name);
        }
        text
    }
}

/// Lists of numbers, one after the other.
#[derive(Default)]
pub struct Dependents {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Dependents {
    /// Inverts lists: by instruction, those that it waits for.
    pub fn reversed(waits_for: &[Vec<u32>]) -> Dependents {
        let mut starts = vec![0u32; waits_for.len() + 1];
        for &w in waits_for.iter().flatten() {
            starts[w as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut items = vec![0; waits_for.iter().map(Vec::len).sum()];
        for (at, list) in waits_for.iter().enumerate() {
            for &w in list {
                items[next[w as usize] as usize] = at as u32;
                next[w as usize] += 1;
            }
        }
        Dependents { starts, items }
    }

    /// Those that wait for instruction `i`.
    pub fn of(&self, i: u32) -> &[u32] {
        let i = i as usize;
        &self.items[self.starts[i] as usize..self.starts[i + 1] as usize]
    }
}

/// The place of a slot's elements.
#[derive(Clone, Debug)]
pub enum Home {
    /// At this offset of the step's arena.
    Arena(usize),
    /// At this offset of the memory of the host that a GPU copies from and to.
    Staged(usize),
    /// In a GPU's memory, to be sent to another GPU, or received from one.
    OnGpu(GpuPlace),
    /// In a tensor of the plan.
    Constant(Tensor),
    /// In a tensor of its own, which leaves the step as it is: to another task, a stack or the caller of a function.
    Own,
    /// In a tensor that the step holds: a feed, a variable's value, or one whose size is known
    /// only when it is computed.
    Held,
}

/// A slot: the place of an output's value during a step. An output that is its node's input under other dimensions
/// shares that one's slot.
#[derive(Clone, Debug)]
pub struct SlotPlan {
    /// The dtype of the elements.
    pub dtype: DType,
    /// The number of elements; unknown where the slot is held.
    pub len: usize,
    /// Their place.
    pub home: Home,
}

/// The action of one instruction.
pub enum Action {
    /// Runs a prepared kernel.
    Run {
        /// The kernel.
        run: RunFn,
        /// Offset in the arena, and bytes.
        scratch: (usize, usize),
        /// `true` if an output lies in a tensor of its own.
        own: bool,
    },
    /// Holds the value of a variable, which must have this shape.
    Read {
        /// The shape.
        shape: Shape,
    },
    /// Copies its input to the slot that this channel's receiver has for it.
    Send {
        /// The number of the channel.
        channel: usize,
    },
    /// Nothing: it waits until a value has landed in its slot.
    Receive,
    /// Sends its input to another task, or to a client.
    SendRemote {
        /// The number of the channel.
        channel: i64,
    },
    /// Nothing: it waits until a value has come from another task, or from a client, and is held in its slot.
    ReceiveRemote {
        /// The number of the channel.
        channel: i64,
    },
    /// Copies feeds into the staging memory that a GPU copies from.
    Stage,
    /// Submits this segment to a GPU.
    Segment(usize),
    /// Writes whether a variable of a GPU has a value, at this offset of the staging memory.
    IsInitialized {
        /// The number of the variable.
        variable: usize,
        /// The offset.
        staged: usize,
    },
    /// Waits until a GPU has run all submitted commands, and reads the statuses of this check.
    Check(usize),
    /// Waits until a GPU has run all submitted commands.
    Wait,
    /// Repeats the instructions behind it for as long as a condition of theirs is true.
    Loop {
        /// The offset of the condition in the staging memory.
        staged: usize,
        /// The last instruction.
        last: u32,
    },
    /// Interprets a region.
    Region(Box<Region>),
    /// Infers, prepares and runs, because shapes or values are known only at run time.
    Late {
        /// Its op.
        op: &'static Op,
        /// The node.
        node: Arc<Node>,
    },
}

/// One step of a plan.
pub struct Instruction {
    /// The node that it computes.
    pub node: NodeId,
    /// Its action.
    pub action: Action,
    /// By input: its slot.
    pub inputs: SmallVec<[u32; 4]>,
    /// By output: its slot.
    pub outputs: SmallVec<[u32; 2]>,
    /// By input: the variable behind it.
    pub variables: SmallVec<[Option<Arc<Variable>>; 1]>,
    /// The counter of a random op.
    pub counter: Option<Arc<AtomicU64>>,
    /// Held slots that are not used any more, released before this runs.
    pub release: SmallVec<[u32; 1]>,
}

#[cfg(test)]
mod tests;
