//! Wire dtypes: f32 values may be sent to other tasks as f16 or bf16.

use std::sync::Arc;

use thalweg_graph::DeviceSpec;
use thalweg_tensor::DType;

/// The dtype in which elements of f32 are sent to another task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireType {
    /// As they are.
    #[default]
    F32,
    /// As f16: half of the bytes, 11 bits of precision, at most 65504.
    F16,
    /// As bf16: half of the bytes, 8 bits of precision, the range of f32.
    BF16,
}

impl WireType {
    pub(super) fn dtype(self) -> DType {
        match self {
            WireType::F32 => DType::F32,
            WireType::F16 => DType::F16,
            WireType::BF16 => DType::BF16,
        }
    }
}

/// An edge of the graph between two tasks.
#[derive(Clone, Copy, Debug)]
pub struct Edge<'a> {
    /// The node that makes it.
    pub node: &'a str,
    /// The number of the node's output.
    pub output: u32,
    /// The first device of the task that it comes from; its name has the job and the index of the task.
    pub from: &'a DeviceSpec,
    /// The first device of the task that it goes to.
    pub to: &'a DeviceSpec,
}

/// A rule that chooses, for each edge between two tasks, the dtype in which elements of f32 are sent. Feeds and fetches
/// of a client, and values of other dtypes, are sent as they are.
#[derive(Clone)]
pub struct Wire(Arc<dyn Fn(&Edge<'_>) -> WireType + Send + Sync>);

impl Wire {
    /// The same for all edges.
    pub fn all(dtype: WireType) -> Wire {
        Wire::each(move |_| dtype)
    }

    /// For each edge the result of `choose`, which must be the same each time.
    pub fn each(choose: impl Fn(&Edge<'_>) -> WireType + Send + Sync + 'static) -> Wire {
        Wire(Arc::new(choose))
    }

    pub(super) fn of(&self, edge: &Edge<'_>) -> WireType {
        (self.0)(edge)
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_chooses_for_each_edge() {
        let ends = ["/job:ps/task:0", "/job:worker/task:1"].map(|d| DeviceSpec::parse(d).unwrap());
        let edge = |node, output, [from, to]: [usize; 2]| Edge {
            node,
            output,
            from: &ends[from],
            to: &ends[to],
        };
        let to_workers = Wire::each(|e| match (e.to.job.as_deref(), e.node, e.output) {
            (Some("worker"), "w", _) => WireType::BF16,
            (_, _, 1) => WireType::F16,
            _ => WireType::F32,
        });
        for (edge, expected) in [
            (edge("w", 0, [0, 1]), DType::BF16),
            (edge("w", 0, [1, 0]), DType::F32),
            (edge("v", 0, [0, 1]), DType::F32),
            (edge("v", 1, [1, 0]), DType::F16),
        ] {
            assert_eq!(to_workers.of(&edge).dtype(), expected, "{edge:?}");
            assert_eq!(Wire::all(WireType::F16).of(&edge), WireType::F16);
        }
    }

    #[test]
    fn values_are_sent_as_they_are_by_default() {
        assert_eq!(WireType::default().dtype(), DType::F32);
        assert_eq!(format!("{:?}", Wire::all(WireType::F16)), "Wire(..)");
    }
}
