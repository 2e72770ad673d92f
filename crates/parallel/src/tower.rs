//! A copy of the model on one device.

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

    /// Which tower of this process it is, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The towers of this process.
    pub fn towers(&self) -> usize {
        self.towers
    }

    /// The tower's part of a batch: the first dimension is cut into as many equal parts as there are towers. That it
    /// cannot be is a mistake that the graph keeps.
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
