//! Names of outputs, nodes and signatures on the command line.

use std::collections::BTreeMap;

use thalweg_graph::{Graph, Operation, Output};
use thalweg_graphdef::Imported;
use thalweg_tensor::text::counted;
use thalweg_train::saved_model::Signature;

use crate::failure::Failure;

/// Returns the signature of a name.
pub(crate) fn signature_of<'a>(
    all: &'a BTreeMap<String, Signature>,
    name: &str,
    file: &str,
) -> Result<&'a Signature, Failure> {
    all.get(name).ok_or_else(|| {
        let there: Vec<&str> = all.keys().map(|n| &**n).collect();
        let there = match there.is_empty() {
            true => "none".to_owned(),
            false => there.join(", "),
        };
        format!("--signature {name}: {file} has {there}").into()
    })
}

/// Resolver of the names in flags: outputs and nodes.
pub(crate) struct NameResolver<'a, 'g> {
    pub graph: &'g Graph,
    pub imported: &'a Imported<'g>,
    pub file: &'a str,
    /// Signature whose names stand for outputs too.
    pub signature: Option<&'a Signature>,
}

impl<'g> NameResolver<'_, 'g> {
    /// Input of the signature with this name, or an output.
    pub(crate) fn input(&self, flag: &str, name: &str) -> Result<Output<'g>, Failure> {
        match self.signature.and_then(|s| s.inputs.get(name)) {
            Some(&id) => Ok(self.graph.output(id)),
            None => self.output(flag, name),
        }
    }

    /// Output of the signature with this name, or an output of a node.
    pub(crate) fn output(&self, flag: &str, name: &str) -> Result<Output<'g>, Failure> {
        if let Some(&id) = self.signature.and_then(|s| s.outputs.get(name)) {
            return Ok(self.graph.output(id));
        }
        if let Some(found) = self.imported.output(name) {
            return Ok(found);
        }
        Err(match self.imported.operation(node(name)) {
            Some(there) => format!(
                "{flag} {name}: the node has {}; --target runs a node",
                counted(there.outputs().len(), "output")
            ),
            None => self.missing(flag, name),
        }
        .into())
    }

    pub(crate) fn node(&self, flag: &str, name: &str) -> Result<Operation<'g>, Failure> {
        let found = self.imported.operation(node(name));
        found.ok_or_else(|| self.missing(flag, name).into())
    }

    fn missing(&self, flag: &str, name: &str) -> String {
        let data = self.graph.snapshot();
        let names = data.nodes().map(|(_, n)| &*n.name);
        let near = thalweg_graph::graph::nearest_name(node(name), names);
        let near = near.map_or(String::new(), |n| format!(": did you mean {n}?"));
        format!(
            "{flag} {name}: {} has no node of this name{near}",
            self.file
        )
    }
}

fn node(name: &str) -> &str {
    name.split_once(':').map_or(name, |(node, _)| node)
}
