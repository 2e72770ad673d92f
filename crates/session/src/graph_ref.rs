//! The graph of a session: borrowed, or held.

use std::ops::Deref;
use std::sync::Arc;

use thalweg_graph::{Graph, GraphData};
use thalweg_plan::SessionError;

/// A graph that is borrowed for a lifetime, or held.
///
/// `&Graph`, `Graph` and `Arc<Graph>` become one.
#[derive(Clone)]
pub struct GraphRef<'g>(GraphHandle<'g>);

#[derive(Clone)]
enum GraphHandle<'g> {
    Borrowed(&'g Graph),
    Shared(Arc<Graph>),
}

impl GraphRef<'_> {
    /// Returns a snapshot of the graph.
    ///
    /// # Errors
    /// Its first mistake.
    pub fn checked(&self) -> Result<Arc<GraphData>, SessionError> {
        let errors = self.errors();
        match errors.is_empty() {
            true => Ok(self.snapshot()),
            false => Err(errors.into()),
        }
    }
}

impl Deref for GraphRef<'_> {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        match &self.0 {
            GraphHandle::Borrowed(graph) => graph,
            GraphHandle::Shared(graph) => graph,
        }
    }
}

impl<'g> From<&'g Graph> for GraphRef<'g> {
    fn from(graph: &'g Graph) -> GraphRef<'g> {
        GraphRef(GraphHandle::Borrowed(graph))
    }
}

impl From<Arc<Graph>> for GraphRef<'_> {
    fn from(graph: Arc<Graph>) -> Self {
        GraphRef(GraphHandle::Shared(graph))
    }
}

impl From<Graph> for GraphRef<'_> {
    fn from(graph: Graph) -> Self {
        Arc::new(graph).into()
    }
}
