//! Refusals of a client's nodes: of the whole graph, or until a step needs them.

use thalweg_graphdef::{ImportError, Problem};

use super::status::Status;

/// Refusal of nodes.
pub(super) enum Refusal {
    /// The graph is malformed, or takes too much.
    OfGraph(Status),
    /// This server cannot run some of the nodes.
    OfNodes(Status),
}

impl From<ImportError> for Refusal {
    fn from(error: ImportError) -> Refusal {
        let of_nodes = match &error {
            ImportError::Unsupported { .. }
            | ImportError::DTypes { .. }
            | ImportError::Attributes { .. }
            | ImportError::Graph(_) => true,
            ImportError::Node { problem, .. } | ImportError::Function { problem, .. } => {
                matches!(problem, Problem::Attr { .. } | Problem::Device(_))
            }
            _ => false,
        };
        let status = Status::from(error);
        match of_nodes && status.limit.is_none() {
            true => Refusal::OfNodes(status),
            false => Refusal::OfGraph(status),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        match refusal {
            Refusal::OfGraph(status) | Refusal::OfNodes(status) => status,
        }
    }
}
