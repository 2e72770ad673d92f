//! What a GPU runs in a step: commands in the order of its queue, with places for addresses, which
//! a step in flight has of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use smallvec::SmallVec;
use thalweg_device::Variable;
use thalweg_device::gpu::{Block, Engine, Exchange, Fault, Handle};
use thalweg_graph::{NodeId, OutputId};
use thalweg_tensor::{DType, Tensor};

/// Where something is in a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuPlace {
    /// At this offset of the step's arena, which others may use before and after.
    Arena(usize),
    /// At this offset behind it, for the whole step.
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

/// What is handed to the queue.
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
        /// What the kernel is given.
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
    /// Begins what GPUs of ranks do together.
    Collective {
        /// The number of the set of ranks, among those of the program.
        set: usize,
        /// What they do.
        what: Exchange,
        /// Of the elements.
        dtype: DType,
        /// Where from.
        from: GpuPlace,
        /// Where to.
        to: GpuPlace,
        /// How many elements.
        elements: usize,
    },
    /// Waits for all that was begun in a set of ranks.
    Join {
        /// The number of the set, among those of the program.
        set: usize,
    },
    /// From an offset of the host's staging memory.
    CopyIn {
        /// The offset.
        from: usize,
        /// Where to.
        to: GpuPlace,
        /// How many bytes.
        bytes: usize,
    },
    /// To an offset of the host's staging memory.
    CopyOut {
        /// Where from.
        from: GpuPlace,
        /// The offset.
        to: usize,
        /// How many bytes.
        bytes: usize,
    },
    /// Copies within the GPU.
    Copy {
        /// Where from.
        from: GpuPlace,
        /// Where to.
        to: GpuPlace,
        /// How many bytes.
        bytes: usize,
    },
    /// Sets all bits.
    Ones {
        /// Where.
        to: GpuPlace,
        /// How many bytes.
        bytes: usize,
    },
}

/// A task, and the node that it is part of.
#[derive(Clone, Debug)]
pub struct NodeCommand {
    /// The node.
    pub node: NodeId,
    /// What is handed over for it.
    pub task: GpuCommand,
}

/// What is handed to the queue without the host having a part in it: captured once, and launched as
/// one from then on.
#[derive(Default)]
pub struct Segment {
    /// The commands, in order.
    pub works: Vec<NodeCommand>,
    /// What has to be true of variables, in order, beside the works.
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
    /// Whether the node initializes it.
    pub assigns: bool,
}

/// A node that may find an element which it cannot take.
pub struct Watched {
    /// The node.
    pub node: NodeId,
    /// What its status stands for.
    pub fault: Fault,
}

/// An output, and when it is there.
pub struct Made {
    /// How many works of its segment come before it.
    pub after: usize,
    /// The output.
    pub output: OutputId,
    /// Where it is.
    pub place: GpuPlace,
    /// Its dtype.
    pub dtype: DType,
    /// How many elements it has.
    pub len: usize,
}

/// What a random op draws from, in the GPU's memory: it outlives steps.
#[derive(Debug)]
pub struct Counter {
    /// The memory of the counter.
    pub block: Block,
    /// Whether it has been set to 0.
    pub started: AtomicBool,
}

/// Who computes a GEMM or a convolution on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComputedBy {
    /// A library; its engine, where it tells.
    Library(Option<Engine>),
    /// A kernel of our own, as no library does: why.
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

/// What a GPU's program has beside its instructions.
#[derive(Default)]
pub struct Commands {
    /// What is captured and launched as one, in order.
    pub segments: Vec<Segment>,
    /// By GEMM and convolution: who computes it.
    pub computed_by: BTreeMap<NodeId, ComputedBy>,
    /// The sets of ranks whose GPUs do something together.
    pub sets: Vec<i32>,
    /// The first collective between GPUs, with its set.
    pub first: Option<(i32, NodeId)>,
    /// Bytes behind the arena.
    pub fixed: usize,
    /// What is put there before the first step.
    pub constants: Vec<(usize, Tensor)>,
    /// Bytes of the host's staging memory.
    pub staging: usize,
    /// Feeds: the slot that holds each, and where it is staged.
    pub feeds: Vec<(u32, usize)>,
    /// The variables, by number.
    pub variables: Vec<Arc<Variable>>,
    /// The counters of random ops, by number.
    pub counters: Vec<Arc<Counter>>,
    /// By status: whose it is.
    pub watched: Vec<Watched>,
    /// The statuses that the host looks at.
    pub checks: Vec<Check>,
}

/// Statuses that the host looks at: from the first number to before the last, and where they are
/// staged.
pub struct Check {
    /// The first status.
    pub first: usize,
    /// The status behind the last one.
    pub last: usize,
    /// The offset in the staging memory.
    pub staged: usize,
}

impl Commands {
    /// Bytes of a step's memory on the GPU: the arena, what is behind it, and the statuses.
    pub fn bytes(&self, arena: usize) -> usize {
        arena + self.fixed + self.watched.len() * STATUS_BYTES
    }
}

/// Bytes of a node's status.
pub const STATUS_BYTES: usize = 8;
