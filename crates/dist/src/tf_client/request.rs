//! A step that a client asks for, and what it gave.

use thalweg_session::Trace;
use thalweg_tensor::Tensor;

use super::messages::{RunMetadata, RunOptions as Asked};

/// A step that a client asks for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names of outputs, and their values.
    pub feeds: Vec<(String, Tensor)>,
    /// Names of outputs.
    pub fetches: Vec<String>,
    /// Names of nodes.
    pub targets: Vec<String>,
    /// How.
    pub options: Option<Asked>,
}

/// What a step gave.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// A value for each fetch, in order.
    pub values: Vec<Tensor>,
    /// What was recorded.
    pub metadata: RunMetadata,
    /// The node that took longest, where the step was watched.
    pub(super) longest: Option<LongestNode>,
}

/// The node of a step that took longest.
#[derive(Clone, Debug)]
pub(super) struct LongestNode {
    pub(super) node: String,
    pub(super) device: String,
    pub(super) seconds: f64,
}

impl LongestNode {
    pub(super) fn of(trace: &Trace) -> Option<LongestNode> {
        let events = trace.events.iter();
        let longest = events.max_by(|a, b| a.duration_us.total_cmp(&b.duration_us))?;
        Some(LongestNode {
            node: longest.node.clone(),
            device: longest.device.clone(),
            seconds: longest.duration_us / 1e6,
        })
    }
}
