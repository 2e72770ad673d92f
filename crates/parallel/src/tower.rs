//! Tower: a copy of the model on one device.

use std::fmt;

use thalweg_graph::{Graph, Output};
use thalweg_ops::ArrayOps;

/// The tower that is being built.
#[derive(Clone, Copy)]
pub struct Tower<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) index: usize,
    pub(crate) towers: usize,
}

impl<'g> Tower<'g> {
    /// The graph.
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// Index of the tower in this process.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of towers of this process.
    pub fn towers(&self) -> usize {
        self.towers
    }

    /// The tower's part of a batch: the first dimension is divided evenly between the towers. If that is impossible,
    /// the graph keeps a mistake.
    #[track_caller]
    pub fn part(&self, batch: Output<'g>) -> Output<'g> {
        match self.towers {
            1 => batch,
            towers => batch.split(towers, 0)[self.index],
        }
    }
}

impl fmt::Debug for Tower<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tower({} of {})", self.index, self.towers)
    }
}
