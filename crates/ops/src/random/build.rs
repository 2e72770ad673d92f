//! Builder methods that draw random numbers.

use thalweg_graph::error::Reason;
use thalweg_graph::{Graph, Output, Value};
use thalweg_tensor::{DType, Tensor};

/// Builder methods that draw random numbers.
///
/// A shape is an output or a constant that lists the dimensions: `[50, 1024]`. The seed is combined
/// with the graph's by the rule of [`Graph::seeds`].
pub trait RandomOps {
    /// Numbers of a floating-point `dtype`, uniform over `[minval, maxval)`.
    fn random_uniform<'g>(
        &'g self,
        shape: impl Into<Value<'g>>,
        minval: f64,
        maxval: f64,
        dtype: DType,
        seed: Option<i64>,
    ) -> Output<'g>;

    /// Numbers of a floating-point `dtype`, normally distributed with mean `mean` and standard
    /// deviation `stddev`.
    fn random_normal<'g>(
        &'g self,
        shape: impl Into<Value<'g>>,
        mean: f64,
        stddev: f64,
        dtype: DType,
        seed: Option<i64>,
    ) -> Output<'g>;

    /// Like [`RandomOps::random_normal`], but draws again any number that is two or more standard deviations from
    /// the mean.
    fn truncated_normal<'g>(
        &'g self,
        shape: impl Into<Value<'g>>,
        mean: f64,
        stddev: f64,
        dtype: DType,
        seed: Option<i64>,
    ) -> Output<'g>;

    /// Integers in `[minval, maxval)`, `i32` or `i64` by `dtype`. They are exactly uniform only
    /// if the length of the interval is a power of two, and nearly so if it is small.
    fn random_uniform_int<'g>(
        &'g self,
        shape: impl Into<Value<'g>>,
        minval: i64,
        maxval: i64,
        dtype: DType,
        seed: Option<i64>,
    ) -> Output<'g>;
}

impl RandomOps for Graph {
    #[track_caller]
    fn random_uniform<'g>(
        &'g self,
        shape: impl Into<Value<'g>>,
        minval: f64,
        maxval: f64,
        dtype: DType,
        seed: Option<i64>,
    ) -> Output<'g> {
        let drawn = draw(self, "RandomUniform", shape.into(), dtype, seed);
        scaled(drawn, maxval - minval, minval)
    }

    #[track_caller]
    fn random_normal<'g>(
        &'g self,
        shape: impl Into<Value<'g>>,
        mean: f64,
        stddev: f64,
        dtype: DType,
        seed: Option<i64>,
    ) -> Output<'g> {
        let drawn = draw(self, "RandomStandardNormal", shape.into(), dtype, seed);
        scaled(drawn, stddev, mean)
    }

    #[track_caller]
    fn truncated_normal<'g>(
        &'g self,
        shape: impl Into<Value<'g>>,
        mean: f64,
        stddev: f64,
        dtype: DType,
        seed: Option<i64>,
    ) -> Output<'g> {
        let drawn = draw(self, "TruncatedNormal", shape.into(), dtype, seed);
        scaled(drawn, stddev, mean)
    }

    #[track_caller]
    fn random_uniform_int<'g>(
        &'g self,
        shape: impl Into<Value<'g>>,
        minval: i64,
        maxval: i64,
        dtype: DType,
        seed: Option<i64>,
    ) -> Output<'g> {
        const OP: &str = "RandomUniformInt";
        let shape = shape.into().on(self);
        let mut bounds = [shape; 2];
        for (bound, value) in bounds.iter_mut().zip([minval, maxval]) {
            let tensor = match dtype {
                DType::I64 => Some(Tensor::scalar(value)),
                DType::I32 => i32::try_from(value).ok().map(Tensor::scalar),
                _ => None,
            };
            let Some(tensor) = tensor else {
                let text = format!("{value} as {dtype}: it must fit, and be i32 or i64");
                return self.fail(OP, OP, Reason::Argument(text));
            };
            *bound = Value::Tensor(tensor).on(self);
        }
        let (seed, seed2) = self.seeds(seed);
        self.op(OP)
            .input(shape)
            .inputs(bounds)
            .attr("seed", seed)
            .attr("seed2", seed2)
            .output()
    }
}

/// A node that draws numbers in this shape.
#[track_caller]
pub(super) fn draw<'g>(
    graph: &'g Graph,
    op: &str,
    shape: Value<'g>,
    dtype: DType,
    seed: Option<i64>,
) -> Output<'g> {
    let shape = shape.on(graph);
    let (seed, seed2) = graph.seeds(seed);
    graph
        .op(op)
        .input(shape)
        .attr("dtype", dtype)
        .attr("seed", seed)
        .attr("seed2", seed2)
        .output()
}

/// `x * factor + shift`, without factors of 1 and terms of 0.
#[track_caller]
fn scaled(x: Output<'_>, factor: f64, shift: f64) -> Output<'_> {
    let product = if factor == 1.0 { x } else { x * factor };
    if shift == 0.0 {
        product
    } else {
        product + shift
    }
}
