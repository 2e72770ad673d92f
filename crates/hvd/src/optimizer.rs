//! An optimizer whose gradients are reduced over ranks first.

use thalweg_collective::ALL_RANKS;
use thalweg_device::ReduceOp;
use thalweg_graph::{Graph, Operation, Output, Reason};
use thalweg_ops::{ArrayOps, CollectiveOps, Reduction, SourceOps, Variable};
use thalweg_tensor::DType;
use thalweg_train::optimizers::Updates;
use thalweg_train::{Accumulate, Optimizer};

use crate::process_set::ProcessSet;

/// Bytes of gradients that are reduced as one tensor, unless it is said otherwise: large enough for the full speed of memory
/// and network, and small enough that the reduction of the first ones overlaps with the rest of the backward pass.
pub const THRESHOLD: usize = 8 << 20;

/// The dtype in which gradients go between ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Their own.
    #[default]
    None,
    /// Floats as f16.
    Fp16,
    /// Floats as bf16.
    Bf16,
}

impl Compression {
    fn of(self, dtype: DType) -> DType {
        match (self, dtype) {
            (Compression::Fp16, DType::F32 | DType::F64) => DType::F16,
            (Compression::Bf16, DType::F32 | DType::F64) => DType::BF16,
            _ => dtype,
        }
    }
}

/// An optimizer that updates by gradients which are reduced over all ranks: averaged, unless it is said otherwise. See
/// [`Hvd::distributed`](crate::Hvd::distributed).
///
/// Gradients are packed into buckets of one dtype, in the order in which the backward pass makes them: the same on all ranks,
/// as they build the same graph.
#[derive(Clone, Debug)]
pub struct DistributedOptimizer<O> {
    optimizer: O,
    size: usize,
    op: ReduceOp,
    set: i32,
    compression: Compression,
    predivide: f32,
    threshold: usize,
    groups: Option<usize>,
}

impl<O> DistributedOptimizer<O> {
    /// Of so many ranks.
    pub(crate) fn new(optimizer: O, size: usize) -> DistributedOptimizer<O> {
        DistributedOptimizer {
            optimizer,
            size,
            op: ReduceOp::Average,
            set: ALL_RANKS,
            compression: Compression::None,
            predivide: 1.0,
            threshold: THRESHOLD,
            groups: None,
        }
    }

    /// Reduces by this op.
    pub fn op(self, op: ReduceOp) -> Self {
        DistributedOptimizer { op, ..self }
    }

    /// Reduces over the ranks of a set.
    pub fn process_set(self, set: &ProcessSet) -> Self {
        DistributedOptimizer {
            set: set.id,
            size: set.ranks.len(),
            ..self
        }
    }

    /// Gradients go between ranks in this dtype.
    pub fn compression(self, compression: Compression) -> Self {
        DistributedOptimizer {
            compression,
            ..self
        }
    }

    /// Of an average: divides by this before the sum, and by the rest after it (1), so that a sum of f16 does not overflow. With
    /// another reduction it is a mistake that the graph keeps.
    pub fn gradient_predivide_factor(self, factor: f32) -> Self {
        DistributedOptimizer {
            predivide: factor,
            ..self
        }
    }

    /// How many bytes of gradients are reduced as one tensor (8 MiB); 0 for each on its own.
    pub fn fusion_threshold(self, bytes: usize) -> Self {
        DistributedOptimizer {
            threshold: bytes,
            ..self
        }
    }

    /// Reduces gradients as so many tensors, each of about as many gradients, in place of buckets of a
    /// [size](Self::fusion_threshold). Those of different dtypes are never one tensor.
    pub fn groups(self, groups: usize) -> Self {
        DistributedOptimizer {
            groups: Some(groups.max(1)),
            ..self
        }
    }

    /// Updates at every n-th step only, by the mean of the gradients of n steps. They are reduced at every step.
    pub fn backward_passes_per_step(self, steps: u32) -> DistributedOptimizer<Accumulate<O>> {
        DistributedOptimizer {
            optimizer: Accumulate::new(self.optimizer, steps),
            size: self.size,
            op: self.op,
            set: self.set,
            compression: self.compression,
            predivide: self.predivide,
            threshold: self.threshold,
            groups: self.groups,
        }
    }

    fn reduction(&self) -> Reduction {
        let how = match self.op {
            ReduceOp::Average if self.predivide != 1.0 => Reduction::of(ReduceOp::Sum)
                .scaled(1.0 / self.predivide, self.predivide / self.size as f32),
            op => Reduction::of(op),
        };
        how.within(self.set)
    }

    /// Gradients that are reduced together: those of one dtype, in the order in which they were built, while they fit.
    fn buckets(&self, gradients: &[Output<'_>]) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..gradients.len()).collect();
        order.sort_by_key(|&i| gradients[i].id());
        let dtype = |i: usize| self.compression.of(gradients[i].dtype());
        let bytes = |i: usize| {
            let dims = gradients[i].shape().to_dims()?;
            Some(dims.iter().product::<usize>() * dtype(i).size())
        };
        let mut buckets: Vec<Vec<usize>> = Vec::new();
        // By dtype: the bucket that has room, and what it has.
        let mut open: Vec<(DType, usize, usize)> = Vec::new();
        // A gradient takes bytes of a bucket, or a place of a group.
        let room = match self.groups {
            Some(groups) => gradients.len().div_ceil(groups),
            None => self.threshold,
        };
        for i in order {
            let takes = match self.groups {
                Some(_) => bytes(i).map(|_| 1),
                None => bytes(i).filter(|&b| b < self.threshold),
            };
            // Adasum looks at each tensor for itself, and one of unknown size has no place beside others.
            let Some(takes) = takes.filter(|_| self.op != ReduceOp::Adasum) else {
                buckets.push(vec![i]);
                continue;
            };
            let dtype = dtype(i);
            match open.iter_mut().find(|(d, ..)| *d == dtype) {
                Some((_, bucket, filled)) if *filled + takes <= room => {
                    buckets[*bucket].push(i);
                    *filled += takes;
                }
                Some(place) => {
                    *place = (dtype, buckets.len(), takes);
                    buckets.push(vec![i]);
                }
                None => {
                    open.push((dtype, buckets.len(), takes));
                    buckets.push(vec![i]);
                }
            }
        }
        // One after another as they become whole.
        buckets.sort_by_key(|bucket| bucket.last().map(|&i| gradients[i].id()));
        buckets
    }

    /// Gradients of all ranks together, each with the variable that it is of: what the optimizer updates by.
    #[track_caller]
    pub fn reduced<'g>(
        &self,
        graph: &'g Graph,
        pairs: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<(Output<'g>, Variable<'g>)> {
        if self.size == 1 {
            return pairs.to_vec();
        }
        let own: Vec<Output<'g>> = pairs.iter().map(|p| p.0).collect();
        let mut reduced: Vec<Option<Output<'g>>> = vec![None; own.len()];
        for bucket in self.buckets(&own) {
            let all: Vec<Output<'g>> = bucket.iter().map(|&i| own[i]).collect();
            for (i, x) in bucket.into_iter().zip(self.together(graph, &all)) {
                reduced[i] = Some(x);
            }
        }
        let pair = |(x, &(own, variable)): (Option<Output<'g>>, &(Output<'g>, Variable<'g>))| {
            (x.unwrap_or(own), variable)
        };
        reduced.into_iter().zip(pairs).map(pair).collect()
    }

    /// One bucket.
    #[track_caller]
    fn together<'g>(&self, graph: &'g Graph, all: &[Output<'g>]) -> Vec<Output<'g>> {
        let narrow = |x: Output<'g>| match self.compression.of(x.dtype()) {
            dtype if dtype == x.dtype() => x,
            dtype => x.cast(dtype),
        };
        let wide = |x: Output<'g>, like: Output<'g>| match x.dtype() == like.dtype() {
            true => x,
            false => x.cast(like.dtype()),
        };
        if let [only] = all {
            return vec![wide(narrow(*only).all_reduce(self.reduction()), *only)];
        }
        let flat: Vec<Output<'g>> = all.iter().map(|&x| narrow(x).reshape([-1])).collect();
        let whole = graph.concat(&flat, 0).all_reduce(self.reduction());
        let mut begin = 0;
        let part = |&like: &Output<'g>| {
            let dims = like.shape().to_dims().unwrap_or_default();
            let length = dims.iter().product::<usize>() as i64;
            let part = whole.slice([begin], [length]);
            begin += length;
            let dims: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
            wide(part.reshape(&dims[..]), like)
        };
        all.iter().map(part).collect()
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

    /// The gradients of all ranks together: what looks at them, such as clipping, sees the same on each.
    #[track_caller]
    fn compute_gradients(
        &self,
        loss: Output<'g>,
        variables: &[Variable<'g>],
    ) -> Vec<(Output<'g>, Variable<'g>)> {
        let own = self.optimizer.compute_gradients(loss, variables);
        let graph = loss.graph();
        if self.predivide != 1.0 && self.op != ReduceOp::Average {
            let text = format!(
                "gradient_predivide_factor divides an average in two parts, and the gradients are reduced by {}: leave it \
                 out, or leave out op",
                self.op
            );
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
