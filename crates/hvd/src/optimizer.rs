//! DistributedOptimizer: reduces gradients over ranks before the update.

use thalweg_graph::{Graph, Operation, Output, Reason};
use thalweg_ops::{ReduceOp, Variable};
use thalweg_optim::optimizers::Updates;
use thalweg_optim::{Accumulate, Compression, GradientReducer, Optimizer};

use crate::process_set::ProcessSet;

/// Wraps an optimizer: it updates by gradients that are reduced over all ranks, averaged by default. See
/// [`Hvd::distributed`](crate::Hvd::distributed).
///
/// A [`GradientReducer`] packs gradients into buckets and reduces them.
#[derive(Clone, Debug)]
pub struct DistributedOptimizer<O> {
    optimizer: O,
    reducer: GradientReducer,
}

impl<O> DistributedOptimizer<O> {
    /// Averages over `size` ranks.
    pub(crate) fn new(optimizer: O, size: usize) -> DistributedOptimizer<O> {
        DistributedOptimizer {
            optimizer,
            reducer: GradientReducer::new(size),
        }
    }

    fn with(self, configure: impl FnOnce(GradientReducer) -> GradientReducer) -> Self {
        DistributedOptimizer {
            optimizer: self.optimizer,
            reducer: configure(self.reducer),
        }
    }

    /// Reduces by this op.
    pub fn op(self, op: ReduceOp) -> Self {
        self.with(|r| r.op(op))
    }

    /// Reduces over the ranks of a set.
    pub fn process_set(self, set: &ProcessSet) -> Self {
        self.with(|r| r.over(set.id, set.ranks.len()))
    }

    /// Sends gradients between ranks in this dtype.
    pub fn compression(self, compression: Compression) -> Self {
        self.with(|r| r.compression(compression))
    }

    /// Divides an average by this before the sum, and by the rest after it (1), so that a sum of f16 does not overflow. With
    /// another reduction it is a mistake that the graph keeps.
    pub fn gradient_predivide_factor(self, factor: f32) -> Self {
        self.with(|r| r.gradient_predivide_factor(factor))
    }

    /// Number of bytes of gradients that are reduced as one tensor (8 MiB); 0 reduces each on its own.
    pub fn fusion_threshold(self, bytes: usize) -> Self {
        self.with(|r| r.fusion_threshold(bytes))
    }

    /// Reduces gradients as so many tensors, each of about as many gradients, in place of buckets of a
    /// [size](Self::fusion_threshold). Those of different dtypes are never one tensor.
    pub fn groups(self, groups: usize) -> Self {
        self.with(|r| r.groups(groups))
    }

    /// Updates at every n-th step, by the mean of the gradients of n steps. They are reduced at every step.
    pub fn backward_passes_per_step(self, steps: u32) -> DistributedOptimizer<Accumulate<O>> {
        DistributedOptimizer {
            optimizer: Accumulate::new(self.optimizer, steps),
            reducer: self.reducer,
        }
    }

    /// Reduces gradients over the ranks; each keeps its variable.
    #[track_caller]
    pub fn reduced<'g>(
        &self,
        graph: &'g Graph,
        pairs: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<(Output<'g>, Variable<'g>)> {
        self.reducer.reduce(graph, pairs)
    }
}

impl<'g, O: Optimizer<'g>> Optimizer<'g> for DistributedOptimizer<O> {
    fn name(&self) -> &'static str {
        self.optimizer.name()
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        self.optimizer.update(updates, gradients)
    }

    /// Reduced gradients: clipping, for example, sees the same values on each rank.
    #[track_caller]
    fn compute_gradients(
        &self,
        loss: Output<'g>,
        variables: &[Variable<'g>],
    ) -> Vec<(Output<'g>, Variable<'g>)> {
        let own = self.optimizer.compute_gradients(loss, variables);
        let graph = loss.graph();
        if let Some(text) = self.reducer.contradiction() {
            graph.report("DistributedOptimizer", self.name(), Reason::Argument(text));
        }
        graph.name_scope("DistributedOptimizer", || self.reduced(graph, &own))
    }

    #[track_caller]
    fn apply_gradients(
        &self,
        graph: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        global_step: Option<Variable<'g>>,
    ) -> Operation<'g> {
        self.optimizer
            .apply_gradients(graph, gradients, global_step)
    }
}
