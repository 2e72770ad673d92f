//! Allow-list of the ops that a server runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_graph::GraphData;
use thalweg_ops::OpSet;

use crate::error::{Cause, ClusterError};

/// Ops that are always allowed: those that the engine adds to graphs itself, and those without effect. Ops whose
/// names begin with `_` are allowed too. So are calls, since the called functions are checked.
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

/// Ops that a server runs for its clients: all ops, or those of a list. No op reads or writes files, or uses the
/// network, except the sends and receives of a step.
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
    /// Allows all ops.
    pub fn all() -> AllowedOps {
        AllowedOps::default()
    }

    /// Allows the ops of these names, and those that every graph needs: constants, placeholders, identities, casts,
    /// and ops without effect.
    ///
    /// # Errors
    /// There is no op of a name.
    pub fn only<N: Into<String>>(
        names: impl IntoIterator<Item = N>,
    ) -> Result<AllowedOps, ClusterError> {
        AllowedOps::only_in(&OpSet::default(), names)
    }

    /// As [`AllowedOps::only`], for names of this set, which has a program's own ops.
    ///
    /// # Errors
    /// There is no op of a name.
    pub fn only_in<N: Into<String>>(
        ops: &OpSet,
        names: impl IntoIterator<Item = N>,
    ) -> Result<AllowedOps, ClusterError> {
        let (known, mut allowed) = (ops.registry(), BTreeSet::new());
        for name in names {
            let name = name.into();
            let op = known.get(&name);
            let missing = || {
                ClusterError::new(
                    Cause::NotFound,
                    format!("there is no op '{name}' to allow: docs/kernels.md has their names"),
                )
            };
            // Reference variables run as resource variables.
            let same = op.ok_or_else(missing)?.on_handles;
            allowed.extend(same.map(str::to_owned));
            allowed.insert(name);
        }
        Ok(AllowedOps(Some(Arc::new(allowed))))
    }

    /// `true` if a node of this op may run.
    pub(crate) fn has(&self, op: &str) -> bool {
        let Some(names) = &self.0 else { return true };
        names.contains(op) || op.starts_with('_') || ALWAYS.contains(&op)
    }

    /// Checks all nodes of an imported graph and of its functions. Symbolic gradients of a message are expanded to
    /// nodes by then.
    ///
    /// # Errors
    /// A node may not run.
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

/// Returns the error of a node that may not run.
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
    use thalweg_graph::Graph;
    use thalweg_ops::{MathOps, NewGraph, SourceOps};

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

    #[test]
    fn a_graph_with_another_op_is_refused_and_the_node_is_named() {
        let g = Graph::new();
        let _ = g.constant(2.0f32).exp();
        let data = g.snapshot();
        AllowedOps::all().check(&data).unwrap();
        AllowedOps::only(["Exp"]).unwrap().check(&data).unwrap();
        let refused = AllowedOps::only(["Mul"]).unwrap().check(&data);
        let refused = refused.unwrap_err();
        assert_eq!(refused.cause, Cause::Refused);
        assert_eq!(
            (refused.node.as_deref(), refused.op.as_deref()),
            (Some("Exp"), Some("Exp"))
        );
    }
}
