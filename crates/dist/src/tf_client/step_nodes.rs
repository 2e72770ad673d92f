//! The nodes of a step that its metadata lists, with their devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_graph::Placement;
use thalweg_graph::{GraphData, NodeId, OutputId};
use thalweg_graphdef::messages::GraphDef;
use thalweg_graphdef::{ExportOptions, export_data};
use thalweg_session::Fetch;
use tonic::Code;

use super::status::Status;

/// The nodes that a step needs.
pub(super) struct StepNodes {
    data: Arc<GraphData>,
    placement: Arc<Placement>,
    needed: Vec<bool>,
}

impl StepNodes {
    /// The nodes that `fetches` need when these outputs are fed.
    pub(super) fn new(
        data: &Arc<GraphData>,
        placement: Arc<Placement>,
        fetches: &[Fetch],
        fed: &[OutputId],
    ) -> StepNodes {
        let roots = fetches.iter().map(|f| match f {
            Fetch::Value(output) => output.node,
            Fetch::Run(node) => *node,
        });
        StepNodes {
            needed: data.needed(roots, |o| fed.contains(&o)),
            data: data.clone(),
            placement,
        }
    }

    /// Names and devices, in the order of building.
    pub(super) fn each(&self) -> impl Iterator<Item = (&str, String)> {
        let needed = self.data.nodes().filter(|(id, _)| self.is_needed(*id));
        needed.map(|(id, node)| (&*node.name, self.placement.name(id).to_string()))
    }

    fn is_needed(&self, id: NodeId) -> bool {
        let placed = id.index() < self.placement.len();
        placed && self.needed.get(id.index()).copied().unwrap_or(false)
    }

    /// The part of the graph on each device. Values that cross are named as inputs.
    ///
    /// # Errors
    /// A node cannot be written.
    pub(super) fn partitions(&self) -> Result<Vec<GraphDef>, Status> {
        let whole = export_data(&self.data, &ExportOptions::new())
            .map_err(|e| Status::new(Code::Unimplemented, e.to_string()))?;
        let mut parts: BTreeMap<usize, GraphDef> = BTreeMap::new();
        for ((id, _), mut node) in self.data.nodes().zip(whole.node) {
            if !self.is_needed(id) {
                continue;
            }
            let part = parts.entry(self.placement.device(id));
            let part = part.or_insert_with(|| GraphDef {
                versions: whole.versions.clone(),
                library: whole.library.clone(),
                ..GraphDef::default()
            });
            node.device = self.placement.name(id).to_string();
            part.node.push(node);
        }
        Ok(parts.into_values().collect())
    }
}
