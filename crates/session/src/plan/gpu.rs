//! What a GPU runs in a step: commands in the order of its queue, with places for addresses, which
//! a step in flight has of its own.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use smallvec::SmallVec;
use thalweg_device::Variable;
use thalweg_device::gpu::{Block, Fault, Handle};
use thalweg_graph::{NodeId, OutputId};
use thalweg_tensor::{DType, Tensor};

/// Where something is in a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
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
pub(crate) enum Argument {
    Address(Place),
    Value(SmallVec<[u8; 16]>),
}

/// What is handed to the queue.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Launch {
        function: Handle,
        blocks: u32,
        threads: u32,
        arguments: SmallVec<[Argument; 8]>,
    },
    Call {
        call: Handle,
        places: [Place; 3],
        workspace: Place,
    },
    /// From an offset of the host's staging memory.
    CopyIn {
        from: usize,
        to: Place,
        bytes: usize,
    },
    /// To an offset of the host's staging memory.
    CopyOut {
        from: Place,
        to: usize,
        bytes: usize,
    },
    Copy {
        from: Place,
        to: Place,
        bytes: usize,
    },
    /// Sets all bits.
    Ones { to: Place, bytes: usize },
}

/// A task, and the node that it is part of.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) node: NodeId,
    pub(crate) task: Task,
}

/// What is handed to the queue without the host having a part in it: captured once, and launched as
/// one from then on.
#[derive(Default)]
pub(crate) struct Segment {
    pub(crate) works: Vec<Work>,
    /// What has to be true of variables, in order, beside the works.
    pub(crate) variables: Vec<Access>,
    pub(crate) made: Vec<Made>,
}

/// A node that a variable has to be initialized for, or that initializes it.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) node: NodeId,
    pub(crate) variable: usize,
    pub(crate) assigns: bool,
}

/// A node that may find an element which it cannot take.
pub(crate) struct Watched {
    pub(crate) node: NodeId,
    pub(crate) fault: Fault,
}

/// An output, and when it is there.
pub(crate) struct Made {
    /// How many works of its segment come before it.
    pub(crate) after: usize,
    pub(crate) output: OutputId,
    pub(crate) place: Place,
    pub(crate) dtype: DType,
    pub(crate) len: usize,
}

/// What a random op draws from, in the GPU's memory: it outlives steps.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) block: Block,
    /// Whether it has been set to 0.
    pub(crate) started: AtomicBool,
}

/// What a GPU's program has beside its instructions.
#[derive(Default)]
pub(crate) struct Commands {
    pub(crate) segments: Vec<Segment>,
    /// Bytes behind the arena.
    pub(crate) fixed: usize,
    /// What is put there before the first step.
    pub(crate) constants: Vec<(usize, Tensor)>,
    /// Bytes of the host's staging memory.
    pub(crate) staging: usize,
    /// Feeds: the slot that holds each, and where it is staged.
    pub(crate) feeds: Vec<(u32, usize)>,
    pub(crate) variables: Vec<Arc<Variable>>,
    pub(crate) counters: Vec<Arc<Counter>>,
    /// By status: whose it is.
    pub(crate) watched: Vec<Watched>,
    pub(crate) checks: Vec<Check>,
}

/// Statuses that the host looks at: from the first number to before the last, and where they are
/// staged.
pub(crate) struct Check {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) staged: usize,
}

impl Commands {
    /// Bytes of a step's memory on the GPU: the arena, what is behind it, and the statuses.
    pub(crate) fn bytes(&self, arena: usize) -> usize {
        arena + self.fixed + self.watched.len() * STATUS_BYTES
    }
}

/// Bytes of a node's status.
pub(crate) const STATUS_BYTES: usize = 8;
