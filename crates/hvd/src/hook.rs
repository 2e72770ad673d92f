//! BroadcastGlobalVariablesHook: variables start with the values of one rank.

use thalweg_graph::{Graph, NodeId};
use thalweg_ops::Variable;
use thalweg_session::{Fetch, RunOptions};
use thalweg_train::TrainError;
use thalweg_train::hooks::{Context, SessionRunHook};

use crate::broadcast::broadcast;

/// Broadcasts all variables from one rank when a session was created: all ranks then start with the same values,
/// whether initialized or restored from a checkpoint of that rank.
#[derive(Debug)]
pub struct BroadcastGlobalVariablesHook {
    root: usize,
    operation: Option<NodeId>,
}

impl BroadcastGlobalVariablesHook {
    /// Broadcasts from rank `root`.
    pub fn new(root: usize) -> BroadcastGlobalVariablesHook {
        BroadcastGlobalVariablesHook {
            root,
            operation: None,
        }
    }
}

impl SessionRunHook for BroadcastGlobalVariablesHook {
    fn begin(&mut self, graph: &Graph) -> Result<(), TrainError> {
        let all = graph.variables();
        let all: Vec<Variable<'_>> = all.iter().map(|v| Variable::of(graph, v)).collect();
        self.operation = Some(broadcast(graph, &all, self.root).id());
        Ok(())
    }

    fn after_create_session(&mut self, context: &Context<'_>) -> Result<(), TrainError> {
        if let Some(operation) = self.operation {
            let fetch = [Fetch::Run(operation)];
            context
                .session()
                .run_step(&fetch, &[], &RunOptions::new())?;
        }
        Ok(())
    }

    fn watches_steps(&self) -> bool {
        false
    }
}
