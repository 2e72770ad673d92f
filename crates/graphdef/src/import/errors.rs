//! Errors of an import: those that the graph kept, and those of a function.

use thalweg_graph::{Graph, GraphError};

use crate::error::{ImportError, Problem};

/// Returns the mistakes that a graph has kept while nodes were added to it.
pub(super) fn checked(graph: &Graph) -> Result<(), ImportError> {
    let errors: Vec<GraphError> = graph.errors();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ImportError::Graph(errors)),
    }
}

/// A problem of a function.
pub(super) fn of_function(origin: &str, function: &str, problem: Problem) -> ImportError {
    ImportError::Function {
        origin: origin.to_owned(),
        function: function.to_owned(),
        problem,
    }
}
