//! The graph of K-means: passes over rows, and the all-reduce of their sums.

use thalweg_graph::{Graph, Operation, Output};
use thalweg_ops::{
    ALL_RANKS, ArrayOps, CollectiveOps, MathOps, ReduceOp, SourceOps, StateOps, StatisticsOps,
};
use thalweg_session::{Callable, Session};
use thalweg_tensor::{DType, Tensor};

use crate::error::StatsError;
use crate::passes::over_blocks;
use crate::rows::{Block, RowBlocks};

/// The nodes of K-means.
pub(super) struct Nodes<'g> {
    x: Output<'g>,
    weights: Output<'g>,
    centroids: Output<'g>,
    best: Output<'g>,
    clear: Operation<'g>,
    add_sums: Operation<'g>,
    reduced: Output<'g>,
    nearest: Output<'g>,
    distances: Output<'g>,
    closer: Output<'g>,
    rows: Output<'g>,
    gathered: Output<'g>,
}

/// The sums of all clusters over all ranks.
pub(super) struct Sums {
    /// `[k, d]`.
    pub rows: Vec<f64>,
    /// `[k]`.
    pub counts: Vec<f64>,
    pub inertia: f64,
}

impl<'g> Nodes<'g> {
    /// Nodes for rows of this dtype and `dims` columns, and `k` clusters.
    pub(super) fn new(g: &'g Graph, dtype: DType, k: usize, dims: usize) -> Nodes<'g> {
        let x = g.placeholder("x", dtype, [-1, dims as i64]);
        let weights = g.placeholder("weights", dtype, [-1]);
        let centroids = g.placeholder("centroids", dtype, [-1, dims as i64]);
        let best = g.placeholder("best", dtype, [-1]);

        let of_block = x.cluster_sums(weights, centroids);
        let parts = [
            of_block.sums.reshape([-1]),
            of_block.counts,
            of_block.inertia.reshape([1]),
        ];
        // One vector: a single exchange for all sums.
        let zeros = g
            .constant(0.0f64)
            .broadcast_to([(k * (dims + 1) + 1) as i64]);
        let sums = g.variable("sums", zeros);

        let [nearest, distances] = x.nearest_centroids(centroids);
        let closer = best.minimum(distances);
        let rows = g.placeholder("rows", DType::F64, [None, None]);
        Nodes {
            x,
            weights,
            centroids,
            best,
            clear: sums.assign(zeros),
            add_sums: sums.assign_add(g.concat(&parts, 0)),
            reduced: sums.value().all_reduce(ReduceOp::Sum),
            nearest,
            distances,
            closer,
            rows,
            gathered: rows.all_gather(ALL_RANKS),
        }
    }
}

/// Steps of K-means in a session.
pub(super) struct Steps<'g> {
    add_sums: Callable<'g>,
    clear: Callable<'g>,
    reduce: Callable<'g>,
    search: Callable<'g>,
    gather: Callable<'g>,
    closer: Callable<'g>,
    k: usize,
    dims: usize,
}

impl<'g> Steps<'g> {
    pub(super) fn new(
        nodes: &Nodes<'g>,
        session: &Session<'g>,
        [k, dims]: [usize; 2],
    ) -> Result<Steps<'g>, StatsError> {
        let &Nodes {
            x,
            weights,
            centroids,
            best,
            ..
        } = nodes;
        Ok(Steps {
            add_sums: session.callable(nodes.add_sums, [x, weights, centroids])?,
            clear: session.callable(nodes.clear, ())?,
            reduce: session.callable(nodes.reduced, ())?,
            search: session.callable([nodes.nearest, nodes.distances], [x, centroids])?,
            closer: session.callable(nodes.closer, [x, centroids, best])?,
            gather: session.callable(nodes.gathered, [nodes.rows])?,
            k,
            dims,
        })
    }

    /// The sums of the clusters of all rows.
    pub(super) fn sums(
        &mut self,
        rows: &dyn RowBlocks,
        centroids: &Tensor,
    ) -> Result<Sums, StatsError> {
        self.clear.call(&[])?;
        over_blocks(rows, &mut |first_row, block| {
            self.add(first_row, block, centroids)
        })?;
        self.reduced()
    }

    /// As [`Steps::sums`], of rows that count once each.
    pub(super) fn unweighted_sums(
        &mut self,
        rows: &dyn RowBlocks,
        centroids: &Tensor,
    ) -> Result<Sums, StatsError> {
        let weights = Tensor::zeros(rows.dtype(), &[0])?;
        self.clear.call(&[])?;
        over_blocks(rows, &mut |first_row, block| {
            let block = Block {
                weights: weights.clone(),
                ..block.clone()
            };
            self.add(first_row, &block, centroids)
        })?;
        self.reduced()
    }

    /// The sums of the clusters of a block on each rank.
    pub(super) fn sums_of_block(
        &mut self,
        block: &Block,
        centroids: &Tensor,
    ) -> Result<Sums, StatsError> {
        self.clear.call(&[])?;
        self.add(0, block, centroids)?;
        self.reduced()
    }

    fn add(
        &mut self,
        first_row: usize,
        block: &Block,
        centroids: &Tensor,
    ) -> Result<(), StatsError> {
        let feeds = [block.x.clone(), block.weights.clone(), centroids.clone()];
        let called = self.add_sums.call(&feeds).map(|_| ());
        called.map_err(|source| StatsError::Block { first_row, source })
    }

    fn reduced(&mut self) -> Result<Sums, StatsError> {
        let all = self.reduce.call(&[])?.slice::<f64>(0)?;
        let (rows, rest) = all.split_at(self.k * self.dims);
        Ok(Sums {
            rows: rows.to_vec(),
            counts: rest[..self.k].to_vec(),
            inertia: rest[self.k],
        })
    }

    /// The nearest centroids of the rows of a block, and their squared distances.
    pub(super) fn search(
        &mut self,
        first_row: usize,
        x: &Tensor,
        centroids: &Tensor,
    ) -> Result<(Tensor, Tensor), StatsError> {
        let called = self.search.call(&[x.clone(), centroids.clone()]);
        let found = called.map_err(|source| StatsError::Block { first_row, source })?;
        Ok((found.tensor(0)?.clone(), found.tensor(1)?.clone()))
    }

    /// The squared distances to the nearest of centroids that are new and those that `best` is of.
    pub(super) fn closer(
        &mut self,
        first_row: usize,
        x: &Tensor,
        centroids: &Tensor,
        best: &Tensor,
    ) -> Result<Tensor, StatsError> {
        let called = self
            .closer
            .call(&[x.clone(), centroids.clone(), best.clone()]);
        let found = called.map_err(|source| StatsError::Block { first_row, source })?;
        Ok(found.tensor(0)?.clone())
    }

    /// The rows of all ranks, in the order of ranks; `own` has rows of `width` numbers.
    pub(super) fn gather(&mut self, own: &[f64], width: usize) -> Result<Vec<f64>, StatsError> {
        let own = Tensor::new(&[own.len() / width, width], own)?;
        Ok(self.gather.call(&[own])?.slice::<f64>(0)?.to_vec())
    }
}
