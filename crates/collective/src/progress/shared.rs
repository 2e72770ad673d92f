//! State that the progress thread, its handle and the sessions share.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use thalweg_device::{CollectiveRequest, KernelError, Ticket};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{Memory, Tensor};

use super::communicators::Communicators;
use crate::control::{Control, Turn};
use crate::error::{CollectiveError, Result};
use crate::phase_timer::PhaseTimer;
use crate::timeline::Timeline;
use crate::trace::Trace;

/// State of a rank's collectives.
pub(super) struct ProgressShared {
    pub(super) control: Option<Arc<Control>>,
    pub(super) rank: usize,
    /// `true` if ranks announce each collective before it runs.
    pub(super) negotiates: bool,
    pub(super) state: Mutex<ProgressState>,
    pub(super) timeline: Mutex<Option<Timeline>>,
    pub(super) trace: Mutex<Option<Trace>>,
    pub(super) timer: PhaseTimer,
    pub(super) communicators: Mutex<Communicators>,
}

/// Sets of ranks, nodes that wait, and plans that were agreed on.
#[derive(Default)]
pub(super) struct ProgressState {
    /// By number: the members of a set, in order.
    pub(super) sets: HashMap<i32, Vec<usize>>,
    /// Collectives of nodes.
    pub(super) nodes: HashMap<NodeKey, NodeCollective>,
    /// Number of sessions so far.
    pub(super) sessions: u64,
    /// By set: the number of plans that its ranks have compared.
    pub(super) agreements: HashMap<i32, u64>,
    /// Digests of the plans that were agreed on.
    pub(super) agreed: HashSet<u64>,
}

/// Node that waits: the number of its session, and that of its ticket there.
pub(super) type NodeKey = (u64, u64);

/// Collective of a node.
pub(super) enum NodeCollective {
    /// It is queued or runs.
    Pending { ticket: Ticket, name: String },
    /// It has run.
    Done(Result<Vec<Tensor>>),
}

/// Collective that was requested.
pub(super) struct QueuedRequest {
    pub(super) request: CollectiveRequest,
    /// Memory for its results.
    pub(super) memory: Option<Arc<Memory>>,
    pub(super) queued_at: Instant,
    pub(super) reply_to: ReplyTo,
}

/// Recipient of a collective's results.
pub(super) enum ReplyTo {
    /// A node of a step.
    Node(NodeKey),
    /// The program.
    Program(Sender<Result<Vec<Tensor>>>),
    /// None: this rank has joined, and only contributes zeros.
    Discard,
}

/// Command for the progress thread.
pub(super) enum Command {
    Run(QueuedRequest),
    /// Add a set of ranks.
    AddSet(Vec<usize>, Sender<Result<i32>>),
    /// This rank has no more data.
    Join(Sender<Result<usize>>),
    /// A negotiated turn: all ranks are ready for it.
    Turn(Turn),
    /// The handle is dropped.
    End,
}

impl ProgressShared {
    pub(super) fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unpoisoned()
    }

    pub(super) fn communicators(&self) -> MutexGuard<'_, Communicators> {
        self.communicators.lock().unpoisoned()
    }

    /// Ends the job for all ranks.
    pub(super) fn fail(&self, error: &CollectiveError) {
        if let Some(control) = &self.control {
            control.fail(error);
        }
    }
}

/// Converts the error of a collective to that of a kernel.
pub(super) fn kernel_error(error: CollectiveError) -> KernelError {
    KernelError::Invalid(error.to_string())
}
