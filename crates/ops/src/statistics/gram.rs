//! _GramMatrix: the products of all columns of a tall matrix.

use thalweg_cpu::Tiled;
use thalweg_cpu::gram::{Gram, GramInputs, gram};
use thalweg_cpu::number::{Number, Wide};
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::inputs::{check_finite, check_weight_values, check_weights, columns, matrix, too_large};

/// Inputs of passes over rows.
pub(super) const ROWS: [Arg; 4] = [
    arg("x", "T"),
    arg("y", "T"),
    arg("weights", "T"),
    arg_of("shift", DType::F64),
];
/// Dtypes of rows.
pub(super) const ROW_DTYPES: &[AttrDef] = &[type_attr("T", &[DType::F32, DType::F64])];

/// Shape rule of passes over rows: a square matrix over the columns of ones, `x` and `y`.
pub(super) fn row_pass(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (x, y) = (columns(cx, 0)?, columns(cx, 1)?);
    let rows = |shape: &Shape| {
        shape
            .dims()
            .and_then(|dims| dims.first().copied().flatten())
    };
    if let (Some(left), Some(right)) = (rows(cx.shape(0)), rows(cx.shape(1)))
        && left != right
    {
        return Err(InferError::Mismatch {
            what: "x and y must have the same number of rows".to_owned(),
            left: cx.shape(0).clone(),
            right: cx.shape(1).clone(),
        });
    }
    check_weights(cx, 2)?;
    let shift = cx.ranked(3, 1)?;
    let both = x.zip(y).and_then(|(x, y)| x.checked_add(y));
    if let (Some([Some(found)]), Some(wanted)) = (shift.dims(), both)
        && *found != wanted
    {
        return Err(InferError::Value {
            input: 3,
            reason: format!("it has {found} elements, for {wanted} columns of x and y"),
        });
    }
    let all = both.and_then(|n| n.checked_add(1));
    cx.set(0, matrix(all, all)?);
    Ok(())
}

/// The shape of the rows of a node.
pub(super) fn rows_of(p: &Prepare<'_>) -> Result<Gram, KernelError> {
    match (p.dims(0), p.dims(1)) {
        (&[rows, x], &[_, y]) => Ok(Gram { rows, x, y }),
        _ => Err(KernelError::Argument("two matrices")),
    }
}

/// The inputs of a pass over rows.
pub(super) fn row_inputs<'a, T: Number>(
    cx: &KernelCx<'a>,
) -> Result<GramInputs<'a, T>, KernelError> {
    let weights = cx.input::<T>(2)?;
    Ok(GramInputs {
        x: cx.input(0)?,
        y: cx.input(1)?,
        weights: (!weights.is_empty()).then_some(weights),
        shift: cx.input(3)?,
    })
}

/// The reason why the result of a pass over rows is not finite.
pub(super) fn unusable_rows<T: Number>(g: &Gram, inputs: &GramInputs<'_, T>) -> KernelError {
    let checked = check_finite(0, inputs.x, g.x)
        .and_then(|()| check_finite(1, inputs.y, g.y))
        .and_then(|()| check_weight_values(2, inputs.weights.unwrap_or_default()));
    checked.err().unwrap_or_else(too_large)
}

/// Dtypes of rows and of their products.
const GRAM_DTYPES: &[AttrDef] = &[
    type_attr("T", &[DType::F32, DType::F64]),
    type_attr_or("P", &[DType::F32, DType::F64], DType::F64),
];

/// `Z' W Z`, where Z has a column of ones, x and y, less their shift.
pub(crate) static GRAM_MATRIX: Op = Op {
    def: OpDef {
        name: "_GramMatrix",
        summary: "The products of all columns of a tall matrix, in f64: of ones, x and y less their shift, with a weight for each row. Products are made in P: those in f32 are infinite where they are too large.",
        inputs: &ROWS,
        outputs: &[arg_of("gram", DType::F64)],
        attrs: GRAM_DTYPES,
        shape: |cx| {
            if cx.dtype(0) == DType::F64 && cx.attrs().dtype("P") == Some(DType::F32) {
                let reason = "rows of f64 need products in f64".to_owned();
                return Err(InferError::Value { input: 0, reason });
            }
            row_pass(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| match (p.dtype(0), p.node.attrs.dtype("P")) {
        (DType::F32, Some(DType::F32)) => kernel::<f32, f32>(p),
        (DType::F32, _) => kernel::<f32, f64>(p),
        (DType::F64, _) => kernel::<f64, f64>(p),
        (dtype, _) => Err(KernelError::DType(dtype)),
    })],
};

fn kernel<T: Wide, P: Wide + Tiled>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = rows_of(p)?;
    let too_wide = || {
        KernelError::Invalid(format!(
            "sums of {} columns do not fit into memory: leave columns out",
            g.columns()
        ))
    };
    let scratch = g.scratch::<P>(p.cpu.isa(), p.cpu.pool().threads());
    let scratch = scratch.ok_or_else(too_wide)?;
    let work = g
        .rows
        .saturating_mul(g.columns())
        .saturating_mul(g.columns());
    let run = Prepared::new(work, move |cx| {
        let inputs = row_inputs::<T>(cx)?;
        let out = cx.output::<f64>(0)?;
        let cpu = thalweg_cpu::Cpu {
            pool: cx.pool(),
            isa: cx.cpu().isa(),
        };
        gram::<T, P>(cpu, &g, &inputs, out, cx.scratch(scratch)?);
        match P::DTYPE != DType::F64 || out.iter().all(|x| x.is_finite()) {
            true => Ok(()),
            false => Err(unusable_rows(&g, &inputs)),
        }
    });
    Ok(run.with_scratch(scratch))
}
