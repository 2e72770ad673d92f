//! Gradient buckets: gradients of all ranks, packed into a few tensors, each of which is all-reduced.

use thalweg_graph::{Graph, Output};
use thalweg_ops::{ALL_RANKS, ArrayOps, CollectiveOps, ReduceOp, Reduction, SourceOps, Variable};
use thalweg_tensor::DType;

/// Default number of bytes of gradients that are reduced as one tensor: large enough for the full speed of memory and
/// network, and small enough that the reduction of the first ones overlaps with the rest of the backward pass.
pub const FUSION_THRESHOLD: usize = 8 << 20;

/// Dtype in which gradients are sent between ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// The dtype of the gradient.
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

/// Reduces the gradients of all ranks, on each of them: averages them, by default.
///
/// Gradients are packed into buckets of one dtype, in the order in which the backward pass makes them: the same on all
/// ranks, as they build the same graph.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, StateOps};
/// use thalweg_optim::{GradientDescent, GradientReducer, Optimizer};
///
/// let g = Graph::new();
/// let w = g.variable("w", [3.0f32, 4.0]);
/// let b = g.variable("b", [1.0f32, 2.0]);
/// let optimizer = GradientDescent::new(0.1);
/// let own = optimizer.compute_gradients((w * b).square(), &[w, b]);
/// let mean = GradientReducer::new(4).reduce(&g, &own);
/// let _train = optimizer.apply_gradients(&g, &mean, None);
///
/// let data = g.snapshot();
/// let collectives = data.nodes().filter(|(_, node)| node.op.name == "HorovodAllreduce");
/// // Both gradients are one bucket.
/// assert_eq!(collectives.count(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct GradientReducer {
    ranks: usize,
    set: i32,
    op: ReduceOp,
    compression: Compression,
    predivide: f32,
    threshold: usize,
    groups: Option<usize>,
}

impl GradientReducer {
    /// Averages over all `ranks` of a job.
    pub fn new(ranks: usize) -> GradientReducer {
        GradientReducer {
            ranks,
            set: ALL_RANKS,
            op: ReduceOp::Average,
            compression: Compression::None,
            predivide: 1.0,
            threshold: FUSION_THRESHOLD,
            groups: None,
        }
    }

    /// Reduces over the process set `set`, which has `ranks` ranks.
    pub fn over(self, set: i32, ranks: usize) -> GradientReducer {
        GradientReducer { set, ranks, ..self }
    }

    /// Reduces by this op.
    pub fn op(self, op: ReduceOp) -> GradientReducer {
        GradientReducer { op, ..self }
    }

    /// Sends gradients between ranks in this dtype.
    pub fn compression(self, compression: Compression) -> GradientReducer {
        GradientReducer {
            compression,
            ..self
        }
    }

    /// Divides an average by this before the sum, and by the rest after it (1), so that a sum of f16 does not overflow.
    /// Only averages can be divided so: see [`GradientReducer::contradiction`].
    pub fn gradient_predivide_factor(self, factor: f32) -> GradientReducer {
        GradientReducer {
            predivide: factor,
            ..self
        }
    }

    /// Number of bytes of gradients that are reduced as one tensor (8 MiB); 0 reduces each on its own.
    pub fn fusion_threshold(self, bytes: usize) -> GradientReducer {
        GradientReducer {
            threshold: bytes,
            ..self
        }
    }

    /// Reduces gradients as so many tensors, each of about as many gradients, in place of buckets of a
    /// [size](Self::fusion_threshold). Those of different dtypes are never one tensor.
    pub fn groups(self, groups: usize) -> GradientReducer {
        GradientReducer {
            groups: Some(groups.max(1)),
            ..self
        }
    }

    /// Explains which options contradict each other, if any do.
    pub fn contradiction(&self) -> Option<String> {
        (self.predivide != 1.0 && self.op != ReduceOp::Average).then(|| {
            format!(
                "gradient_predivide_factor divides an average in two parts, and the gradients are reduced by {}: leave it \
                 out, or leave out op",
                self.op
            )
        })
    }

    /// Builds the reduction of gradients over all ranks; each keeps its variable.
    #[track_caller]
    pub fn reduce<'g>(
        &self,
        graph: &'g Graph,
        pairs: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<(Output<'g>, Variable<'g>)> {
        if self.ranks == 1 {
            return pairs.to_vec();
        }
        let own: Vec<Output<'g>> = pairs.iter().map(|p| p.0).collect();
        let mut reduced: Vec<Option<Output<'g>>> = vec![None; own.len()];
        for bucket in self.buckets(&own) {
            let all: Vec<Output<'g>> = bucket.iter().map(|&i| own[i]).collect();
            for (i, x) in bucket.into_iter().zip(self.reduce_bucket(graph, &all)) {
                reduced[i] = Some(x);
            }
        }
        let pair = |(x, &(own, variable)): (Option<Output<'g>>, &(Output<'g>, Variable<'g>))| {
            (x.unwrap_or(own), variable)
        };
        reduced.into_iter().zip(pairs).map(pair).collect()
    }

    fn reduction(&self) -> Reduction {
        match self.op {
            ReduceOp::Average if self.predivide != 1.0 => {
                let (before, after) = (1.0 / self.predivide, self.predivide / self.ranks as f32);
                Reduction::of(ReduceOp::Sum).scaled(before.into(), after.into())
            }
            op => Reduction::of(op),
        }
    }

    /// Groups gradients that are reduced together: those of one dtype, in the order in which they were built, while they
    /// fit.
    fn buckets(&self, gradients: &[Output<'_>]) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..gradients.len()).collect();
        order.sort_by_key(|&i| gradients[i].id());
        let dtype = |i: usize| self.compression.of(gradients[i].dtype());
        let bytes = |i: usize| {
            let dims = gradients[i].shape().to_dims()?;
            Some(dims.iter().product::<usize>() * dtype(i).size())
        };
        let mut buckets: Vec<Vec<usize>> = Vec::new();
        // By dtype: the open bucket, and its size.
        let mut open: Vec<(DType, usize, usize)> = Vec::new();
        // A bucket is limited in bytes, and a group in gradients.
        let room = match self.groups {
            Some(groups) => gradients.len().div_ceil(groups),
            None => self.threshold,
        };
        for i in order {
            let takes = match self.groups {
                Some(_) => bytes(i).map(|_| 1),
                None => bytes(i).filter(|&b| b < self.threshold),
            };
            // Adasum treats each tensor separately, and a gradient of unknown size cannot share a bucket.
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
        // In the order in which the backward pass completes them.
        buckets.sort_by_key(|bucket| bucket.last().map(|&i| gradients[i].id()));
        buckets
    }

    /// Builds the reduction of one bucket.
    #[track_caller]
    fn reduce_bucket<'g>(&self, graph: &'g Graph, all: &[Output<'g>]) -> Vec<Output<'g>> {
        let narrow = |x: Output<'g>| match self.compression.of(x.dtype()) {
            dtype if dtype == x.dtype() => x,
            dtype => x.cast(dtype),
        };
        let wide = |x: Output<'g>, like: Output<'g>| match x.dtype() == like.dtype() {
            true => x,
            false => x.cast(like.dtype()),
        };
        if let [only] = all {
            return vec![wide(
                narrow(*only).all_reduce_in(self.reduction(), self.set),
                *only,
            )];
        }
        let flat: Vec<Output<'g>> = all.iter().map(|&x| narrow(x).reshape([-1])).collect();
        let whole = graph
            .concat(&flat, 0)
            .all_reduce_in(self.reduction(), self.set);
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
