//! Betainc.

use smallvec::smallvec;
use thalweg_cpu::parallel::for_chunks;
use thalweg_cpu::special::{betainc, betainc_single};
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, InputGradients, arg, type_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef};
use thalweg_tensor::{DType, dispatch};

use super::broadcast::sum_to;
use crate::support::elementwise::CHUNK;
use thalweg_cpu::number::Number;

/// Estimated nanoseconds of an element.
const COST: u64 = 300;

/// Inputs are scalars or of one shape, which is the output's.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let mut all = cx.shape(0).clone();
    for i in 1..3 {
        let other = cx.shape(i).clone();
        all = match (all.rank(), other.rank()) {
            (Some(0), _) => other,
            (_, Some(0)) => all,
            _ => all.merge(&other).ok_or(InferError::Mismatch {
                what: format!("input {i} must be a scalar or of the shape of the others"),
                left: other,
                right: all,
            })?,
        };
    }
    cx.set(0, all);
    Ok(())
}

fn prepare<T: Number>(p: &Prepare<'_>) -> Prepared {
    let n = p.outputs[0].elements();
    let each = [0, 1, 2].map(|i| !p.dims(i).is_empty());
    let of = match T::DTYPE {
        DType::F64 => betainc,
        _ => betainc_single,
    };
    let prepared = Prepared::new(n, move |cx| {
        let inputs = [cx.input::<T>(0)?, cx.input::<T>(1)?, cx.input::<T>(2)?];
        for_chunks(cx.pool(), cx.output::<T>(0)?, CHUNK, &|task, part| {
            for (i, out) in part.iter_mut().enumerate() {
                let at = |input: usize| {
                    let i = if each[input] { task * CHUNK + i } else { 0 };
                    inputs[input][i].to_f64()
                };
                *out = T::from_f64(of(at(0), at(1), at(2)));
            }
        });
        Ok(())
    });
    prepared.with_cost(20 + (n as u64).saturating_mul(COST))
}

/// By x alone, as in TensorFlow.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, a, b, x) = (g.graph(), g.input(0), g.input(1), g.input(2));
    let of = |op, v| graph.op(op).input(v).output();
    let scaled = |op, factor, v| graph.op(op).input(factor).input(v).output();
    let log_beta = of("Lgamma", a) + of("Lgamma", b) - of("Lgamma", a + b);
    let powers = scaled("Xlog1py", b - 1.0, -x) + scaled("Xlogy", a - 1.0, x);
    let slope = g.grad() * of("Exp", powers - log_beta);
    // If x is a scalar beside vectors, its gradient is a sum.
    smallvec![None, None, Some(sum_to(slope, x, a + b))]
}

/// The incomplete beta function.
pub(crate) static BETAINC: Op = Op {
    def: OpDef {
        name: "Betainc",
        summary: "The regularized incomplete beta function I_x(a, b); an input may be a scalar beside others.",
        inputs: &[arg("a", "T"), arg("b", "T"), arg("x", "T")],
        outputs: &[arg("z", "T")],
        attrs: &[type_attr("T", &[DType::F32, DType::F64])],
        shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(0), [F32 F64], T => Ok(prepare::<T>(p)), else Err(KernelError::DType(p.dtype(0)))),
    )],
};
