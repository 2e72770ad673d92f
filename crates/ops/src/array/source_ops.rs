//! Builder methods of a graph: placeholders, constants, fills, ranges, concatenation.

use thalweg_graph::{Graph, Output, Value};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::support::gradient_nodes::int_scalar;

/// Builder methods of a graph: placeholders, constants, fills, ranges, concatenation.
pub trait SourceOps {
    /// A value that must be fed at each step.
    fn placeholder(&self, name: &str, dtype: DType, shape: impl Into<Shape>) -> Output<'_>;
    /// A value of `shape` that a step may feed; `default` if it is not fed.
    fn placeholder_with_default<'g>(
        &'g self,
        name: &str,
        default: impl Into<Value<'g>>,
        shape: impl Into<Shape>,
    ) -> Output<'g>;
    /// A constant.
    fn constant(&self, value: impl Into<Tensor>) -> Output<'_>;
    /// A tensor of shape `dims` (a vector of integers) whose elements are all `value`, a scalar.
    fn fill<'g>(&'g self, dims: impl Into<Value<'g>>, value: impl Into<Value<'g>>) -> Output<'g>;
    /// The numbers from `start` to before `limit`, `delta` apart; the arguments are scalars of one dtype.
    fn range<'g>(
        &'g self,
        start: impl Into<Value<'g>>,
        limit: impl Into<Value<'g>>,
        delta: impl Into<Value<'g>>,
    ) -> Output<'g>;
    /// Concatenates tensors along `axis`: `[a, n]` and `[b, n]` to `[a + b, n]` along 0.
    fn concat<'g>(&'g self, values: &[Output<'g>], axis: i64) -> Output<'g>;
    /// Stacks tensors of one shape along a new axis: two of `[n]` to `[2, n]` along 0.
    fn stack<'g>(&'g self, values: &[Output<'g>], axis: i64) -> Output<'g>;
}

impl SourceOps for Graph {
    #[track_caller]
    fn placeholder(&self, name: &str, dtype: DType, shape: impl Into<Shape>) -> Output<'_> {
        self.op("Placeholder")
            .attr("dtype", dtype)
            .attr("shape", shape.into())
            .name(name)
            .output()
    }

    #[track_caller]
    fn placeholder_with_default<'g>(
        &'g self,
        name: &str,
        default: impl Into<Value<'g>>,
        shape: impl Into<Shape>,
    ) -> Output<'g> {
        self.op("PlaceholderWithDefault")
            .input(default.into().on(self))
            .attr("shape", shape.into())
            .name(name)
            .output()
    }

    #[track_caller]
    fn constant(&self, value: impl Into<Tensor>) -> Output<'_> {
        let value = value.into();
        self.op("Const")
            .attr("dtype", value.dtype())
            .attr("value", value)
            .output()
    }

    #[track_caller]
    fn fill<'g>(&'g self, dims: impl Into<Value<'g>>, value: impl Into<Value<'g>>) -> Output<'g> {
        self.op("Fill")
            .input(dims.into().on(self))
            .input(value.into().on(self))
            .output()
    }

    #[track_caller]
    fn range<'g>(
        &'g self,
        start: impl Into<Value<'g>>,
        limit: impl Into<Value<'g>>,
        delta: impl Into<Value<'g>>,
    ) -> Output<'g> {
        self.op("Range")
            .input(start.into().on(self))
            .input(limit.into().on(self))
            .input(delta.into().on(self))
            .output()
    }

    #[track_caller]
    fn concat<'g>(&'g self, values: &[Output<'g>], axis: i64) -> Output<'g> {
        // The op takes at least two.
        if let [only] = values {
            return *only;
        }
        self.op("ConcatV2")
            .inputs(values.iter().copied())
            .input(int_scalar(self, DType::I32, axis))
            .output()
    }

    #[track_caller]
    fn stack<'g>(&'g self, values: &[Output<'g>], axis: i64) -> Output<'g> {
        self.op("Pack")
            .inputs(values.iter().copied())
            .attr("axis", axis)
            .output()
    }
}
