//! Constants, feeds, shapes, and the rearranging of elements.

mod basic;
mod cast;
mod fill;
mod measure;
pub(crate) mod reshape;

pub(crate) use basic::VIEW;
use thalweg_device::Op;
use thalweg_graph::{DType, Graph, Output, Shape, Tensor};

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &basic::CONST,
    &basic::PLACEHOLDER,
    &basic::IDENTITY,
    &basic::NO_OP,
    &basic::ONES_LIKE,
    &cast::CAST,
    &fill::FILL,
    &fill::ZEROS_LIKE,
    &fill::BROADCAST_TO,
    &measure::SHAPE,
    &measure::RANK,
    &measure::SIZE,
    &reshape::RESHAPE,
    &reshape::EXPAND_DIMS,
    &reshape::SQUEEZE,
    &reshape::STOP_GRADIENT,
    &reshape::PLACEHOLDER_WITH_DEFAULT,
];

/// Builder methods of this family that start from a graph.
pub trait SourceOps {
    /// A value that each step feeds.
    fn placeholder(&self, name: &str, dtype: DType, shape: impl Into<Shape>) -> Output<'_>;
    /// A constant.
    fn constant(&self, value: impl Into<Tensor>) -> Output<'_>;
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
    fn constant(&self, value: impl Into<Tensor>) -> Output<'_> {
        let value = value.into();
        self.op("Const")
            .attr("dtype", value.dtype())
            .attr("value", value)
            .output()
    }
}
