//! Builds the nodes that compute the values of each initializer.

use thalweg_graph::scalar_of;
use thalweg_graph::{Graph, Output};
use thalweg_ops::{ArrayOps, MathOps, RandomOps, SourceOps};
use thalweg_tensor::{DType, Shape, Tensor, half};

use super::{Distribution, Fan, Initializer};

/// The standard deviation of a standard normal distribution that is truncated at two.
const TRUNCATED_DEVIATION: f64 = 0.879_625_661_034_239_8;

impl Initializer {
    /// The initial value of a variable with these dimensions, or the text of a mistake.
    pub(crate) fn value<'g>(
        &self,
        graph: &'g Graph,
        dims: &[usize],
        dtype: DType,
    ) -> Result<Output<'g>, String> {
        match *self {
            Initializer::Zeros => fill(graph, dims, scalar(dtype, 0.0)?),
            Initializer::Ones => fill(graph, dims, scalar(dtype, 1.0)?),
            Initializer::Constant(value) => fill(graph, dims, scalar(dtype, value)?),
            Initializer::RandomUniform {
                minval,
                maxval,
                seed,
            } => {
                // The interval's length is computed in the dtype.
                let (low, high) = (narrow(dtype, minval), narrow(dtype, maxval));
                Ok(graph.random_uniform(sizes(dims)?, low, high, dtype, seed))
            }
            Initializer::RandomNormal { mean, stddev, seed } => {
                Ok(graph.random_normal(sizes(dims)?, mean, stddev, dtype, seed))
            }
            Initializer::TruncatedNormal { mean, stddev, seed } => {
                Ok(graph.truncated_normal(sizes(dims)?, mean, stddev, dtype, seed))
            }
            Initializer::VarianceScaling {
                scale,
                mode,
                distribution,
                seed,
            } => scaled(scale, mode, distribution, seed, dims)?.value(graph, dims, dtype),
            Initializer::Orthogonal { gain, seed } => orthogonal(graph, dims, dtype, gain, seed),
            Initializer::Identity { gain } => {
                let &[rows, columns] = dims else {
                    return Err(needs("Identity", "two dimensions", dims));
                };
                let zeros = fill(graph, dims, scalar(dtype, 0.0)?)?;
                let diagonal = fill(graph, &[rows.min(columns)], scalar(dtype, gain)?)?;
                let node = graph.op("MatrixSetDiag").input(zeros).input(diagonal);
                Ok(node.output())
            }
            Initializer::Tensor(ref tensor) => {
                match tensor.dtype() == dtype && tensor.dims() == dims {
                    true => Ok(graph.constant(tensor)),
                    false => Err(format!(
                        "its initial value is {} of shape {}, but it is to be {dtype} of shape {}: both \
                     must be the same",
                        tensor.dtype(),
                        tensor.shape(),
                        Shape::known(dims)
                    )),
                }
            }
        }
    }
}

/// The distribution of [`Initializer::VarianceScaling`] for these dimensions.
fn scaled(
    scale: f64,
    mode: Fan,
    distribution: Distribution,
    seed: Option<i64>,
    dims: &[usize],
) -> Result<Initializer, String> {
    if scale.is_nan() || scale <= 0.0 {
        return Err(format!(
            "the scale of its initializer is {scale}: it must be above 0"
        ));
    }
    let [fan_in, fan_out] = fans(dims);
    let n = match mode {
        Fan::In => fan_in,
        Fan::Out => fan_out,
        Fan::Avg => (fan_in + fan_out) / 2.0,
    };
    let variance = scale / n.max(1.0);
    let mean = 0.0;
    Ok(match distribution {
        Distribution::Uniform => {
            let limit = (3.0 * variance).sqrt();
            Initializer::RandomUniform {
                minval: -limit,
                maxval: limit,
                seed,
            }
        }
        Distribution::TruncatedNormal => {
            let stddev = variance.sqrt() / TRUNCATED_DEVIATION;
            Initializer::TruncatedNormal { mean, stddev, seed }
        }
        Distribution::Normal => {
            let stddev = variance.sqrt();
            Initializer::RandomNormal { mean, stddev, seed }
        }
    })
}

/// The numbers of inputs and outputs of a unit.
fn fans(dims: &[usize]) -> [f64; 2] {
    match *dims {
        [] => [1.0, 1.0],
        [n] => [n as f64; 2],
        [ref window @ .., inputs, outputs] => {
            let window: f64 = window.iter().map(|&d| d as f64).product();
            [inputs as f64 * window, outputs as f64 * window]
        }
    }
}

/// Q of the QR decomposition of random numbers, with the signs that make it unique.
fn orthogonal<'g>(
    graph: &'g Graph,
    dims: &[usize],
    dtype: DType,
    gain: f64,
    seed: Option<i64>,
) -> Result<Output<'g>, String> {
    let [window @ .., rows, columns] = dims else {
        return Err(needs("Orthogonal", "two dimensions or more", dims));
    };
    let times = |product: usize, n: &usize| product.checked_mul(*n);
    let Some(rows) = window.iter().try_fold(*rows, times) else {
        return Err(needs("Orthogonal", "fewer elements", dims));
    };
    let columns = *columns;
    let flat = sizes(&[rows.max(columns), rows.min(columns)])?;
    let random = graph.random_normal(flat, 0.0, 1.0, dtype, seed);
    let qr = graph.op("Qr").input(random).attr("full_matrices", false);
    let qr = qr.build();
    let (q, r) = (qr.output(0), qr.output(1));
    let q = q * graph.op("DiagPart").input(r).output().sign();
    let q = match rows < columns {
        true => q.transpose([1, 0]),
        false => q,
    };
    Ok(q.reshape(sizes(dims)?) * gain)
}

fn needs(initializer: &str, what: &str, dims: &[usize]) -> String {
    let shape = Shape::known(dims);
    format!("the initializer {initializer} makes variables of {what}, not of shape {shape}")
}

/// A tensor with `value` in all elements.
fn fill<'g>(graph: &'g Graph, dims: &[usize], value: Tensor) -> Result<Output<'g>, String> {
    Ok(graph.fill(sizes(dims)?, value))
}

/// The dimensions as a tensor.
fn sizes(dims: &[usize]) -> Result<Tensor, String> {
    let sizes = dims.iter().map(|&d| i64::try_from(d));
    let sizes: Result<Vec<i64>, _> = sizes.collect();
    let sizes = sizes.map_err(|_| format!("{} is too large a shape", Shape::known(dims)))?;
    Ok(Tensor::from(sizes))
}

/// `value` as a scalar of `dtype`; for a bool, `true` if it is not 0.
fn scalar(dtype: DType, value: f64) -> Result<Tensor, String> {
    let tensor = match dtype {
        DType::Bool => Some(Tensor::scalar(value != 0.0)),
        _ => scalar_of(dtype, value),
    };
    tensor
        .ok_or_else(|| format!("{value} is no value of {dtype}: give the variable an initializer"))
}

/// `value` rounded to `dtype`.
fn narrow(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(value as f32),
        DType::F16 => half::f16::from_f64(value).to_f64(),
        DType::BF16 => half::bf16::from_f64(value).to_f64(),
        _ => value,
    }
}
