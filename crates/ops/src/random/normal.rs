//! RandomStandardNormal, TruncatedNormal.

use half::{bf16, f16};
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, arg, type_attr};
use thalweg_tensor::DType;

use crate::random::box_muller::{normal_pair_f32, normal_pair_f64};
use crate::random::fill::{SEED, SEED2, SHAPE_TYPE, blockwise, launches, listed_shape};
use crate::random::redraw::truncated;

/// Four normal numbers from a block.
#[inline(always)]
pub(super) fn four_normals([a, b, c, d]: [u32; 4]) -> [f32; 4] {
    let ([v, w], [x, y]) = (normal_pair_f32(a, b), normal_pair_f32(c, d));
    [v, w, x, y]
}

/// Kernel of normal numbers.
pub(super) fn normal(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    match p.node.attrs.dtype("dtype") {
        Some(DType::F32) => Ok(blockwise(p, 30, four_normals)),
        Some(DType::F64) => Ok(blockwise(p, 350, normal_pair_f64)),
        Some(DType::F16) => Ok(blockwise(p, 130, |x| four_normals(x).map(f16::from_f32))),
        Some(DType::BF16) => Ok(blockwise(p, 40, |x| four_normals(x).map(bf16::from_f32))),
        other => Err(KernelError::DType(other.unwrap_or(DType::F32))),
    }
}

/// Kernel of truncated normal numbers.
pub(super) fn truncated_normal(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    match p.node.attrs.dtype("dtype") {
        Some(DType::F32) => Ok(truncated(p, 70, four_normals, |v| v)),
        Some(DType::F64) => Ok(truncated(p, 400, normal_pair_f64, |v| v)),
        Some(DType::F16) => Ok(truncated(p, 180, four_normals, |v| v.map(f16::from_f32))),
        Some(DType::BF16) => Ok(truncated(p, 90, four_normals, |v| v.map(bf16::from_f32))),
        other => Err(KernelError::DType(other.unwrap_or(DType::F32))),
    }
}

/// Samples of the standard normal distribution.
pub(crate) static RANDOM_STANDARD_NORMAL: Op = Op {
    def: OpDef {
        name: "RandomStandardNormal",
        summary: "Numbers of the standard normal distribution, in the shape that the input lists.",
        inputs: &[arg("shape", "T").host()],
        outputs: &[arg("output", "dtype")],
        attrs: &[SEED, SEED2, type_attr("dtype", DType::FLOATS), SHAPE_TYPE],
        shape: listed_shape,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(normal), gpu(launches)],
};

/// Samples of the standard normal distribution between -2 and 2.
pub(crate) static TRUNCATED_NORMAL: Op = Op {
    def: OpDef {
        name: "TruncatedNormal",
        summary: "Numbers of the standard normal distribution, those at or beyond -2 and 2 drawn again, in the shape that the input lists.",
        inputs: &[arg("shape", "T").host()],
        outputs: &[arg("output", "dtype")],
        attrs: &[SEED, SEED2, type_attr("dtype", DType::FLOATS), SHAPE_TYPE],
        shape: listed_shape,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(truncated_normal), gpu(launches)],
};
