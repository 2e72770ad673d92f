//! Which ops a server runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_graphdef::GraphDef;
use tonic::Code;

use crate::status::Status;

/// What the engine adds to graphs by itself, and what does nothing: always allowed, as are ops whose
/// names begin with `_`.
const ALWAYS: [&str; 5] = ["Cast", "Const", "Identity", "NoOp", "Placeholder"];

/// The ops that a server runs for its clients: all that there are, or those of a list. No op reads or
/// writes files, or speaks to the network, but for the sends and receives of a step.
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
    pub fn only<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<AllowedOps, Status> {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        match names.iter().find(|n| !exists(n)) {
            Some(none) => Err(Status::not_found(format!(
                "there is no op '{none}' to allow"
            ))),
            None => Ok(AllowedOps(Some(Arc::new(names)))),
        }
    }

    /// Whether a node of this op may run. What is no op's name, but may be a function's, may.
    pub(crate) fn has(&self, op: &str) -> bool {
        let Some(names) = &self.0 else { return true };
        names.contains(op) || op.starts_with('_') || ALWAYS.contains(&op) || !exists(op)
    }

    /// Looks at all nodes of a graph, those of its functions among them.
    ///
    /// # Errors
    /// It has one that may not run.
    pub(crate) fn check(&self, def: &GraphDef) -> Result<(), Status> {
        let functions = def.library.iter().flat_map(|l| &l.function);
        let inside = functions.flat_map(|f| &f.node_def);
        let mut all = def.node.iter().chain(inside);
        match all.find(|n| !self.has(&n.op)) {
            Some(node) => Err(refused(&node.name, &node.op)),
            None => Ok(()),
        }
    }
}

/// That a node may not run.
pub(crate) fn refused(node: &str, op: &str) -> Status {
    let text = format!(
        "Node '{node}': this server does not run op '{op}': its operator has allowed others alone \
         (--ops)"
    );
    Status::new(Code::PermissionDenied, text)
}

fn exists(op: &str) -> bool {
    thalweg_ops::ops().any(|o| o.def.name == op)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_allows_what_it_names_and_what_graphs_are_not_without() {
        let some = AllowedOps::only(["MatMul", "Add"]).unwrap();
        for op in ["MatMul", "Const", "_TaskSend", "a_function"] {
            assert!(some.has(op), "{op}");
        }
        assert!(!some.has("Sub"));
        assert!(AllowedOps::all().has("Sub"));
        assert_eq!(
            AllowedOps::only(["MatMull"]).unwrap_err().code,
            Code::NotFound
        );
    }
}
