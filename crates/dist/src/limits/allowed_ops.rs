//! Which ops a server runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_graph::GraphData;

use crate::error::{Cause, ClusterError};

/// What the engine puts into graphs by itself, and what does nothing: always allowed, as are ops whose
/// names begin with `_`. Calls are, since what they call is looked at.
const ALWAYS: [&str; 8] = [
    "Cast",
    "Const",
    "Identity",
    "NoOp",
    "PartitionedCall",
    "Placeholder",
    "ReadVariableOp",
    "StatefulPartitionedCall",
];

/// The ops that a server runs for its clients: all that there are, or those of a list. No op reads or
/// writes files, or speaks to the network, but for the sends and receives of a step.
///
/// ```
/// use thalweg_dist::AllowedOps;
///
/// assert!(AllowedOps::only(["MatMul", "Relu"]).is_ok());
/// assert!(AllowedOps::only(["NoSuchOp"]).is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct AllowedOps(Option<Arc<BTreeSet<String>>>);

impl AllowedOps {
    /// All ops.
    pub fn all() -> AllowedOps {
        AllowedOps::default()
    }

    /// Those of these names, and what graphs are not without: constants, placeholders, identities,
    /// casts, and ops that do nothing.
    ///
    /// # Errors
    /// There is no op of a name.
    pub fn only<N: Into<String>>(
        names: impl IntoIterator<Item = N>,
    ) -> Result<AllowedOps, ClusterError> {
        let mut allowed = BTreeSet::new();
        for name in names {
            let name = name.into();
            let op = thalweg_ops::ops().find(|o| o.def.name == name);
            let missing = || {
                ClusterError::new(
                    Cause::NotFound,
                    format!("there is no op '{name}' to allow: docs/kernels.md has their names"),
                )
            };
            // Variables behind references run as variables behind handles.
            let same = op.ok_or_else(missing)?.def.on_handles;
            allowed.extend(same.map(str::to_owned));
            allowed.insert(name);
        }
        Ok(AllowedOps(Some(Arc::new(allowed))))
    }

    /// Whether a node of this op may run.
    pub(crate) fn has(&self, op: &str) -> bool {
        let Some(names) = &self.0 else { return true };
        names.contains(op) || op.starts_with('_') || ALWAYS.contains(&op)
    }

    /// Looks at all nodes of a graph as it is imported, those of its functions among them: what stands for
    /// a gradient in a message has become its nodes by then.
    ///
    /// # Errors
    /// It has one that may not run.
    pub(crate) fn check(&self, graph: &GraphData) -> Result<(), ClusterError> {
        if self.0.is_none() {
            return Ok(());
        }
        let bodies = graph.functions().values().map(|f| &f.body);
        for body in std::iter::once(graph).chain(bodies) {
            let mut all = body.nodes();
            if let Some((_, node)) = all.find(|(_, n)| !self.has(n.op.name)) {
                return Err(refused(&node.name, node.op.name));
            }
        }
        Ok(())
    }
}

/// That a node may not run.
pub(crate) fn refused(node: &str, op: &str) -> ClusterError {
    let text = format!(
        "Node '{node}': this server does not run op '{op}': its operator has allowed others alone \
         (--ops)"
    );
    ClusterError::new(Cause::Refused, text).in_node(node, op)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allow_list_admits_its_ops_and_the_ops_of_every_graph() {
        let some = AllowedOps::only(["MatMul", "Add"]).unwrap();
        for op in ["MatMul", "Const", "_Send"] {
            assert!(some.has(op), "{op}");
        }
        assert!(!some.has("Sub"));
        assert!(AllowedOps::all().has("Sub"));
        let variables = AllowedOps::only(["VariableV2", "Assign"]).unwrap();
        assert!(variables.has("VarHandleOp") && variables.has("AssignVariableOp"));
        assert_eq!(
            AllowedOps::only(["MatMull"]).unwrap_err().cause,
            Cause::NotFound
        );
    }
}
