//! Qr: QR decompositions.

use smallvec::smallvec;
use thalweg_cpu::isa::Isa;
use thalweg_cpu::linalg::complex;
use thalweg_cpu::qr::{Qr, qr};
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg, bool_attr, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::{checked_elements, elements};
use thalweg_tensor::{DType, Element, Shape, dispatch};

use super::qr_gradient::qr_gradient;
use crate::support::widened::widened;

/// Shape rule: `[.., m, n]` gives `[.., m, p]` and `[.., p, n]`.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = cx.shape(0).clone();
    let Some(dims) = shape.dims() else {
        return Ok(());
    };
    let &[ref batch @ .., m, n] = dims else {
        return Err(InferError::Rank {
            input: 0,
            expected: "at least 2".to_owned(),
            found: shape,
        });
    };
    let inner = match cx.attrs().bool("full_matrices") {
        true => m,
        false => m.zip(n).map(|(m, n)| m.min(n)),
    };
    for (output, matrix) in [(0, [m, inner]), (1, [inner, n])] {
        let shape = Shape::partial([batch, &matrix].concat());
        if let Some(dims) = shape.to_dims()
            && checked_elements(&dims).is_none_or(|n| n > isize::MAX as usize)
        {
            return Err(InferError::Value {
                input: 0,
                reason: format!("a tensor of shape {shape} is too large"),
            });
        }
        cx.set(output, shape);
    }
    Ok(())
}

/// Decomposes matrices into one with orthonormal columns and an upper triangular one.
pub(crate) static QR: Op = Op {
    def: OpDef {
        name: "Qr",
        summary: "Each matrix as the product of one with orthonormal columns and an upper triangular one, with LAPACK's signs.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("q", "T"), arg("r", "T")],
        attrs: &[
            bool_attr("full_matrices", false),
            type_attr(
                "T",
                &[DType::F16, DType::F32, DType::F64, DType::C64, DType::C128],
            ),
        ],
        shape,
        gradient: Gradient::Rule(|g| smallvec![Some(qr_gradient(g))]),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        widened(p, &[0], &[0, 1], &|p| {
            dispatch!(p.dtype(0), [F32 F64], T => kernel::<T>(p, Qr::scratch, qr), else match p.dtype(0) {
                DType::C128 => kernel(p, complex::qr_scratch, |_, g, a, q, r, scratch| complex::qr(g, a, q, r, scratch)),
                other => Err(KernelError::DType(other)),
            })
        })
    })],
};

/// Function that decomposes a matrix.
type QrFn<T> = fn(Isa, &Qr, &[T], &mut [T], &mut [T], &mut [T]);

fn kernel<T: Element>(
    p: &Prepare<'_>,
    scratch: fn(&Qr) -> Option<usize>,
    qr: QrFn<T>,
) -> Result<Prepared, KernelError> {
    let &[ref batch @ .., rows, columns] = p.dims(0) else {
        return Err(KernelError::Argument("a matrix"));
    };
    let full = p.node.attrs.bool("full_matrices");
    let g = Qr {
        rows,
        columns,
        full,
    };
    let inner = g.inner();
    let a_lot = || KernelError::Invalid(format!("a matrix of {rows} x {columns} is too large"));
    let scratch = scratch(&g).ok_or_else(a_lot)?;
    let bytes = scratch.checked_mul(size_of::<T>()).ok_or_else(a_lot)?;
    // Without columns q is empty, and so is r.
    let matrices = match inner {
        0 => 0,
        _ => elements(batch),
    };
    let work = p.inputs[0].elements().saturating_mul(4 * inner);
    let run = Prepared::new(work, move |cx| {
        let (a, q, r) = (cx.input::<T>(0)?, cx.output::<T>(0)?, cx.output::<T>(1)?);
        let scratch = cx.scratch::<T>(scratch)?;
        let isa = cx.cpu().isa();
        for i in 0..matrices {
            let (a, q) = (&a[i * rows * columns..], &mut q[i * rows * inner..]);
            qr(isa, &g, a, q, &mut r[i * inner * columns..], scratch);
        }
        Ok(())
    });
    Ok(run.with_scratch(bytes))
}
