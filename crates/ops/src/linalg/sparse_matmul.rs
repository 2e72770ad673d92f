//! SparseMatMul: the product of matrices of which many elements may be zero, in narrow or single precision.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, InputGradients, arg, arg_of, bool_attr, type_attr_or};
use thalweg_graph::{GradCx, OpDef, Output};
use thalweg_tensor::DType;

use super::gemm::{self, GemmBatches};
use super::matmul;
use crate::support::widened::widened;

const DTYPES: &[DType] = &[DType::F32, DType::BF16];

/// Zeros are multiplied as other elements are.
fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    widened(p, &[0], &[], &|p| {
        widened(p, &[1], &[], &|p| {
            let (gemm, pairs) = (matmul::gemm_of(p)?, vec![[0, 0]]);
            let batches = GemmBatches {
                gemm,
                pairs,
                conjugated: [false; 2],
            };
            gemm::prepare(p, batches)
        })
    })
}

/// A product of which `transposed` says what is transposed first, as `dtype`.
fn product<'g>([a, b]: [Output<'g>; 2], [ta, tb]: [bool; 2], dtype: DType) -> Output<'g> {
    let node = a.graph().op("SparseMatMul").input(a).input(b);
    let node = node.attr("transpose_a", ta).attr("transpose_b", tb);
    let product = node.output();
    match dtype {
        DType::F32 => product,
        _ => {
            let node = a.graph().op("Cast").input(product);
            node.attr("DstT", dtype).output()
        }
    }
}

fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (a, b, dy) = (g.input(0), g.input(1), g.grad());
    let (ta, tb) = (g.attrs().bool("transpose_a"), g.attrs().bool("transpose_b"));
    let da = match ta {
        false => product([dy, b], [false, !tb], a.dtype()),
        true => product([b, dy], [tb, true], a.dtype()),
    };
    let db = match tb {
        false => product([a, dy], [!ta, false], b.dtype()),
        true => product([dy, a], [true, ta], b.dtype()),
    };
    smallvec![Some(da), Some(db)]
}

/// `a b`, with either of them transposed first.
pub(crate) static SPARSE_MAT_MUL: Op = Op {
    def: OpDef {
        name: "SparseMatMul",
        summary: "The product of two matrices, either of them transposed first, which may be of narrow floats.",
        inputs: &[arg("a", "Ta"), arg("b", "Tb")],
        outputs: &[arg_of("product", DType::F32)],
        attrs: &[
            bool_attr("transpose_a", false),
            bool_attr("transpose_b", false),
            bool_attr("a_is_sparse", false),
            bool_attr("b_is_sparse", false),
            type_attr_or("Ta", DTYPES, DType::F32),
            type_attr_or("Tb", DTYPES, DType::F32),
        ],
        shape: matmul::shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare)],
};
