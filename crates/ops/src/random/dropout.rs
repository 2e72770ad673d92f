//! Dropout: sets random elements to zero during training (Srivastava et al., 2014).

use thalweg_graph::error::Reason;
use thalweg_graph::{Output, Value};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::random::build::draw;

/// Builder method for dropout.
pub trait DropoutOps<'g>: Sized {
    /// Sets each element to 0 with probability `1 - keep_prob`, and divides the others by `keep_prob`:
    /// the sum stays the same on average.
    ///
    /// `keep_prob` is a scalar above 0 and at most 1. It may be fed: 0.5 for training, 1 for
    /// inference. A constant 1 adds no node.
    fn dropout(self, keep_prob: impl Into<Value<'g>>, seed: Option<i64>) -> Output<'g>;
}

impl<'g> DropoutOps<'g> for Output<'g> {
    #[track_caller]
    fn dropout(self, keep_prob: impl Into<Value<'g>>, seed: Option<i64>) -> Output<'g> {
        let (graph, keep) = (self.graph(), keep_prob.into());
        if self.is_invalid() {
            return self;
        }
        let dtype = self.dtype();
        let fail = |text| graph.fail("dropout", "dropout", Reason::Argument(text));
        if !dtype.is_float() {
            return fail(format!(
                "dropout of {dtype}: only floating-point tensors are divided by keep_prob"
            ));
        }
        let keep = match keep {
            Value::Output(keep) if keep.shape().merge(&Shape::scalar()).is_some() => keep,
            Value::Output(keep) => {
                return fail(format!(
                    "keep_prob has shape {}: it must be a scalar",
                    keep.shape()
                ));
            }
            Value::Tensor(keep) => {
                let value = scalar_value(&keep);
                let Some(value) = value.filter(|&v| v > 0.0 && v <= 1.0) else {
                    return fail(format!(
                        "keep_prob is {keep}: it must be a number above 0 and at most 1"
                    ));
                };
                if value == 1.0 {
                    return self;
                }
                self.constant_like(value)
            }
        };
        masked(self, keep, seed)
    }
}

/// The factor of each element is computed first: then the gradient is one product with it.
#[track_caller]
fn masked<'g>(x: Output<'g>, keep: Output<'g>, seed: Option<i64>) -> Output<'g> {
    let (graph, dtype) = (x.graph(), x.dtype());
    let keep = if keep.dtype() == dtype {
        keep
    } else {
        graph.op("Cast").input(keep).attr("DstT", dtype).output()
    };
    let shape = match known_shape(x) {
        Some(shape) => Value::Tensor(shape),
        None => Value::Output(graph.op("Shape").input(x).output()),
    };
    let drawn = draw(graph, "RandomUniform", shape, dtype, seed);
    let kept = graph
        .op("GreaterEqual")
        .input(drawn)
        .input(1.0 - keep)
        .output();
    let factor = graph
        .op("SelectV2")
        .input(kept)
        .input(1.0 / keep)
        .input(keep.constant_like(0))
        .output();
    graph
        .op("Mul")
        .input(x)
        .input(factor)
        .name("dropout")
        .output()
}

/// The dimensions as a tensor, if all are known.
fn known_shape(x: Output<'_>) -> Option<Tensor> {
    let dims = x.shape().to_dims()?;
    let dims: Option<Vec<i64>> = dims.iter().map(|&d| i64::try_from(d).ok()).collect();
    dims.map(Tensor::from)
}

/// Value of a floating-point scalar.
fn scalar_value(tensor: &Tensor) -> Option<f64> {
    let scalar = tensor.dims().is_empty();
    let value = match tensor.dtype() {
        DType::F32 => tensor
            .as_slice::<f32>()
            .ok()?
            .first()
            .copied()
            .map(f64::from),
        DType::F64 => tensor.as_slice::<f64>().ok()?.first().copied(),
        DType::F16 => tensor
            .as_slice::<half::f16>()
            .ok()?
            .first()
            .map(|v| v.to_f64()),
        DType::BF16 => tensor
            .as_slice::<half::bf16>()
            .ok()?
            .first()
            .map(|v| v.to_f64()),
        _ => None,
    };
    value.filter(|_| scalar)
}
