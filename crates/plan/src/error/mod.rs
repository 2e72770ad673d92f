//! Errors of sessions.

use std::any::Any;
use std::fmt;

use thalweg_device::gpu::GpuError;
use thalweg_device::{Device, KernelError};
use thalweg_graph::{DeviceSpec, Fact, GraphError, Node, Origin, PlaceError, place::PlaceReason};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape};
use thiserror::Error;

/// An error of a session. The session is usable after any of them.
///
/// The text of an error is for users and says what to do. Programs match on the variant.
///
/// ```
/// use std::time::Duration;
/// use thalweg_plan::SessionError;
///
/// /// Whether a step may succeed when it is run again as it is.
/// fn again(error: &SessionError) -> bool {
///     matches!(error, SessionError::Timeout { .. } | SessionError::Cancelled { .. })
/// }
///
/// let error = SessionError::Timeout {
///     limit: Duration::from_secs(1),
///     next: "loss".to_owned(),
/// };
/// assert!(again(&error));
/// assert!(error.to_string().contains("was stopped before node 'loss'"));
/// assert!(!again(&SessionError::FeedCount { expected: 2, found: 1 }));
/// ```
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The graph has a mistake.
    #[error("{first}{}", more(.count))]
    Graph {
        /// The first mistake.
        first: Box<GraphError>,
        /// Number of mistakes.
        count: usize,
    },
    /// A feed or fetch of another graph.
    #[error("{what} '{name}' belongs to another graph than the session's: build both in one")]
    OtherGraph {
        /// "feed" or "fetch".
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A feed or fetch that could not be built, or an output that its node does not have.
    #[error("{what} '{name}' is an output that does not exist")]
    NoSuchOutput {
        /// "feed" or "fetch".
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A feed or fetch by a name that the graph does not have.
    #[error("there is no '{name}' to {what}: {help}")]
    NoSuchName {
        /// "feed" or "fetch".
        what: &'static str,
        /// The name.
        name: String,
        /// Names that the graph has instead.
        help: String,
    },
    /// A placeholder that is needed and not fed.
    #[error(
        "placeholder '{node}' ({dtype}{shape}), made at {origin}, must be fed for what is fetched"
    )]
    MissingFeed {
        /// The placeholder.
        node: String,
        /// Its dtype.
        dtype: DType,
        /// Its shape.
        shape: Shape,
        /// The line that made it.
        origin: Origin,
    },
    /// One output fed twice.
    #[error("'{output}' is fed twice")]
    FedTwice {
        /// The output.
        output: String,
    },
    /// A feed of another dtype or shape than its output.
    #[error("'{output}', made at {origin}, takes {dtype}{shape}, but was fed {found_dtype}{found}")]
    Feed {
        /// The output.
        output: String,
        /// The line that made it.
        origin: Origin,
        /// Its dtype.
        dtype: DType,
        /// Its shape.
        shape: Shape,
        /// The dtype that was fed.
        found_dtype: DType,
        /// The shape that was fed.
        found: Shape,
    },
    /// A fetch or feed of a variable's handle.
    #[error(
        "'{output}' is the handle of a variable and has no value: fetch or feed the variable's value"
    )]
    Handle {
        /// The handle.
        output: String,
    },
    /// A call of a callable with another number of feeds than it was made for.
    #[error("the callable takes {}, not {found}", counted(.expected, "feed"))]
    FeedCount {
        /// Number of feeds that it was made for.
        expected: usize,
        /// Number of feeds in the call.
        found: usize,
    },
    /// A graph that cannot be placed on the session's devices.
    #[error(transparent)]
    Place(#[from] Box<PlaceError>),
    /// A node that asks for a GPU, which a session does not have.
    #[error("{place}\n{found}")]
    Gpu {
        /// The node, and the reason.
        place: Box<PlaceError>,
        /// The GPUs of this machine, or the part that is missing and how to get it.
        found: String,
    },
    /// A device that cannot be opened or has failed.
    #[error("{device}: {source}")]
    Device {
        /// The device.
        device: DeviceSpec,
        /// The missing part, or the failure.
        source: GpuError,
    },
    /// A device whose threads the system does not give.
    #[error(
        "{device} got {given} of {}: allow this process more threads (ulimit -u, pids.max), or ask for fewer",
        counted(.asked, "thread")
    )]
    Threads {
        /// The device.
        device: DeviceSpec,
        /// The threads that it was to have, the calling one among them.
        asked: usize,
        /// Those that it got.
        given: usize,
    },
    /// Nodes that wait for each other.
    #[error("node '{node}' waits for itself: the graph has a cycle")]
    Cycle {
        /// A node on the cycle.
        node: String,
    },
    /// A node for which there is no kernel.
    #[error(
        "node '{node}' ({op}), made at {origin}: there is no kernel for it on a {device}, with {dtypes}: Cast its inputs"
    )]
    NoKernel {
        /// The node.
        node: String,
        /// Its op.
        op: String,
        /// The line that made it.
        origin: Origin,
        /// The device.
        device: String,
        /// The dtypes that it has.
        dtypes: String,
    },
    /// A node of an op that the session does not have.
    #[error(
        "node '{node}' ({op}), made at {origin}: the session does not have this op: give it its op set \
         (SessionOptions::ops)"
    )]
    UnknownOp {
        /// The node.
        node: String,
        /// Its op.
        op: String,
        /// The line that made it.
        origin: Origin,
    },
    /// A kernel that failed.
    #[error("node '{node}' ({op}), made at {origin}: {source}")]
    Kernel {
        /// The node.
        node: String,
        /// Its op.
        op: String,
        /// The line that made it.
        origin: Origin,
        /// The error of the kernel.
        source: KernelError,
    },
    /// A kernel that panicked: a defect of the kernel. The step ended, the session did not.
    #[error(
        "node '{node}' ({op}), made at {origin}: its kernel panicked: {message}. This is a defect: please report it"
    )]
    Panicked {
        /// The node.
        node: String,
        /// Its op.
        op: String,
        /// The line that made it.
        origin: Origin,
        /// The message of the panic.
        message: String,
    },
    /// Ranks whose plans differ, or of which one was lost before they were compared.
    #[error("before its first collective, '{first}', this plan was not agreed on: {source}")]
    Collectives {
        /// The first collective of the plan.
        first: String,
        /// The difference, or the failure.
        source: KernelError,
    },
    /// A value that is not finite, in a step with checks.
    #[error(
        "node '{node}' ({op}), made at {origin}: element {element} of output {index} is {value}, the first value of the step that is not finite"
    )]
    NotFinite {
        /// The node.
        node: String,
        /// Its op.
        op: String,
        /// The line that made it.
        origin: Origin,
        /// Number of the output.
        index: usize,
        /// Number of the element, in row-major order.
        element: usize,
        /// The value: NaN or an infinity.
        value: f64,
    },
    /// A step that took longer than its limit.
    #[error("the step did not end within its {limit:?}: it was stopped before node '{next}'")]
    Timeout {
        /// The limit.
        limit: std::time::Duration,
        /// A node that was still to run.
        next: String,
    },
    /// A step that was cancelled.
    #[error("the step was cancelled before node '{next}'")]
    Cancelled {
        /// A node that was still to run.
        next: String,
    },
    /// A value for which the device has no memory, or the largest one of a step that as a whole
    /// does not fit.
    #[error(
        "node '{node}' ({op}), made at {origin}: {device} has no memory for its {dtype}{shape}{}{}: feed a smaller batch, or place it elsewhere",
        limited(.limit, .used),
        of_step(.whole)
    )]
    Memory {
        /// The node.
        node: String,
        /// Its op.
        op: String,
        /// The line that made it.
        origin: Origin,
        /// The dtype of the value.
        dtype: DType,
        /// Its shape.
        shape: Shape,
        /// The device.
        device: DeviceSpec,
        /// The most bytes that it may use; `None` for as many as the system has.
        limit: Option<usize>,
        /// The bytes that it used at the time.
        used: usize,
        /// The bytes that all values of the step take on the device at once, of which this is the largest; `None` where it
        /// is this value that does not fit.
        whole: Option<usize>,
    },
    /// A plan for which a server has no memory left.
    #[error(
        "the plan of this step takes {bytes} bytes, and there is no memory for it{}: raise the limit, or run fewer \
         different steps at a time",
        .limit.map_or(String::new(), |limit| format!(" within {limit} bytes"))
    )]
    PlanMemory {
        /// The bytes of the plan.
        bytes: usize,
        /// The most bytes of all plans.
        limit: Option<usize>,
    },
    /// A fetched value that was read as another type.
    #[error("{what}: {reason}")]
    Result {
        /// The result.
        what: String,
        /// The reason.
        reason: String,
    },
}

impl SessionError {
    /// `true` if a node cannot be placed because no device has a kernel for it; `false` if the device that it asks for is
    /// not there.
    pub fn lacks_kernel(&self) -> bool {
        let place = match self {
            SessionError::Place(place) | SessionError::Gpu { place, .. } => place,
            _ => return false,
        };
        matches!(place.reason, PlaceReason::NoKernel { .. })
    }

    /// `true` if an input has come to its end, such as a queue that is closed and empty.
    pub fn is_out_of_range(&self) -> bool {
        fn of(error: &KernelError) -> bool {
            match error {
                KernelError::OutOfRange(_) => true,
                KernelError::Function { source, .. } => of(source),
                _ => false,
            }
        }
        matches!(self, SessionError::Kernel { source, .. } if of(source))
    }

    /// `true` if the step was cancelled, or something that it waited for, such as an enqueue into a queue that is closed.
    pub fn is_cancelled(&self) -> bool {
        match self {
            SessionError::Cancelled { .. } => true,
            SessionError::Kernel { source, .. } => matches!(source, KernelError::Cancelled(_)),
            _ => false,
        }
    }
}

/// The sentence of [`fmt::Display`]: a program that returns the error from `main` prints it, and so does `unwrap`.
impl fmt::Debug for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn limited(limit: &Option<usize>, used: &usize) -> String {
    match limit {
        Some(limit) => format!(" ({used} of the {limit} bytes that it may use are in use)"),
        None => String::new(),
    }
}

fn more(count: &usize) -> String {
    match count {
        0 | 1 => String::new(),
        n => format!(" (and {} in this graph)", counted(n - 1, "more mistake")),
    }
}

impl From<Vec<GraphError>> for SessionError {
    /// The first of some mistakes; there must be one.
    fn from(errors: Vec<GraphError>) -> SessionError {
        let count = errors.len();
        match errors.into_iter().next() {
            Some(first) => SessionError::Graph {
                first: Box::new(first),
                count,
            },
            None => SessionError::NoSuchOutput {
                what: "fetch",
                name: String::new(),
            },
        }
    }
}

/// Returns the error of a node whose kernel cannot be prepared or run.
pub fn failed(node: &Node, source: KernelError) -> SessionError {
    SessionError::Kernel {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        source,
    }
}

/// Returns the error of a value for which a device has no memory.
pub fn memory(on: &Device, node: &Node, dtype: DType, shape: Shape) -> SessionError {
    SessionError::Memory {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        dtype,
        shape,
        device: on.name().clone(),
        limit: on.memory().limit(),
        used: on.memory().used(),
        whole: None,
    }
}

/// Returns the error of a step whose values do not fit on a device at once, with the largest of them.
pub fn memory_of_step(on: &Device, node: &Node, fact: &Fact, bytes: usize) -> SessionError {
    let mut error = memory(on, node, fact.dtype, fact.shape.clone());
    if let SessionError::Memory { whole, .. } = &mut error {
        *whole = Some(bytes);
    }
    error
}

fn of_step(bytes: &Option<usize>) -> String {
    match bytes {
        Some(bytes) => format!(", the largest value of a step that takes {bytes} bytes at once"),
        None => String::new(),
    }
}

/// Returns the error of a panic in a node's kernel.
pub fn panicked(node: &Node, panic: &(dyn Any + Send)) -> SessionError {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let message = text.or_else(|| panic.downcast_ref::<String>().cloned());
    SessionError::Panicked {
        node: node.name.clone(),
        op: node.op.name.to_owned(),
        origin: node.origin.clone(),
        message: message.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
