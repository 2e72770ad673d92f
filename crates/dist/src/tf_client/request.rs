//! Requests and responses of steps.

use thalweg_session::Trace;
use thalweg_tensor::Tensor;

use thalweg_graphdef::messages::RunMetadata;

use super::messages::RunOptions as Asked;

/// A client's request of a step.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names of outputs, and their values.
    pub feeds: Vec<(String, Tensor)>,
    /// Names of outputs.
    pub fetches: Vec<String>,
    /// Names of nodes.
    pub targets: Vec<String>,
    /// Options of the step.
    pub options: Option<Asked>,
}

/// Response of a step.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// A value for each fetch, in order.
    pub values: Vec<Tensor>,
    /// Trace of the step, if it was requested.
    pub metadata: RunMetadata,
    /// Node that took longest, if the step was traced for that.
    pub(super) longest: Option<LongestNode>,
}

/// Node of a step that took longest.
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

#[cfg(test)]
mod tests {
    use thalweg_session::Event;

    use super::*;

    #[test]
    fn the_longest_node_is_that_of_the_longest_event() {
        let event = |node: &str, duration_us| Event {
            node: node.to_owned(),
            duration_us,
            ..Event::default()
        };
        let events = [("a", 2.0), ("b", 3e6), ("c", f64::MIN_POSITIVE)];
        let events = events.map(|(node, took)| event(node, took)).into();
        let longest = LongestNode::of(&Trace {
            events,
            ..Trace::default()
        })
        .unwrap();
        assert_eq!((&*longest.node, longest.seconds), ("b", 3.0));
        assert!(LongestNode::of(&Trace::default()).is_none());
    }
}
