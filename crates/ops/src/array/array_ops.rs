//! Builder methods that start from a tensor.

use thalweg_graph::{Output, Value};
use thalweg_tensor::DType;

use super::source_ops::SourceOps;
use crate::array::slicing::index::{self, Index};
use crate::support::gradient_nodes::int_scalar;

/// Builder methods for casts, shapes, slices, gathers, pads, tiles and splits of a tensor.
pub trait ArrayOps<'g>: Sized {
    /// The same value, without a gradient.
    fn stop_gradient(self) -> Output<'g>;
    /// The elements as another dtype.
    fn cast(self, dtype: DType) -> Output<'g>;
    /// The same elements with another shape; one dimension may be -1: `x.reshape([-1, 784])`.
    fn reshape(self, shape: impl Into<Value<'g>>) -> Output<'g>;
    /// Merges all dimensions but the first: `[n, 28, 28]` to `[n, 784]`.
    fn flatten(self) -> Output<'g>;
    /// The shape, as a vector of `i32`.
    fn shape_tensor(self) -> Output<'g>;
    /// The number of dimensions, as an `i32`.
    fn rank_tensor(self) -> Output<'g>;
    /// The number of elements, as an `i32`.
    fn size_tensor(self) -> Output<'g>;
    /// Inserts a dimension of 1 at `axis`: `[n]` to `[1, n]` at 0, to `[n, 1]` at -1.
    fn expand_dims(self, axis: i64) -> Output<'g>;
    /// Removes the dimensions in `axes`, which must be 1; all dimensions of 1 if `axes` is empty.
    fn squeeze(self, axes: &[i64]) -> Output<'g>;
    /// Permutes the dimensions: dimension `i` of the result is dimension `perm[i]` of this tensor.
    fn transpose(self, perm: impl Into<Value<'g>>) -> Output<'g>;
    /// The box of `size` elements from `begin` along each dimension; a size of -1 takes the rest.
    fn slice(self, begin: impl Into<Value<'g>>, size: impl Into<Value<'g>>) -> Output<'g>;
    /// A part of the tensor, as NumPy's `x[...]`: a number takes one element of a dimension, a range several,
    /// [`Rest`](super::Rest) all remaining dimensions, and [`NewAxis`](super::NewAxis) adds one.
    ///
    /// ```
    /// use thalweg_graph::Graph;
    /// use thalweg_ops::{ArrayOps, NewGraph, Part, Rest, SourceOps};
    /// use thalweg_tensor::{DType, Shape};
    ///
    /// let g = Graph::new();
    /// let x = g.placeholder("x", DType::F32, [None, Some(28), Some(28), Some(3)]);
    /// assert_eq!(x.at(0).shape(), Shape::from([28, 28, 3]));
    /// assert_eq!(x.at((.., Part::between(1, -1), 4..)).shape(), Shape::from([-1, 26, 24, 3]));
    /// assert_eq!(x.at((Rest, 0..1)).shape(), Shape::from([-1, 28, 28, 1]));
    /// assert!(g.errors().is_empty());
    /// ```
    fn at(self, index: impl Index) -> Output<'g>;
    /// The elements from `begin` to before `end` along each dimension, `strides` apart. Negative bounds count from
    /// the end.
    fn strided_slice(
        self,
        begin: impl Into<Value<'g>>,
        end: impl Into<Value<'g>>,
        strides: impl Into<Value<'g>>,
    ) -> Output<'g>;
    /// Pads with zeros: `paddings` has a row of (before, after) for each dimension.
    fn pad(self, paddings: impl Into<Value<'g>>) -> Output<'g>;
    /// As [`ArrayOps::pad`], with `value` in place of zeros.
    fn pad_with(self, paddings: impl Into<Value<'g>>, value: impl Into<Value<'g>>) -> Output<'g>;
    /// Repeats the tensor `multiples[i]` times along each dimension `i`.
    fn tile(self, multiples: impl Into<Value<'g>>) -> Output<'g>;
    /// Broadcasts to a larger shape, as elementwise ops do.
    fn broadcast_to(self, shape: impl Into<Value<'g>>) -> Output<'g>;
    /// The slices along `axis` at `indices`: the dimensions of `indices` replace the axis.
    fn gather(self, indices: impl Into<Value<'g>>, axis: i64) -> Output<'g>;
    /// One-hot rows: adds a last axis of `depth` elements, 1 at the index and 0 elsewhere.
    fn one_hot(self, depth: i32, dtype: DType) -> Output<'g>;
    /// The sums of the slices with the same id: `ids` has the leading dimensions of this tensor, and the result has
    /// `segments` slices.
    fn unsorted_segment_sum(self, ids: impl Into<Value<'g>>, segments: i32) -> Output<'g>;
    /// Zeros of the same dtype and shape.
    fn zeros_like(self) -> Output<'g>;
    /// Ones of the same dtype and shape.
    fn ones_like(self) -> Output<'g>;
    /// Splits into `count` equal parts along `axis`.
    fn split(self, count: usize, axis: i64) -> Vec<Output<'g>>;
    /// The `count` slices along `axis`, each without that dimension.
    fn unstack(self, count: usize, axis: i64) -> Vec<Output<'g>>;
}

#[track_caller]
fn one<'g>(op: &str, x: Output<'g>) -> Output<'g> {
    x.graph().op(op).input(x).output()
}

#[track_caller]
fn two<'g>(op: &str, x: Output<'g>, y: impl Into<Value<'g>>) -> Output<'g> {
    let graph = x.graph();
    graph.op(op).input(x).input(y.into().on(graph)).output()
}

#[track_caller]
fn three<'g>(
    op: &str,
    x: Output<'g>,
    y: impl Into<Value<'g>>,
    z: impl Into<Value<'g>>,
) -> Output<'g> {
    let graph = x.graph();
    let node = graph.op(op).input(x).input(y.into().on(graph));
    node.input(z.into().on(graph)).output()
}

impl<'g> ArrayOps<'g> for Output<'g> {
    #[track_caller]
    fn stop_gradient(self) -> Output<'g> {
        one("StopGradient", self)
    }

    #[track_caller]
    fn cast(self, dtype: DType) -> Output<'g> {
        let node = self.graph().op("Cast").input(self);
        node.attr("DstT", dtype).output()
    }

    #[track_caller]
    fn reshape(self, shape: impl Into<Value<'g>>) -> Output<'g> {
        two("Reshape", self, shape)
    }

    #[track_caller]
    fn shape_tensor(self) -> Output<'g> {
        one("Shape", self)
    }

    #[track_caller]
    fn rank_tensor(self) -> Output<'g> {
        one("Rank", self)
    }

    #[track_caller]
    fn flatten(self) -> Output<'g> {
        let shape = self.shape();
        let others = shape.dims().and_then(|dims| dims.get(1..));
        let known: Option<Vec<usize>> = others.and_then(|o| o.iter().copied().collect());
        let product = known.and_then(|k| k.iter().try_fold(1usize, |p, &n| p.checked_mul(n)));
        match product.and_then(|p| i64::try_from(p).ok()) {
            // Without elements, a first dimension of -1 could not be inferred.
            Some(width) if width > 0 => self.reshape([-1, width]),
            _ => {
                let graph = self.graph();
                let first = self.shape_tensor().strided_slice([0], [1], [1]);
                self.reshape(graph.concat(&[first, graph.constant([-1])], 0))
            }
        }
    }

    #[track_caller]
    fn size_tensor(self) -> Output<'g> {
        one("Size", self)
    }

    #[track_caller]
    fn expand_dims(self, axis: i64) -> Output<'g> {
        two("ExpandDims", self, axis)
    }

    #[track_caller]
    fn squeeze(self, axes: &[i64]) -> Output<'g> {
        let node = self.graph().op("Squeeze").input(self);
        node.attr("squeeze_dims", axes).output()
    }

    #[track_caller]
    fn transpose(self, perm: impl Into<Value<'g>>) -> Output<'g> {
        two("Transpose", self, perm)
    }

    #[track_caller]
    fn slice(self, begin: impl Into<Value<'g>>, size: impl Into<Value<'g>>) -> Output<'g> {
        three("Slice", self, begin, size)
    }

    #[track_caller]
    fn at(self, at: impl Index) -> Output<'g> {
        index::at(self, at)
    }

    #[track_caller]
    fn strided_slice(
        self,
        begin: impl Into<Value<'g>>,
        end: impl Into<Value<'g>>,
        strides: impl Into<Value<'g>>,
    ) -> Output<'g> {
        let graph = self.graph();
        graph
            .op("StridedSlice")
            .input(self)
            .input(begin.into().on(graph))
            .input(end.into().on(graph))
            .input(strides.into().on(graph))
            .output()
    }

    #[track_caller]
    fn pad(self, paddings: impl Into<Value<'g>>) -> Output<'g> {
        two("Pad", self, paddings)
    }

    #[track_caller]
    fn pad_with(self, paddings: impl Into<Value<'g>>, value: impl Into<Value<'g>>) -> Output<'g> {
        three("PadV2", self, paddings, value)
    }

    #[track_caller]
    fn tile(self, multiples: impl Into<Value<'g>>) -> Output<'g> {
        two("Tile", self, multiples)
    }

    #[track_caller]
    fn broadcast_to(self, shape: impl Into<Value<'g>>) -> Output<'g> {
        two("BroadcastTo", self, shape)
    }

    #[track_caller]
    fn gather(self, indices: impl Into<Value<'g>>, axis: i64) -> Output<'g> {
        three("GatherV2", self, indices, axis)
    }

    #[track_caller]
    fn one_hot(self, depth: i32, dtype: DType) -> Output<'g> {
        let (graph, number) = (self.graph(), |v: i32| {
            let number = self.graph().constant(v);
            match dtype {
                DType::I32 => number,
                _ => number.cast(dtype),
            }
        });
        graph
            .op("OneHot")
            .input(self)
            .input(graph.constant(depth))
            .input(number(1))
            .input(number(0))
            .output()
    }

    #[track_caller]
    fn unsorted_segment_sum(self, ids: impl Into<Value<'g>>, segments: i32) -> Output<'g> {
        three("UnsortedSegmentSum", self, ids, segments)
    }

    #[track_caller]
    fn zeros_like(self) -> Output<'g> {
        one("ZerosLike", self)
    }

    #[track_caller]
    fn ones_like(self) -> Output<'g> {
        one("OnesLike", self)
    }

    #[track_caller]
    fn split(self, count: usize, axis: i64) -> Vec<Output<'g>> {
        let graph = self.graph();
        let node = graph.op("Split").input(int_scalar(graph, DType::I32, axis));
        let node = node.input(self).attr("num_split", count as i64).build();
        (0..count as u32).map(|i| node.output(i)).collect()
    }

    #[track_caller]
    fn unstack(self, count: usize, axis: i64) -> Vec<Output<'g>> {
        let node = self.graph().op("Unpack").input(self);
        let node = node.attr("num", count as i64).attr("axis", axis).build();
        (0..count as u32).map(|i| node.output(i)).collect()
    }
}
