//! Builder methods of collectives.

use thalweg_device::Reduction;
use thalweg_graph::{Graph, Operation, Output, Value};

/// Process set of all ranks.
pub const ALL_RANKS: i32 = 0;

/// Builder methods of collectives: sessions run the same graph, each on data of its own, and exchange values.
///
/// All ranks build the same collectives, in the same order. A session is a rank if it has
/// `SessionOptions::collectives`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{ALL_RANKS, CollectiveOps, NewGraph, RankOps, ReduceOp, Reduction, SourceOps};
/// use thalweg_tensor::{DType, Shape};
///
/// let g = Graph::new();
/// let gradient = g.placeholder("gradient", DType::F32, [10, 3]);
/// let mean = gradient.all_reduce(ReduceOp::Average);
/// let scaled = gradient.all_reduce(Reduction::of(ReduceOp::Sum).scaled(0.5, 1.0));
/// let first = gradient.broadcast_from(0, ALL_RANKS);
/// assert_eq!((mean.shape(), scaled.shape(), first.shape()), (
///     Shape::from([10, 3]), Shape::from([10, 3]), Shape::from([10, 3]),
/// ));
///
/// // The number of rows depends on the other ranks.
/// let all = gradient.all_gather(ALL_RANKS);
/// let own = gradient.reduce_scatter(ReduceOp::Sum);
/// let (rows, from) = gradient.all_to_all([4, 6], ALL_RANKS);
/// assert_eq!((all.shape(), own.shape(), rows.shape()), (
///     Shape::from([-1, 3]), Shape::from([-1, 3]), Shape::from([-1, 3]),
/// ));
/// assert_eq!(from.shape(), Shape::from([2]));
///
/// let (rank, ranks) = (g.rank(ALL_RANKS), g.ranks(ALL_RANKS));
/// let all_are_here = g.barrier(ALL_RANKS);
/// assert!(g.errors().is_empty());
/// # let _ = (rank, ranks, all_are_here);
/// ```
pub trait CollectiveOps<'g>: Sized {
    /// Reduces the values of all ranks; every rank gets the result: Horovod's `allreduce`. All values have one shape.
    fn all_reduce(self, reduction_of_attrs: impl Into<Reduction>) -> Output<'g>;
    /// Like [`CollectiveOps::all_reduce`], over the ranks of a set.
    fn all_reduce_in(self, reduction_of_attrs: impl Into<Reduction>, set: i32) -> Output<'g>;
    /// Concatenates the rows of all ranks of a set, in rank order, on each of them. Only the first dimension may differ.
    fn all_gather(self, set: i32) -> Output<'g>;
    /// Value of rank `root`, numbered among all ranks, on every rank of a set. All values have one shape.
    fn broadcast_from(self, root: usize, set: i32) -> Output<'g>;
    /// This rank's rows of the result of [`CollectiveOps::all_reduce`]. If the rows cannot be divided evenly, the first
    /// ranks have one more.
    fn reduce_scatter(self, reduction_of_attrs: impl Into<Reduction>) -> Output<'g>;
    /// Like [`CollectiveOps::reduce_scatter`], over the ranks of a set.
    fn reduce_scatter_in(self, reduction_of_attrs: impl Into<Reduction>, set: i32) -> Output<'g>;
    /// Sends rows to each rank of a set. Returns the rows received, and the number of rows from each rank. `splits` gives
    /// the number of rows for each rank; if it is empty, all get the same number.
    fn all_to_all(self, splits: impl Into<Value<'g>>, set: i32) -> (Output<'g>, Output<'g>);
}

/// Builder methods for the ranks themselves.
pub trait RankOps {
    /// Number of ranks in a set, i32.
    fn ranks(&self, set: i32) -> Output<'_>;
    /// Index of this rank in a set, from 0, i32.
    fn rank(&self, set: i32) -> Output<'_>;
    /// Waits until all ranks of a set have reached the barrier.
    fn barrier(&self, set: i32) -> Operation<'_>;
}

impl<'g> CollectiveOps<'g> for Output<'g> {
    #[track_caller]
    fn all_reduce(self, reduction_of_attrs: impl Into<Reduction>) -> Output<'g> {
        self.all_reduce_in(reduction_of_attrs, ALL_RANKS)
    }

    #[track_caller]
    fn all_reduce_in(self, reduction_of_attrs: impl Into<Reduction>, set: i32) -> Output<'g> {
        all_reduce_of(self, reduction_of_attrs.into(), i64::from(set))
    }

    #[track_caller]
    fn all_gather(self, set: i32) -> Output<'g> {
        all_gather_in(self, i64::from(set))
    }

    #[track_caller]
    fn broadcast_from(self, root: usize, set: i32) -> Output<'g> {
        let node = self.graph().op("HorovodBroadcast").input(self);
        node.attr("root_rank", i64::try_from(root).unwrap_or(i64::MAX))
            .attr("process_set_id", i64::from(set))
            .output()
    }

    #[track_caller]
    fn reduce_scatter(self, reduction_of_attrs: impl Into<Reduction>) -> Output<'g> {
        self.reduce_scatter_in(reduction_of_attrs, ALL_RANKS)
    }

    #[track_caller]
    fn reduce_scatter_in(self, reduction_of_attrs: impl Into<Reduction>, set: i32) -> Output<'g> {
        reduced(
            "HorovodReducescatter",
            self,
            reduction_of_attrs.into(),
            i64::from(set),
        )
    }

    #[track_caller]
    fn all_to_all(self, splits: impl Into<Value<'g>>, set: i32) -> (Output<'g>, Output<'g>) {
        let splits = splits.into().on(self.graph());
        all_to_all_in(self, splits, i64::from(set))
    }
}

impl RankOps for Graph {
    #[track_caller]
    fn ranks(&self, set: i32) -> Output<'_> {
        size_in(self, i64::from(set))
    }

    #[track_caller]
    fn rank(&self, set: i32) -> Output<'_> {
        rank_in(self, i64::from(set))
    }

    #[track_caller]
    fn barrier(&self, set: i32) -> Operation<'_> {
        let node = self.op("_Barrier").name("barrier");
        node.attr("process_set_id", i64::from(set)).build()
    }
}

#[track_caller]
fn reduced<'g>(op: &str, x: Output<'g>, reduction_of_attrs: Reduction, set: i64) -> Output<'g> {
    let node = x.graph().op(op).input(x);
    node.attr("reduce_op", reduction_of_attrs.op.number())
        .attr("prescale_factor", reduction_of_attrs.prescale as f32)
        .attr("postscale_factor", reduction_of_attrs.postscale as f32)
        .attr("process_set_id", set)
        .output()
}

#[track_caller]
pub(super) fn all_reduce_of(x: Output<'_>, reduction_of_attrs: Reduction, set: i64) -> Output<'_> {
    reduced("HorovodAllreduce", x, reduction_of_attrs, set)
}

#[track_caller]
pub(super) fn all_gather_in(x: Output<'_>, set: i64) -> Output<'_> {
    let node = x.graph().op("HorovodAllgather").input(x);
    node.attr("process_set_id", set).output()
}

#[track_caller]
pub(super) fn all_to_all_in<'g>(
    x: Output<'g>,
    splits: Output<'g>,
    set: i64,
) -> (Output<'g>, Output<'g>) {
    let node = x.graph().op("HorovodAlltoall").input(x).input(splits);
    let node = node.attr("process_set_id", set).build();
    (node.output(0), node.output(1))
}

#[track_caller]
pub(super) fn size_in(graph: &Graph, set: i64) -> Output<'_> {
    graph.op("HorovodSize").attr("process_set_id", set).output()
}

#[track_caller]
pub(super) fn rank_in(graph: &Graph, set: i64) -> Output<'_> {
    graph.op("HorovodRank").attr("process_set_id", set).output()
}
