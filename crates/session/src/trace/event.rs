//! Traces, their events, and the lanes in which viewers show them.

use thalweg_graph::DeviceSpec;

/// The kernel runs of one step. While a trace is recorded, a GPU's commands run one by one, each waited for, so that
/// each has its time.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{LinalgOps, NewGraph, SourceOps};
/// use thalweg_session::{Feeding, RunOptions, Session};
/// use thalweg_tensor::{DType, Tensor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let g = Graph::new();
/// let x = g.placeholder("x", DType::F32, [-1, 64]);
/// let y = x.matmul(g.constant(Tensor::zeros(DType::F32, &[64, 8])?));
///
/// let session = Session::new(&g)?;
/// let feeds = [x.feed(Tensor::zeros(DType::F32, &[32, 64])?)];
/// let (_, trace) = session.step_with(y, feeds, &RunOptions::new().traced())?;
/// let product = trace.events.iter().find(|e| e.op == "MatMul").unwrap();
/// assert_eq!(product.bytes, 32 * 8 * 4);
/// assert!(trace.to_chrome_json().contains("MatMul"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The runs, in the order of their starts.
    pub events: Vec<Event>,
    /// The number of runs that were left out, because the memory of a server's traces had no room for their events. Those
    /// of other tasks of a cluster are not among them.
    pub dropped: u64,
    /// Bytes of the arenas in which the step's values lie, on the devices of this process. Values whose shapes are known
    /// only at run time lie in memory of their own, and are not among them.
    pub arena_bytes: usize,
}

/// One kernel's run.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// The node.
    pub node: String,
    /// Its op, or the direction of a copy for it.
    pub op: String,
    /// The device that ran it.
    pub device: String,
    /// The thread, counted from 0 in the order in which they appear; of a GPU, 0 for kernels, 1 for
    /// copies to it, 2 for copies from it, 3 for copies to another GPU, and the host's threads from 4 on.
    pub thread: usize,
    /// Microseconds from the step's start.
    pub start_us: f64,
    /// Microseconds that it took.
    pub duration_us: f64,
    /// Bytes of its outputs; of a copy, the bytes that it moved.
    pub bytes: usize,
    /// The nodes that were computed together, by name, of which `node` is the last; none where it was computed by itself.
    pub members: Vec<String>,
    /// Of a send and a receive: the channel that connects the two.
    pub channel: Option<Channel>,
}

/// A channel from one device to another, in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    /// Its number, among those of a task or, if it is remote, of the step.
    pub number: i64,
    /// `true` if it leads out of the task.
    pub remote: bool,
}

/// Bytes that a step moved to, from and between GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the host to GPUs.
    pub to_gpus: usize,
    /// From GPUs to the host.
    pub from_gpus: usize,
    /// From one GPU to another.
    pub between_gpus: usize,
}

/// The direction of a copy, in an event's `op`.
pub(super) const TO_GPU: &str = "copy from the host";
pub(super) const FROM_GPU: &str = "copy to the host";
pub(super) const BETWEEN: &str = "copy to another GPU";

/// The threads of a GPU that are no threads of the host.
pub(super) const GPU_LANES: [&str; 4] = ["kernels", TO_GPU, FROM_GPU, BETWEEN];

/// `true` if a device of this name is a GPU.
pub(super) fn is_gpu(device: &str) -> bool {
    let spec = DeviceSpec::parse(device).ok();
    spec.is_some_and(|s| s.device_type.as_deref() == Some("GPU"))
}
