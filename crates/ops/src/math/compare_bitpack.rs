//! CompareAndBitpack.

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, Tensor, dispatch};

use crate::support::shape_inputs::invalid_value;
use crate::support::shapes::expect_scalar;

const COMPARED: &[DType] = &[
    DType::Bool,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
];
/// Results in one byte.
const BITS: usize = 8;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    expect_scalar(cx, 1)?;
    let Some(dims) = cx.shape(0).dims() else {
        return Ok(());
    };
    let Some((last, outer)) = dims.split_last() else {
        return Err(InferError::Rank {
            input: 0,
            expected: "at least 1".to_owned(),
            found: cx.shape(0).clone(),
        });
    };
    if last.is_some_and(|n| n % BITS != 0) {
        let reason = format!(
            "Inner dimension of {} must be a multiple of {BITS}",
            cx.shape(0)
        );
        return Err(invalid_value(0, reason));
    }
    let bytes = last.map(|n| n / BITS);
    let all = outer.iter().copied().chain([bytes]);
    cx.set(0, Shape::partial(all));
    Ok(())
}

/// Packs a truth of each element into bits, the first into the highest.
fn pack<T: Element>(
    cx: &TensorCx<'_>,
    is_set: impl Fn(T) -> bool,
) -> Result<Vec<Tensor>, KernelError> {
    let mut dims = cx.tensor(0)?.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last /= BITS;
    }
    let mut packed = cx.zeros(DType::U8, &dims)?;
    let (mut stop, groups) = (cx.stop_check(), cx.slice::<T>(0)?.chunks_exact(BITS));
    for (to, group) in packed.as_mut_slice::<u8>()?.iter_mut().zip(groups) {
        stop.tick()?;
        *to = group
            .iter()
            .fold(0, |bits, &x| bits << 1 | u8::from(is_set(x)));
    }
    Ok(vec![packed])
}

fn above<T: Number>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let threshold = cx.tensor(1)?.to_scalar::<T>()?;
    pack(cx, |x: T| x > threshold)
}

/// Compares and packs.
pub(crate) static COMPARE_AND_BITPACK: Op = Op {
    def: OpDef {
        name: "CompareAndBitpack",
        summary: "One bit for each element: it is above the threshold. Eight make a byte; bools are taken as they are.",
        inputs: &[arg("input", "T"), arg("threshold", "T")],
        outputs: &[arg_of("output", DType::U8)],
        attrs: &[type_attr("T", COMPARED)],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| match cx.tensor(0)?.dtype() {
        DType::Bool => pack(cx, |x: bool| x),
        dtype => {
            dispatch!(dtype, NUMBERS, T => above::<T>(cx), else Err(KernelError::DType(dtype)))
        }
    })],
};
