//! Programs of GPUs: commands in the order of the queue. They name places in place of addresses, which each step in
//! flight has of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use smallvec::SmallVec;
use thalweg_device::Variable;
use thalweg_device::gpu::{Block, Engine, Fault, GpuCollectiveKind, Handle};
use thalweg_graph::{NodeId, OutputId};
use thalweg_tensor::{DType, Tensor};

/// A place in a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuPlace {
    /// At this offset of the step's arena: other values may use it before and after.
    Arena(usize),
    /// At this offset behind the arena, for the whole step.
    Fixed(usize),
    /// In this variable.
    Variable(usize),
    /// In this random op's counter.
    Counter(usize),
    /// The status of this number.
    Status(usize),
}

/// An argument of a launch.
#[derive(Clone, Debug)]
pub enum Argument {
    /// An address.
    Address(GpuPlace),
    /// The bytes of a value.
    Value(SmallVec<[u8; 16]>),
}

/// A command for the queue.
#[derive(Clone, Debug)]
pub enum GpuCommand {
    /// Launches a kernel.
    Launch {
        /// The compiled function.
        function: Handle,
        /// Blocks of the grid.
        blocks: u32,
        /// Threads of a block.
        threads: u32,
        /// The arguments of the kernel.
        arguments: SmallVec<[Argument; 8]>,
    },
    /// Calls a library.
    Call {
        /// The prepared call.
        call: Handle,
        /// Its operands.
        places: [GpuPlace; 3],
        /// Its workspace.
        workspace: GpuPlace,
    },
    /// Begins a collective between the GPUs of ranks.
    Collective {
        /// The number of the set of ranks, among those of the program.
        set: usize,
        /// The collective.
        kind: GpuCollectiveKind,
        /// Dtype of the elements.
        dtype: DType,
        /// Source.
        from: GpuPlace,
        /// Destination.
        to: GpuPlace,
        /// Number of elements.
        elements: usize,
    },
    /// Begins or ends a group of collectives of a set of ranks, which start together.
    Group {
        /// The number of the set, among those of the program.
        set: usize,
        /// `true` where the group begins.
        begins: bool,
    },
    /// Waits for all collectives that were begun in a set of ranks.
    Join {
        /// The number of the set, among those of the program.
        set: usize,
    },
    /// From an offset of the host's staging memory.
    CopyIn {
        /// The offset.
        from: usize,
        /// Destination.
        to: GpuPlace,
        /// Number of bytes.
        bytes: usize,
    },
    /// To an offset of the host's staging memory.
    CopyOut {
        /// Source.
        from: GpuPlace,
        /// The offset.
        to: usize,
        /// Number of bytes.
        bytes: usize,
    },
    /// Copies within the GPU.
    Copy {
        /// Source.
        from: GpuPlace,
        /// Destination.
        to: GpuPlace,
        /// Number of bytes.
        bytes: usize,
    },
    /// Sets all bits.
    Ones {
        /// Destination.
        to: GpuPlace,
        /// Number of bytes.
        bytes: usize,
    },
}

/// A command, and the node that it is part of.
#[derive(Clone, Debug)]
pub struct NodeCommand {
    /// The node; of a multi-tensor launch that of its first member.
    pub node: NodeId,
    /// The nodes of the other members of a multi-tensor launch.
    pub others: Vec<NodeId>,
    /// The command.
    pub command: GpuCommand,
}

impl NodeCommand {
    /// A command of one node.
    pub fn of(node: NodeId, command: GpuCommand) -> NodeCommand {
        NodeCommand {
            node,
            others: Vec::new(),
            command,
        }
    }
}

/// Commands between two actions of the host: captured once, and launched as one graph from then on.
#[derive(Default)]
pub struct Segment {
    /// The commands, in order.
    pub commands: Vec<NodeCommand>,
    /// The variables that must have a value, or get one, in order.
    pub variables: Vec<Access>,
    /// The outputs that it makes.
    pub made: Vec<Made>,
}

/// A node that a variable has to be initialized for, or that initializes it.
#[derive(Clone, Copy)]
pub struct Access {
    /// The node.
    pub node: NodeId,
    /// The number of the variable.
    pub variable: usize,
    /// `true` if the node initializes it.
    pub assigns: bool,
}

/// A node whose kernel may reject an element.
pub struct Watched {
    /// The node.
    pub node: NodeId,
    /// The error that its status stands for.
    pub fault: Fault,
}

/// An output, and the time from which it is there.
pub struct Made {
    /// Number of commands of its segment that come before it.
    pub after: usize,
    /// The output.
    pub output: OutputId,
    /// Its place.
    pub place: GpuPlace,
    /// Its dtype.
    pub dtype: DType,
    /// Its number of elements.
    pub len: usize,
}

/// The counter of a random op, in the GPU's memory: it outlives steps.
#[derive(Debug)]
pub struct Counter {
    /// The memory of the counter.
    pub block: Block,
    /// `true` once it has been set to 0.
    pub started: AtomicBool,
}

/// Implementation of a GEMM or a convolution on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComputedBy {
    /// A library, with its engine where known.
    Library(Option<Engine>),
    /// A kernel of our own, with the reason that no library computes it.
    OwnKernel(String),
}

impl fmt::Display for ComputedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComputedBy::Library(None) => f.write_str("by a library"),
            ComputedBy::Library(Some(engine)) => write!(f, "by a library, {engine}"),
            ComputedBy::OwnKernel(why) => write!(f, "by a kernel of our own: {why}"),
        }
    }
}

/// The table that a multi-tensor launch reads, in words of 8 bytes: the first block of each member and the end of the last,
/// then the arguments of each.
pub struct MemberTable {
    /// Its offset behind the arena.
    pub offset: usize,
    /// By member: its first block; then the end of the last.
    pub starts: Vec<u32>,
    /// By member: its arguments, of 8 bytes at most.
    pub arguments: Vec<SmallVec<[Argument; 8]>>,
}

impl MemberTable {
    /// The words of the table, with the addresses of places.
    pub fn words(&self, address: impl Fn(GpuPlace) -> u64) -> Vec<u64> {
        let starts = self.starts.iter().map(|&start| u64::from(start));
        let word = |argument: &Argument| match argument {
            Argument::Address(place) => address(*place),
            Argument::Value(bytes) => {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_ne_bytes(word)
            }
        };
        let arguments = self.arguments.iter().flatten().map(word);
        starts.chain(arguments).collect()
    }
}

/// The GPU part of a program: segments, memory, constants, variables.
#[derive(Default)]
pub struct Commands {
    /// The segments, each captured and launched as one, in order.
    pub segments: Vec<Segment>,
    /// By GEMM and convolution: its implementation.
    pub computed_by: BTreeMap<NodeId, ComputedBy>,
    /// The sets of ranks with collectives between GPUs.
    pub sets: Vec<i32>,
    /// The first collective between GPUs, with its set.
    pub first: Option<(i32, NodeId)>,
    /// Number of bytes behind the arena.
    pub fixed: usize,
    /// Constants that are copied there before the first step, with their offsets.
    pub constants: Vec<(usize, Tensor)>,
    /// The tables of multi-tensor launches, which are copied there with them.
    pub tables: Vec<MemberTable>,
    /// Bytes of the host's staging memory.
    pub staging: usize,
    /// Feeds: the slot that holds each, and its offset in the staging memory.
    pub feeds: Vec<(u32, usize)>,
    /// The variables, by number.
    pub variables: Vec<Arc<Variable>>,
    /// The counters of random ops, by number.
    pub counters: Vec<Arc<Counter>>,
    /// By status: its node.
    pub watched: Vec<Watched>,
    /// The checks of statuses by the host.
    pub checks: Vec<Check>,
    /// The outermost loops, in order: the instruction that repeats others, and the last that it repeats. Those are not run
    /// beside it.
    pub loops: Vec<(u32, u32)>,
    /// By instruction of a function: the conditions under which it runs, the outermost first.
    pub guards: BTreeMap<u32, SmallVec<[Guard; 1]>>,
}

/// A condition of an instruction: it is left out of a step where the condition has another value.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    /// The offset of the condition, a bool, in the staging memory.
    pub staged: usize,
    /// The value that lets the instruction run.
    pub runs_if: bool,
}

/// A check of statuses by the host: from the first number to before the last, with the offset at which they are staged.
pub struct Check {
    /// The first status.
    pub first: usize,
    /// The status behind the last one.
    pub last: usize,
    /// The offset in the staging memory.
    pub staged: usize,
}

impl Commands {
    /// Returns the bytes of a step's memory on the GPU: the arena, the memory behind it, and the statuses.
    pub fn bytes(&self, arena: usize) -> usize {
        arena + self.fixed + self.watched.len() * STATUS_BYTES
    }
}

/// Bytes of a node's status.
pub const STATUS_BYTES: usize = 8;
