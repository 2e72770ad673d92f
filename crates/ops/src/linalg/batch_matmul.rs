//! BatchMatMul, BatchMatMulV2, BatchMatMulV3.

use bytemuck::Pod;
use smallvec::smallvec;
use thalweg_cpu::gemm::Gemm;
use thalweg_device::gpu::Launches;
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, bool_attr, type_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::shape::{broadcast_dims, elements};
use thalweg_tensor::{DType, Dims};

use super::build::LinalgOps;
use super::gemm::{self, GemmBatches};
use super::matrices::{joined, matrices, matrix_at, sum_batches};
use crate::support::elementwise::Compute;
use crate::support::widened::{widened, with_input_as};

fn shape(cx: &mut Infer<'_>, broadcast: bool) -> Result<(), InferError> {
    let ((x_batch, x), (y_batch, y)) = (matrices(cx, 0)?, matrices(cx, 1)?);
    let transposed = |attr: &str| usize::from(cx.attrs().bool(attr));
    let (tx, ty) = (transposed("adj_x"), transposed("adj_y"));
    gemm::expect_inner(cx.shape(0), x[1 - tx], cx.shape(1), y[ty])?;
    let batch = if broadcast {
        x_batch.broadcast(&y_batch).ok_or(InferError::Broadcast {
            left: x_batch,
            right: y_batch,
        })?
    } else {
        x_batch.merge(&y_batch).ok_or(InferError::Mismatch {
            what: "the dimensions before the matrices must be the same: use BatchMatMulV2 to broadcast them".to_owned(),
            left: x_batch,
            right: y_batch,
        })?
    };
    cx.set(0, joined(&batch, &[x[tx], y[1 - ty]]));
    Ok(())
}

fn gradients<'g>(g: &GradCx<'_, 'g>) -> [Output<'g>; 2] {
    let (x, y, dz) = (g.input(0), g.input(1), g.grad());
    match (g.attrs().bool("adj_x"), g.attrs().bool("adj_y")) {
        (false, false) => [
            dz.batch_matmul_t(y, false, true),
            x.batch_matmul_t(dz, true, false),
        ],
        (false, true) => [
            dz.batch_matmul_t(y, false, false),
            dz.batch_matmul_t(x, true, false),
        ],
        (true, false) => [
            y.batch_matmul_t(dz, false, true),
            x.batch_matmul_t(dz, false, false),
        ],
        (true, true) => [
            y.batch_matmul_t(dz, true, true),
            dz.batch_matmul_t(x, true, true),
        ],
    }
}

/// GEMM of each pair of matrices, and the batch dimensions of both inputs and of the
/// output.
type GemmsAndBatchDims<'a> = (Gemm, [&'a [usize]; 2], Dims);

fn gemms<'a>(p: &Prepare<'a>) -> Result<GemmsAndBatchDims<'a>, KernelError> {
    let (x, y) = (p.dims(0), p.dims(1));
    let (tx, ty) = (p.node.attrs.bool("adj_x"), p.node.attrs.bool("adj_y"));
    let mut gemm = gemm::gemm_of(x, y, tx, ty)?;
    let (x, y) = (&x[..x.len() - 2], &y[..y.len() - 2]);
    let batch = broadcast_dims(x, y).ok_or(KernelError::Argument("batches that broadcast"))?;
    if p.outputs[0].elements() > 0 && !tx && elements(y) == 1 {
        // One matrix on the right: the matrices on the left become the rows of a single tall one.
        gemm.m *= elements(&batch);
        return Ok((gemm, [&[], &[]], Dims::new()));
    }
    Ok((gemm, [x, y], batch))
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (gemm, [x, y], batch) = gemms(p)?;
    let count = match p.outputs[0].elements() {
        0 => 0,
        _ => elements(&batch),
    };
    let pairs = (0..count)
        .map(|i| [matrix_at(i, &batch, x), matrix_at(i, &batch, y)])
        .collect();
    let conjugated = ["adj_x", "adj_y"].map(|attr| p.node.attrs.bool(attr));
    gemm::prepare(
        p,
        GemmBatches {
            gemm,
            pairs,
            conjugated,
        },
    )
}

fn launches(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let (gemm, [x, y], batch) = gemms(p)?;
    crate::gpu::gemm(p, gemm, [x, y, &batch])
}

const ATTRS: &[AttrDef] = &[
    type_attr("T", DType::ALL_NUMBERS),
    bool_attr("adj_x", false),
    bool_attr("adj_y", false),
    bool_attr("grad_x", false),
    bool_attr("grad_y", false),
];

const KERNELS: &[Kernel] = &[
    cpu(prepare).only(gemm::DTYPES),
    gpu(launches).only(gemm::DTYPES),
];

/// Products of matrices, for inputs with the same batch dimensions.
pub(crate) static BATCH_MAT_MUL: Op = Op {
    def: OpDef {
        name: "BatchMatMul",
        summary: "The products of the matrices in the last two dimensions of two tensors.",
        inputs: &[arg("x", "T"), arg("y", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| shape(cx, false),
        gradient: Gradient::Rule(|g| gradients(g).into_iter().map(Some).collect()),
        ..OpDef::EMPTY
    },
    kernels: KERNELS,
};

const BATCH_MAT_MUL_V2_DEF: OpDef = OpDef {
    name: "BatchMatMulV2",
    summary: "The products of the matrices in the last two dimensions of two tensors, the dimensions before them broadcast.",
    inputs: &[arg("x", "T"), arg("y", "T")],
    outputs: &[arg("output", "T")],
    attrs: ATTRS,
    shape: |cx| shape(cx, true),
    gradient: Gradient::Rule(|g| {
        let (x, y) = (g.input(0), g.input(1));
        let [dx, dy] = gradients(g);
        smallvec![Some(sum_batches(dx, x, y)), Some(sum_batches(dy, y, x))]
    }),
    ..OpDef::EMPTY
};

/// Products of matrices, for inputs whose batch dimensions broadcast.
pub(crate) static BATCH_MAT_MUL_V2: Op = Op {
    def: BATCH_MAT_MUL_V2_DEF,
    kernels: KERNELS,
};

/// Dtypes of the factors of [`BATCH_MAT_MUL_V3`].
const FACTOR_DTYPES: &[DType] = &[
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::C64,
    DType::C128,
];

/// Dtypes that are multiplied without conversion.
const OUTPUT_DTYPES: &[DType] = &[
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::C64,
    DType::C128,
];

/// `true` for factors and an output of several dtypes that TensorFlow has a kernel for.
fn is_mixed([a, b, out]: [DType; 3]) -> bool {
    let byte = |dtype| matches!(dtype, DType::I8 | DType::U8);
    match out {
        DType::I32 => byte(a) && byte(b),
        DType::BF16 => (a == out && byte(b)) || (byte(a) && b == out),
        _ => false,
    }
}

/// The product of factors of several dtypes, in the type `W`.
fn in_wide<W: Compute + Pod>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    with_input_as::<W>(p, 0, &|p| {
        with_input_as::<W>(p, 1, &|p| widened(p, &[], &[0], &prepare))
    })
}

fn prepare_v3(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    match [p.dtype(0), p.dtype(1), p.outputs[0].dtype] {
        dtypes if !is_mixed(dtypes) => prepare(p),
        [.., DType::I32] => in_wide::<i64>(p),
        _ => in_wide::<f32>(p),
    }
}

/// Like [`BATCH_MAT_MUL_V2`], with separate attributes for the dtypes of the factors and output.
pub(crate) static BATCH_MAT_MUL_V3: Op = Op {
    def: OpDef {
        name: "BatchMatMulV3",
        summary: "The products of the matrices in the last two dimensions of two tensors of one dtype, the dimensions before them broadcast.",
        inputs: &[arg("x", "Ta"), arg("y", "Tb")],
        outputs: &[arg("output", "Tout")],
        attrs: &[
            type_attr("Ta", FACTOR_DTYPES),
            type_attr("Tb", FACTOR_DTYPES),
            type_attr("Tout", OUTPUT_DTYPES),
            bool_attr("adj_x", false),
            bool_attr("adj_y", false),
            bool_attr("grad_x", false),
            bool_attr("grad_y", false),
        ],
        shape: |cx| {
            if let (a, b, Some(out)) = (cx.dtype(0), cx.dtype(1), cx.attrs().dtype("Tout"))
                && (a != b || b != out)
                && !is_mixed([a, b, out])
            {
                return Err(InferError::Attr {
                    attr: "Tout",
                    reason: format!(
                        "{a} by {b} to {out}: use one dtype, bytes to i32, or bytes and bf16 to bf16"
                    ),
                });
            }
            shape(cx, true)
        },
        ..BATCH_MAT_MUL_V2_DEF
    },
    kernels: &[cpu(prepare_v3)],
};
