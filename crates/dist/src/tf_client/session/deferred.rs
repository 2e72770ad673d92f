//! Nodes of a client's graph that this server cannot add: an op that it does not have, a shape that does not fit, a device
//! that is not there. A step that needs one fails; others run, as on TensorFlow's server.

use std::collections::BTreeMap;

use thalweg_graphdef::messages::{FunctionDefLibrary, NodeDef, VersionDef};
use thalweg_graphdef::{GraphDef, names, needed};

/// Nodes that are added when a step needs them, by name.
#[derive(Default)]
pub(super) struct DeferredNodes {
    nodes: BTreeMap<String, NodeDef>,
    library: Option<FunctionDefLibrary>,
    versions: Option<VersionDef>,
}

impl DeferredNodes {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// `true` if a node of `def` has one of these as an input.
    pub(super) fn feed(&self, def: &GraphDef) -> bool {
        let inputs = def.node.iter().flat_map(|n| &n.input);
        !self.nodes.is_empty() && inputs.into_iter().any(|i| self.has(names::node(i)))
    }

    /// Keeps the nodes of an extension. Each extension repeats the functions of those before it.
    pub(super) fn keep(&mut self, def: &GraphDef) {
        let nodes = def.node.iter().map(|n| (n.name.clone(), n.clone()));
        self.nodes.extend(nodes);
        self.library.clone_from(&def.library);
        self.versions.clone_from(&def.versions);
    }

    /// A graph of the nodes among these that nodes need; `None` if there are none.
    pub(super) fn needed_by<'n>(
        &'n self,
        roots: impl Iterator<Item = &'n str>,
    ) -> Option<GraphDef> {
        let found = needed(&self.nodes, roots);
        (!found.is_empty()).then(|| GraphDef {
            node: found.iter().map(|n| self.nodes[*n].clone()).collect(),
            library: self.library.clone(),
            versions: self.versions.clone(),
            ..GraphDef::default()
        })
    }

    /// Forgets the nodes of a graph, which were added.
    pub(super) fn remove(&mut self, def: &GraphDef) {
        for node in &def.node {
            self.nodes.remove(&node.name);
        }
    }
}
