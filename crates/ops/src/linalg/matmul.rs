//! MatMul, and the fused op with a bias and an epilogue.

use smallvec::smallvec;
use thalweg_cpu::gemm::Gemm;
use thalweg_device::{KernelError, Op, Prepare, cpu, gpu};
use thalweg_graph::op::{Gradient, arg, bool_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::build::LinalgOps;
use super::gemm::{self, GemmBatches};
use crate::support::epilogue::{ARGS, DTYPES, FUSED_OPS, FusedOps, NUM_ARGS};
use crate::support::gradient_nodes::conj;

pub(super) fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (a, b) = (cx.ranked(0, 2)?, cx.ranked(1, 2)?);
    let transposed = |attr: &str| usize::from(cx.attrs().bool(attr));
    let (ta, tb) = (transposed("transpose_a"), transposed("transpose_b"));
    gemm::expect_inner(&a, a.dim(1 - ta), &b, b.dim(tb))?;
    cx.set(0, Shape::partial([a.dim(ta), b.dim(1 - tb)]));
    Ok(())
}

/// `a b`, with either of them transposed first.
pub(crate) static MAT_MUL: Op = Op {
    def: OpDef {
        name: "MatMul",
        summary: "The product of two matrices, either of them transposed first.",
        inputs: &[arg("a", "T"), arg("b", "T")],
        outputs: &[arg("product", "T")],
        attrs: &[
            bool_attr("transpose_a", false),
            bool_attr("transpose_b", false),
            type_attr("T", DType::ALL_NUMBERS),
            bool_attr("grad_a", false),
            bool_attr("grad_b", false),
        ],
        shape,
        gradient: Gradient::Rule(|g| {
            let (a, b, dy) = (conj(g.input(0)), conj(g.input(1)), g.grad());
            let (ta, tb) = (g.attrs().bool("transpose_a"), g.attrs().bool("transpose_b"));
            let [da, db] = match (ta, tb) {
                (false, false) => [dy.matmul_t(b, false, true), a.matmul_t(dy, true, false)],
                (false, true) => [dy.matmul_t(b, false, false), dy.matmul_t(a, true, false)],
                (true, false) => [b.matmul_t(dy, false, true), a.matmul_t(dy, false, false)],
                (true, true) => [b.matmul_t(dy, true, true), dy.matmul_t(a, true, true)],
            };
            smallvec![Some(da), Some(db)]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let (gemm, pairs) = (gemm_of(p)?, vec![[0, 0]]);
            gemm::prepare(
                p,
                GemmBatches {
                    gemm,
                    pairs,
                    conjugated: [false; 2],
                },
            )
        })
        .only(gemm::DTYPES),
        gpu(|p| crate::gpu::gemm(p, gemm_of(p)?, [&[]; 3])).only(gemm::DTYPES),
    ],
};

/// `a b` with a bias for each column and an epilogue. Created by the planner.
pub static FUSED_MAT_MUL: Op = Op {
    def: OpDef {
        name: "_FusedMatMul",
        summary: "The product of two matrices, plus a bias for each column, and an epilogue.",
        inputs: &[arg("a", "T"), arg("b", "T"), ARGS],
        outputs: &[arg("product", "T")],
        attrs: &[
            bool_attr("transpose_a", false),
            bool_attr("transpose_b", false),
            type_attr("T", DTYPES),
            NUM_ARGS,
            FUSED_OPS,
        ],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        gemm::with_epilogue(p, gemm_of(p)?, FusedOps::parse(&p.node.attrs)?)
    })],
};

/// GEMM of a node.
pub(super) fn gemm_of(p: &Prepare<'_>) -> Result<Gemm, KernelError> {
    let attrs = &p.node.attrs;
    let (ta, tb) = (attrs.bool("transpose_a"), attrs.bool("transpose_b"));
    gemm::gemm_of(p.dims(0), p.dims(1), ta, tb)
}
