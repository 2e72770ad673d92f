//! MatrixBandPart, Diag, DiagPart.

use smallvec::smallvec;
use thalweg_device::gpu::Launches;
use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, type_attr, type_attr_or};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::index_map::{ElementSource, index_map};
use crate::support::shape_inputs::{checked_shape, scalar_int};

const BAND_PART: OpDef = OpDef {
    name: "MatrixBandPart",
    summary: "Matrices with zeros beyond so many diagonals below and above the main one; all stay where the number is negative.",
    inputs: &[
        arg("input", "T"),
        arg("num_lower", "Tindex").host(),
        arg("num_upper", "Tindex").host(),
    ],
    outputs: &[arg("band", "T")],
    attrs: &[
        type_attr("T", DType::PLAIN),
        type_attr_or("Tindex", DType::INDICES, DType::I64),
    ],
    shape: |cx| {
        let shape = cx.shape(0).clone();
        if shape.rank().is_some_and(|r| r < 2) {
            return Err(InferError::Rank {
                input: 0,
                expected: "at least 2".to_owned(),
                found: shape,
            });
        }
        let last = |from_end: usize| shape.dim(shape.rank()?.checked_sub(from_end)?);
        for (i, size) in [(1, last(2)), (2, last(1))] {
            if let (Some(n), Some(size)) = (scalar_int(cx, i)?, size)
                && n > size as i64
            {
                let reason = format!("{n} diagonals of {size}: use at most as many, or -1 for all");
                return Err(crate::support::shape_inputs::invalid_value(i, reason));
            }
        }
        cx.set(0, shape);
        Ok(())
    },
    gradient: Gradient::Rule(|g| {
        let node = g.graph().op("MatrixBandPart").input(g.grad());
        smallvec![Some(node.input(g.input(1)).input(g.input(2)).output())]
    }),
    ..OpDef::EMPTY
};

fn band_part_on_gpu(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let one = |i: usize| Ok::<_, KernelError>(p.ints(i)?.first().copied().unwrap_or(-1));
    let &[.., rows, columns] = p.dims(0) else {
        return Err(KernelError::Argument("a matrix"));
    };
    crate::gpu::band_part(p, [rows, columns], [one(1)?, one(2)?])
}

const BAND_PART_KERNELS: &[Kernel] = &[cpu(band_part), gpu(band_part_on_gpu)];

fn band_part(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let one = |i: usize| Ok::<_, KernelError>(p.ints(i)?.first().copied().unwrap_or(-1));
    let (lower, upper) = (one(1)?, one(2)?);
    let &[.., rows, columns] = p.dims(0) else {
        return Err(KernelError::Argument("a matrix"));
    };
    index_map(p, &[0], move |i| {
        let (row, column) = (i / columns % rows, i % columns);
        // The columns of the band in this row.
        let begin = usize::try_from(lower).map_or(0, |n| row.saturating_sub(n));
        let end = usize::try_from(upper).map_or(columns, |n| {
            columns.min(row.saturating_add(n).saturating_add(1))
        });
        match column {
            _ if column < begin => ElementSource::Zeros(begin.min(columns) - column),
            _ if column < end => ElementSource::From {
                input: 0,
                at: i,
                step: 1,
                len: end - column,
            },
            _ => ElementSource::Zeros(columns - column),
        }
    })
}

/// The band of a matrix around its main diagonal; zeros elsewhere.
pub(crate) static MATRIX_BAND_PART: Op = Op {
    def: BAND_PART,
    kernels: BAND_PART_KERNELS,
};

/// The older name of [`MATRIX_BAND_PART`].
pub(crate) static BATCH_MATRIX_BAND_PART: Op = Op {
    def: OpDef {
        name: "BatchMatrixBandPart",
        inputs: &[
            arg("input", "T"),
            arg_of("num_lower", DType::I64).host(),
            arg_of("num_upper", DType::I64).host(),
        ],
        attrs: &[type_attr("T", DType::PLAIN)],
        ..BAND_PART
    },
    kernels: BAND_PART_KERNELS,
};

const ATTRS: &[AttrDef] = &[type_attr(
    "T",
    &[
        DType::BF16,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::I32,
        DType::I64,
        DType::C64,
        DType::C128,
    ],
)];

/// A tensor with the input as its diagonal.
pub(crate) static DIAG: Op = Op {
    def: OpDef {
        name: "Diag",
        summary: "A tensor of twice the rank, with the input where both halves of an index are the same and zeros elsewhere.",
        inputs: &[arg("diagonal", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            if let Some(dims) = cx.shape(0).dims() {
                if dims.is_empty() {
                    return Err(InferError::Rank {
                        input: 0,
                        expected: "at least 1".to_owned(),
                        found: Shape::scalar(),
                    });
                }
                let shape = checked_shape(0, Shape::partial([dims, dims].concat()))?;
                cx.set(0, shape);
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            smallvec![Some(g.graph().op("DiagPart").input(g.grad()).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let n = p.inputs[0].elements();
        // An element of the diagonal comes after each n + 1.
        index_map(p, &[0], move |i| match i % (n + 1) {
            0 => ElementSource::one(0, i / (n + 1)),
            behind => ElementSource::Zeros(n + 1 - behind),
        })
    })],
};

/// The diagonal of a tensor.
pub(crate) static DIAG_PART: Op = Op {
    def: OpDef {
        name: "DiagPart",
        summary: "The elements where both halves of an index are the same.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("diagonal", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let Some(dims) = cx.shape(0).dims() else {
                return Ok(());
            };
            if dims.is_empty() || dims.len() % 2 != 0 {
                return Err(InferError::Rank {
                    input: 0,
                    expected: "an even number of".to_owned(),
                    found: cx.shape(0).clone(),
                });
            }
            let (left, right) = dims.split_at(dims.len() / 2);
            let half = |dims: &[Option<usize>]| Shape::partial(dims.iter().copied());
            let (left, right) = (half(left), half(right));
            let shape = left.merge(&right).ok_or(InferError::Mismatch {
                what: "both halves of the dimensions must be the same".to_owned(),
                left,
                right,
            })?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            smallvec![Some(g.graph().op("Diag").input(g.grad()).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(diagonal)],
};

fn diagonal(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let n = p.outputs[0].elements();
    index_map(p, &[0], move |i| ElementSource::From {
        input: 0,
        at: i * (n + 1),
        step: n + 1,
        len: n - i,
    })
}
